"""Rows of `changes` of joined tables that are void because their table was emptied.

Most are left out as they are decoded. The halves of an update may meet later, and are known by the
column that says which table a row is from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waybill.lake_columns import CHANGES, MESSAGE_PLACE
from waybill.mapping.shards import VOID

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from waybill.mapping.shards import Floor

_read = msgspec.json.Decoder(dict[str, Any]).decode
_COLUMNS = (*MESSAGE_PLACE, "outcome", "order_key", "before", "after")


def skip_void(
    batches: Iterable[pa.RecordBatch],
    floors: Mapping[str, Floor],
    columns: Collection[str],
    by_source_time: bool,
) -> Iterator[pa.RecordBatch]:
    """Rows, of which those that are void are skipped.

    Args:
        batches: rows of `changes`.
        floors: where joined tables were emptied, by the source's names.
        columns: those that tell which table a row is from.
        by_source_time: whether times order what has no sequence id.
    """
    for batch in batches:
        values = [batch.column(name).to_pylist() for name in _COLUMNS]
        times = batch.column("source_time").cast(pa.int64()).to_pylist()
        void = np.zeros(batch.num_rows, np.bool_)
        for number, (*place, outcome, order, before, after) in enumerate(zip(*values, strict=True)):
            image = after or before
            if outcome != "ok" or image is None:
                continue
            row = _read(image)
            floor = next((floors[row[c]] for c in columns if row.get(c) in floors), None)
            stands = (place[0], place[1], place[2])
            if floor is not None and floor.voids(order, times[number], stands, by_source_time):
                void[number] = True
        yield _skipped(batch, void) if void.any() else batch


def _skipped(batch: pa.RecordBatch, void: Any) -> pa.RecordBatch:
    rows = pa.Table.from_batches([batch])
    mask: Any = pa.array(void)
    for name, text in (("outcome", "skipped"), ("reason_kind", VOID)):
        column: Any = rows.column(name).combine_chunks()
        values = pa.array([text] * int(void.sum()), column.type)
        at = rows.schema.get_field_index(name)
        edited = pc.replace_with_mask(column, mask, values)
        rows = rows.set_column(at, CHANGES.field(name), edited)
    (made,) = rows.combine_chunks().to_batches()
    return made
