"""Keeps rows of one range of a topic together in data files, and sorts the files by it.

Stages read row groups in the order of the messages that their rows were made from, and the bounds
in the footers say which. A row group with the end of one partition and the beginning of another
has bounds that take in all of both, and would have to be sorted with them in memory.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from waybill.lake_columns import MESSAGE_PLACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

MOST_RUNS = 16
"""Rows of one batch are cut in so many pieces at most; where more would be apart, none are."""

JUMP = 50_000
"""A row whose offset is higher by more than that does not follow the one before: what lies between
may be in the reach of another task."""

Place = tuple[Any, ...]


def file_prefix(rows: pa.RecordBatch) -> str:
    """The beginning of the name of a data file, so that names sort as the first rows do.

    Topics sort by a checksum, as their names may be of any length. Empty where a row has no place.

    Args:
        rows: some rows with the columns of `MESSAGE_PLACE`.
    """
    if _lack_places(rows):
        return ""
    topic, partition, offset = _place(rows, 0)
    return f"{zlib.crc32(str(topic).encode()):08x}-{partition:010d}-{offset:019d}-"


class PlaceRuns:
    """Cuts rows where they stop following one another.

    That is at another partition, at a lower offset, and at one that is much higher. It knows the
    last row that it was given.
    """

    def __init__(self) -> None:
        self._last: Place | None = None

    def cut(self, rows: pa.RecordBatch) -> Iterator[tuple[bool, pa.RecordBatch]]:
        """Pieces of a batch, each with whether it follows the rows before it.

        Args:
            rows: some rows with the columns of `MESSAGE_PLACE`. If one has no place, they all
                follow whatever was before.
        """
        if not rows.num_rows or _lack_places(rows):
            yield True, rows
            return
        last, first = self._last, _place(rows, 0)
        self._last = _place(rows, rows.num_rows - 1)
        follows = last is None or (last[:2] == first[:2] and last[2] <= first[2] <= last[2] + JUMP)
        breaks = _breaks(rows)
        if len(breaks) >= MOST_RUNS:
            yield follows, rows
            return
        begins = [0, *breaks]
        for begin, end in zip(begins, [*breaks, rows.num_rows], strict=True):
            yield follows, rows.slice(begin, end - begin)
            follows = False


def _lack_places(rows: pa.RecordBatch) -> bool:
    return any(rows.column(name).null_count for name in MESSAGE_PLACE)


def _place(rows: pa.RecordBatch, number: int) -> Place:
    return tuple(rows.column(name)[number].as_py() for name in MESSAGE_PLACE)


def _breaks(rows: pa.RecordBatch) -> list[int]:
    """The numbers of rows that do not follow the one before."""
    import numpy as np

    topics, partitions, offsets = (rows.column(name) for name in MESSAGE_PLACE)
    if len(topics.unique()) > 1:
        topics = topics.dictionary_encode().indices
        apart = np.diff(np.asarray(topics)) != 0
    else:
        apart = np.zeros(rows.num_rows - 1, np.bool_)
    apart |= np.diff(np.asarray(partitions)) != 0
    steps = np.diff(np.asarray(offsets))
    apart |= (steps < 0) | (steps > JUMP)
    found: list[int] = (np.flatnonzero(apart) + 1).tolist()
    return found
