"""Keeps what Java prints at its start, before any setting can silence it, off the terminal."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

NOISE = (b"WARNING: Using incubator modules",)
"""How lines begin that Spark's own options make Java print at every start."""


@contextmanager
def filtered() -> Iterator[None]:
    """What a process started inside writes to its error output, then and later, without noise."""
    ours = os.dup(2)
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)
    # A daemon: it ends when the process at the other end does, or with this one.
    threading.Thread(target=_copy, args=(reading, ours), name="stderr-filter", daemon=True).start()
    try:
        yield
    finally:
        os.dup2(ours, 2)


def _copy(reading: int, writing: int) -> None:
    with open(reading, "rb", buffering=0) as lines:
        rest = b""
        while block := lines.read(65536):
            *whole, rest = (rest + block).split(b"\n")
            for line in whole:
                if not line.startswith(NOISE):
                    os.write(writing, line + b"\n")
    if rest:
        os.write(writing, rest)
    os.close(writing)
