"""The command line as a process, and a file for it to read."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from tests.unit.inprocess.test_converter import history
from waybill.cli import main

PROJECT = Path(__file__).resolve().parents[3]
CONVERT = [sys.executable, "-m", "waybill.cli", "convert", "--from", "canal", "--to", "canal"]


def waybill(*words: object, given: bytes | None = None, **environment: str):
    """Run the command as people do."""
    return subprocess.run(
        [sys.executable, "-m", "waybill.cli", *map(str, words)],
        input=given,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT / "spark_jobs"), **environment},
    )


def waybill_here(*words: object) -> tuple[int, str]:
    """How the command ends, and what it prints, when this process runs it.

    For what is said of many cases: a process of its own reads Great Expectations anew each time.
    """
    with redirect_stdout(StringIO()) as printed, pytest.raises(SystemExit) as end:
        main([*map(str, words)])
    return end.value.code, printed.getvalue()


def messages_in(folder: Path) -> Path:
    """A file of six good messages and a bad one."""
    path = folder / "in.jsonl"
    path.write_bytes(b"\n".join([*history(6), b"{", b""]))
    return path
