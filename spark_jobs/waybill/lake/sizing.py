"""Into what pieces Spark cuts a batch, from the bytes that the batch brings."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TypeVar

SHUFFLED = 8
"""Bytes of rows in a shuffle for one byte of compressed files."""

SMALLEST_PIECE, LARGEST_PIECE = 1 << 20, 64 << 20
"""Bytes of what one task reads or shuffles: less costs more to start than to do, more fills
memory."""

MOST_PIECES = 20_000

FOOTERS_AT_ONCE = 8
"""How many footers of data files are read at the same time."""

FEW_ROWS, FEW_BYTES, FEW_FILES = 200_000, 16 << 20, 100
"""So many rows, in so many bytes of so many files, are counted or looked for by whoever asks for
them: a query takes longer to begin."""

MOST_ROWS = 20_000
"""Rows that go to Python at once."""

BATCH_BYTES = 64 << 20
"""Bytes that rows which go to Python at once may take, were each of them the longest."""


def shuffle_partitions(size: int, cores: int) -> int:
    """How many pieces rows are shuffled into.

    Args:
        size: bytes of the files that hold the rows.
        cores: how many tasks run at once.
    """
    shuffled = size * SHUFFLED
    for_every_core = min(2 * cores, ceil(shuffled / SMALLEST_PIECE))
    return max(1, min(MOST_PIECES, max(for_every_core, ceil(shuffled / LARGEST_PIECE))))


def rows_per_batch(longest: int) -> int:
    """How many rows go to Python at once.

    Args:
        longest: bytes of the longest row.
    """
    return max(1, min(MOST_ROWS, BATCH_BYTES // max(1, longest)))


T = TypeVar("T")


def dealt(pieces: Sequence[T], sizes: Sequence[int], tasks: int) -> list[list[T]]:
    """Pieces for each task, neighbours together, of about as many bytes.

    Args:
        pieces: what is to be done, in order.
        sizes: bytes of each.
        tasks: how many tasks there are to be at most.
    """
    found: list[list[T]] = []
    done, each = 0, sum(sizes) / tasks
    for piece, size in zip(pieces, sizes, strict=True):
        if not found or done >= each * len(found):
            found.append([])
        found[-1].append(piece)
        done += size
    return found
