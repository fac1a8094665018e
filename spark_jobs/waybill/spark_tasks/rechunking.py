"""Small batches of Arrow joined to larger ones: each batch costs whoever takes it a fixed time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_PER_BATCH = 10_000
BYTES_PER_BATCH = 16 << 20
"""A batch has enough when it has one of these; more would fill memory."""


def larger(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of some thousand, the last one as small as it is."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= ROWS_PER_BATCH or size >= BYTES_PER_BATCH:
            yield from pa.Table.from_batches(held).combine_chunks().to_batches()
            held.clear()
            rows = size = 0
    if held:
        yield from pa.Table.from_batches(held).combine_chunks().to_batches()
