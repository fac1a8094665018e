"""Texts made of what is the same for all rows and of values, written once: where they belong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from waybill.bulk import kernels
from waybill.bulk.arena import BEHIND
from waybill.bulk.arrow_texts import nulls_of, texts_of
from waybill.bulk.value_kinds import NULL_SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waybill.bulk.arena import Arena, Bytes, Mask, Places, Value

_LARGE = pa.large_binary()
_LONGEST = 2**31 - 1


class Filled:
    """A text of each of some rows, not written yet.

    Args:
        arena: where the values are.
        rows: how many rows there are.
        text: what is the same for all.
        cuts: where in it the part before each value begins, and where the last part begins and
            ends.
        values: what stands between.

    Attributes:
        sizes: how many bytes each text has.
    """

    def __init__(
        self, arena: Arena, rows: int, text: bytes, cuts: list[int], values: list[Value]
    ) -> None:
        self._arena = arena
        self._starts = np.empty((len(values), rows), np.int64)
        self._lengths = np.empty((len(values), rows), np.int64)
        for i, value in enumerate(values):
            self._starts[i], self._lengths[i] = value.texts
        self._quoted = np.array([value.quoted for value in values], np.bool_)
        self._text, self._cuts = np.frombuffer(text + BEHIND, np.uint8), np.array(cuts, np.int64)
        self.sizes: Places = np.empty(self._lengths.shape[1], np.int64)
        kernels.filled_sizes(self._cuts, self._lengths, self._quoted, self.sizes)

    def write(self, out: Bytes, places: Places) -> None:
        """Write each text where it belongs.

        Args:
            out: where; may be the arena.
            places: where in it each begins.
        """
        self._write(slice(None), out, places)

    def one(self, row: int) -> bytes:
        """One of the texts."""
        out = np.empty(self.sizes[row], np.uint8)
        self._write(slice(row, row + 1), out, np.zeros(1, np.int64))
        return out.tobytes()

    def _write(self, rows: slice, out: Bytes, places: Places) -> None:
        starts, lengths = (
            np.ascontiguousarray(part[:, rows]) for part in (self._starts, self._lengths)
        )
        same, values = (self._text, self._cuts), (starts, lengths, self._quoted)
        kernels.fill(self._arena.data, *same, *values, self.sizes[rows], out, places)


class Given:
    """Texts of a column of binary, some of which may be null.

    Attributes:
        sizes: as those of `Filled`; `NULL_SIZE` for null.
    """

    def __init__(self, column: pa.Array) -> None:  # type: ignore[type-arg]
        self._data, self._begins, ends = texts_of(column)
        self.sizes: Places = ends - self._begins
        if column.null_count:
            self.sizes[nulls_of(column)] = NULL_SIZE

    def write(self, out: Bytes, places: Places) -> None:
        """As that of `Filled`."""
        if len(self.sizes):
            kernels.put(self._data, self._begins, self.sizes, out, places)


class Nothing:
    """Null for each of some rows."""

    def __init__(self, rows: int) -> None:
        self.sizes: Places = np.full(rows, NULL_SIZE, np.int64)

    def write(self, out: Bytes, places: Places) -> None:
        """Null takes no bytes."""

    def one(self, row: int) -> None:
        """As that of `Filled`."""


class Packed(NamedTuple):
    """Texts that stand one after the other.

    Attributes:
        data: their bytes, and more.
        bounds: where each begins, and where the last ends.
        there: which are not null; None where all are.
    """

    data: Bytes
    bounds: Places
    there: Mask | None = None

    def array(self, kind: Any = _LARGE) -> pa.Array:  # type: ignore[type-arg]
        """The same as an array of binary or text.

        Raises:
            OverflowError: all texts together are longer than an array of the kind can be.
        """
        nulls = None
        if self.there is not None and not self.there.all():
            bits: Any = np.packbits(self.there, bitorder="little")
            nulls = pa.py_buffer(bits)
        bounds: Any = self.bounds
        if kind not in (_LARGE, pa.large_string()):
            if bounds[-1] > _LONGEST:
                raise OverflowError(f"{bounds[-1]} bytes of texts are too many for one {kind}")
            bounds = bounds.astype(np.int32)
        held: Any = self.data
        buffers = [nulls, pa.py_buffer(bounds), pa.py_buffer(held)]
        return pa.Array.from_buffers(kind, len(bounds) - 1, buffers)


def packed(
    texts: Sequence[Filled | Given | Nothing], order: Places | None = None, end: bytes = b""
) -> Packed:
    """Write texts one after the other.

    Args:
        texts: the texts; all of their rows are counted through.
        order: which of them are written, and in which order; all as they come if None.
        end: one byte that stands behind each.
    """
    sizes = np.concatenate([some.sizes for some in texts])
    sorted_sizes = sizes if order is None else sizes[order]
    bounds = np.zeros(len(sorted_sizes) + 1, np.int64)
    np.cumsum(np.maximum(sorted_sizes, 0) + len(end), out=bounds[1:])
    places = bounds[:-1]
    if order is not None:
        # Null, which takes no bytes, is all that is ever left out.
        places = np.zeros(len(sizes), np.int64)
        places[order] = bounds[:-1]
    out = np.empty(bounds[-1], np.uint8)
    at = 0
    for some in texts:
        some.write(out, places[at : at + len(some.sizes)])
        at += len(some.sizes)
    if end:
        out[bounds[1:] - 1] = ord(end)
    return Packed(out, bounds, sorted_sizes >= 0)


def array_of(texts: list[bytes | None]) -> pa.Array:  # type: ignore[type-arg]
    """Some texts as an array of binary.

    `pyarrow.array` loads pandas when it is given a list, which takes a third of a second.
    """
    there = np.array([text is not None for text in texts], np.bool_)
    offsets: Any = np.cumsum([0, *(len(text or b"") for text in texts)], dtype=np.int64)
    bits: Any = np.packbits(there, bitorder="little")
    nulls = None if there.all() else pa.py_buffer(bits)
    data = pa.py_buffer(b"".join(text for text in texts if text is not None))
    buffers = [nulls, pa.py_buffer(offsets), data]
    return pa.Array.from_buffers(_LARGE, len(texts), buffers)
