"""The command line as a process, and a file for it to read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.unit.inprocess.test_converter import history

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


def messages_in(folder: Path) -> Path:
    """A file of six good messages and a bad one."""
    path = folder / "in.jsonl"
    path.write_bytes(b"\n".join([*history(6), b"{", b""]))
    return path
