"""Encodes rows of `changes`: most of them in bulk, the others individually, in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from waybill.batches.arrow_blocks import one_batch, rows_of
from waybill.batches.stored_changes import StoredChanges
from waybill.batches.written_changes import tables_of
from waybill.bulk import kernels
from waybill.bulk.assembly import Given, packed
from waybill.bulk.forms import FEWEST
from waybill.bulk.rows import merged
from waybill.bulk.templates import Templates, Written
from waybill.lake_columns import CHANGE_PLACE, OUTBOX

if TYPE_CHECKING:
    from waybill.batches.message_rows import MessageRows
    from waybill.bulk.assembly import Filled, Nothing
    from waybill.bulk.templates import BulkWriter

_FROM_CHANGES = (*CHANGE_PLACE, "order_key")
_TEXTS = ("key", "value")


class BulkMessageBatches:
    """Encodes batches for `MessageRows`, which takes the rest.

    Args:
        work: encodes one change after the other.
        writer: says where the values of messages come from.
        fewest: fewer changes of a batch of the same shape are encoded individually.
    """

    def __init__(self, work: MessageRows, writer: BulkWriter, fewest: int = FEWEST) -> None:
        self._work, self._writer = work, writer
        self._stored = StoredChanges(work.schemas, writer, fewest)
        self._templates = Templates(work.encoder, writer, fewest)
        self.in_bulk = 0
        """Changes that were written in bulk so far."""

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of `outbox` of the changes of a batch, in their order."""
        found, slow = self._stored.read(batch)
        made: list[Written] = []
        left = [slow]
        for rows in merged(found, not self._writer.names_tables):
            rest = self._templates.write(rows, made)
            left += [some.places for some in rest]
        slow = np.sort(np.concatenate(left))
        tables, places = [], []
        texts: dict[str, list[Filled | Nothing | Given]] = {name: [] for name in _TEXTS}
        for written in made:
            self.in_bulk += len(written.rows)
            texts["key"] += written.keys
            texts["value"] += written.values
            for message in range(len(written.values)):
                tables.append(self._table(written, message, batch))
                places.append(written.rows.places)
        if len(slow):
            tuples, counts = self._work.tuples(rows_of(batch, slow))
            alone = self._work.batch_of(tuples)
            for name, given in texts.items():
                given.append(Given(alone.column(name)))
            tables.append(pa.Table.from_batches([alone.drop_columns(list(_TEXTS))]))
            places.append(np.repeat(slow, counts))
        if not tables:
            return self._work.batch_of([])
        order = kernels.in_order(np.concatenate(places), batch.num_rows)
        others = one_batch(pa.concat_tables(tables), order)
        columns: list[Any] = [
            packed(texts[field.name], order).array(field.type)
            if field.name in texts
            else others.column(field.name)
            for field in OUTBOX
        ]
        return pa.RecordBatch.from_arrays(columns, schema=OUTBOX)

    def _table(self, written: Written, message: int, batch: pa.RecordBatch) -> pa.Table:
        """One of the messages of some changes, as rows of `outbox` without keys and values."""
        rows, size = written.rows, len(written.rows)
        places: Any = pa.array(rows.places)
        losses = written.losses if message == 0 and written.losses else None
        one: dict[str, Any] = {
            "target": self._work.target,
            "message": message,
            "batch": self._work.batch_id,
            "losses": losses,
            "outcome": "ok",
        }
        columns = []
        fields = [field for field in OUTBOX if field.name not in _TEXTS]
        for field in fields:
            if field.name in _FROM_CHANGES:
                column = batch.column(field.name).take(places)
            elif field.name == "timestamp":
                column = batch.column("source_time").take(places)
            elif field.name == "table":
                column = tables_of(rows, lambda schema: schema.qualified_name)
            elif one.get(field.name) is None:
                column = pa.nulls(size, field.type)
            else:
                column = pa.repeat(pa.scalar(one[field.name], field.type), size)
            columns.append(column)
        return pa.Table.from_arrays(columns, schema=pa.schema(fields))
