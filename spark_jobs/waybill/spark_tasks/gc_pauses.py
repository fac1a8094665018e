"""Python's search for cycles of objects, which converting makes none of."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

RARELY = 200_000
"""New objects between two looks for cycles."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Look for cycles rarely: converting makes none, and looking costs some percent of the time."""
    before = gc.get_threshold()
    gc.set_threshold(RARELY, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
