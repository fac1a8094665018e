"""Runs the command line on a terminal of a given width."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(width: int, *words: object) -> tuple[str, str]:
    """What stands on the terminal, with and without its colours."""
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
    )
    os.close(there)
    parts = []
    while True:
        try:
            part = os.read(here, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(here)
    process.wait()
    text = b"".join(parts).decode().replace("\r\n", "\n")
    return text, _COLOURS.sub("", text)
