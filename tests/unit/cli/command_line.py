"""The command line, here or as a process, and a file for it to read."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pytest
import typer

from tests.unit.inprocess.test_converter import history
from waybill.cli import app as application
from waybill.cli import main

PROJECT = Path(__file__).resolve().parents[3]
CONVERT = [sys.executable, "-m", "waybill.cli", "convert", "--from", "canal", "--to", "canal"]


def waybill_process(*words: object, given: bytes | None = None, **environment: str):
    """Run the command as people do: in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "waybill.cli", *map(str, words)],
        input=given,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT / "spark_jobs"), **environment},
    )


@cache
def command():
    """All commands and their options, which the command line reads anew in each process."""
    return typer.main.get_command(application.app)


def waybill(*words: object, given: bytes = b"", **environment: str):
    """Run the command in this process, into pipes.

    A process of its own loads all libraries anew each time, and does nothing else for seconds.
    """
    printed, said = io.BytesIO(), io.BytesIO()
    with (
        patch.dict(os.environ, environment),
        patch.object(application, "app", command()),
        patch.object(sys, "stdin", text_over(io.BytesIO(given))),
        redirect_stdout(text_over(printed)) as out,
        redirect_stderr(text_over(said)) as errors,
        pytest.raises(SystemExit) as end,
    ):
        main([*map(str, words)])
    out.flush()
    errors.flush()
    line = ["waybill", *map(str, words)]
    return subprocess.CompletedProcess(line, end.value.code, printed.getvalue(), said.getvalue())


def text_over(stream: io.BytesIO) -> io.TextIOWrapper:
    """A stream of text that leaves its bytes with another."""
    return io.TextIOWrapper(stream, encoding="utf-8", write_through=True)


def messages_in(folder: Path) -> Path:
    """A file of six good messages and a bad one."""
    path = folder / "in.jsonl"
    path.write_bytes(b"\n".join([*history(6), b"{", b""]))
    return path
