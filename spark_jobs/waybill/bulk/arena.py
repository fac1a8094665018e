"""Bytes that many values are in, and where each of them is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from waybill.bulk.value_kinds import BAD, NULL_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

SPARE = 1 << 16
BEHIND = bytes(8)
"""What stands behind texts at least: that many bytes are looked at together."""


class Texts(NamedTuple):
    """One value of each of some rows, in an arena.

    Texts stand as in JSON, with the shortest escapes: two are equal if their bytes are.

    Attributes:
        starts: where each starts.
        lengths: how many bytes it has; `NULL_SIZE` for null, `BAD` where it cannot be had in bulk.
    """

    starts: Places
    lengths: Places

    def take(self, rows: Places | Mask) -> Texts:
        """Those of some rows."""
        return Texts(self.starts[rows], self.lengths[rows])

    @property
    def good(self) -> Mask:
        """Which rows have a value, or null."""
        good: Mask = self.lengths != BAD
        return good


class Arena:
    """Bytes that grow at the end.

    Args:
        first: the bytes to begin with.
    """

    def __init__(self, first: bytes | Bytes) -> None:
        given = np.frombuffer(first, np.uint8)
        self.data: Bytes = np.empty(len(given) * 3 + SPARE, np.uint8)
        self.data[: len(given)] = given
        self.size = len(given)

    def room(self, size: int) -> int:
        """Where the next `size` bytes may be written."""
        if self.size + size + len(BEHIND) > len(self.data):
            grown = np.empty((self.size + size) * 3 // 2 + SPARE, np.uint8)
            grown[: self.size] = self.data[: self.size]
            self.data = grown
        return self.size

    def add(self, text: bytes) -> int:
        """Append some bytes; returns where they start."""
        at = self.room(len(text))
        self.data[at : at + len(text)] = np.frombuffer(text, np.uint8)
        self.size = at + len(text)
        return at

    def text(self, texts: Texts, row: int) -> bytes | None:
        """The bytes of one value; None for null."""
        size = int(texts.lengths[row])
        if size < 0:
            return None
        start = int(texts.starts[row])
        return self.data[start : start + size].tobytes()

    def constant(self, text: bytes | None, rows: int) -> Texts:
        """The same value for every row."""
        start, size = (0, NULL_SIZE) if text is None else (self.add(text), len(text))
        return Texts(np.full(rows, start, np.int64), np.full(rows, size, np.int64))

    def each(self, texts: Texts, make: Callable[[bytes], bytes | None]) -> Texts:
        """What `make` gives for each value; None cannot be had in bulk. Nulls stay."""
        starts, lengths = np.zeros_like(texts.starts), texts.lengths.copy()
        known: dict[bytes, tuple[int, int]] = {}
        for row in np.flatnonzero(texts.lengths >= 0).tolist():
            text = self.text(texts, row) or b""
            place = known.get(text)
            if place is None:
                made = make(text)
                place = known[text] = (0, BAD) if made is None else (self.add(made), len(made))
            starts[row], lengths[row] = place
        return Texts(starts, lengths)


class Value(NamedTuple):
    """What stands at one place of some messages.

    Attributes:
        texts: the bytes.
        quoted: whether they are a text of JSON; else they are JSON as they are.
    """

    texts: Texts
    quoted: bool
