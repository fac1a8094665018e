"""Runs the command line on a terminal of a given width."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

SILENCE = 60
"""Seconds after which a command that says nothing is taken to wait for somebody."""

PROJECT = Path(__file__).resolve().parents[1]
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(width: int, *words: object) -> tuple[str, str]:
    """What stands on the terminal, with and without its colours."""
    text, plain, _ = conversation(width, [], *words)
    return text, plain


def conversation(
    width: int, answers: Sequence[tuple[str, str]], *words: object, folder: Path | None = None
) -> tuple[str, str, int]:
    """The same with somebody who answers, and how the command ends.

    Args:
        width: of the terminal.
        answers: what is waited for, and what is typed then.
        words: of the command.
        folder: where the command runs.

    Raises:
        AssertionError: the command ended without asking.
    """
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    environment["PYTHONPATH"] = str(PROJECT / "spark_jobs")
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
        environment.pop(name, None)
    process = subprocess.Popen(
        [sys.executable, "-m", "waybill.cli", *map(str, words)],
        stdin=there,
        stdout=there,
        stderr=there,
        env=environment,
        cwd=folder,
    )
    os.close(there)
    data, unanswered, seen = b"", list(answers), 0
    while True:
        if not select.select([here], [], [], SILENCE)[0]:
            # It asks something else, and would wait for ever.
            process.kill()
            break
        try:
            part = os.read(here, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        data += part
        said = _plain(data)
        while unanswered and (at := said.find(unanswered[0][0], seen)) >= 0:
            seen = at + len(unanswered[0][0])
            os.write(here, unanswered.pop(0)[1].encode())
    code = process.wait()
    os.close(here)
    assert not unanswered, f"{unanswered[0][0]!r} was not asked:\n{_plain(data)}"
    return data.decode().replace("\r\n", "\n"), _plain(data), code


def _plain(data: bytes) -> str:
    """A text without its colours; its last character may still be on the way."""
    return _COLOURS.sub("", data.decode("utf-8", "ignore").replace("\r\n", "\n"))
