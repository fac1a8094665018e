"""Rows of `changes` into rows of `outbox` for a target that maps them first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waybill.batches.arrow_blocks import one_batch
from waybill.batches.encoding import MessageBatches
from waybill.batches.mapped_changes import MappedChanges
from waybill.lake_columns import CHANGE_PLACE, OUTBOX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from waybill.bulk.templates import BulkWriter
    from waybill.mapping.rules import Rules
    from waybill.protocol import Encoder
    from waybill.records import TableSchema


class MappedMessageBatches:
    """Maps and encodes rows of `changes`; see `MessageBatches`.

    Args:
        rules: the target's mapping.
        encoder: the target envelope's encoder.
        target: name of the target in the migration.
        batch_id: the batch that the messages belong to.
        schemas: every schema of the batch by its id.
        bulk_writer: see `MessageBatches`.
    """

    def __init__(
        self,
        rules: Rules,
        encoder: Encoder,
        target: str,
        batch_id: str,
        schemas: dict[str, TableSchema],
        bulk_writer: Callable[[Any], BulkWriter] | None = None,
    ) -> None:
        self._mapped = MappedChanges(rules, schemas)
        self._given = schemas
        self._target, self._batch_id = target, batch_id
        self._work = MessageBatches(encoder, target, batch_id, self._mapped.schemas, bulk_writer)

    def convert(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of `outbox` for every change of `batches`; one that is left out has one, skipped."""
        for batch in batches:
            rows, why, sentences, _ = self._mapped.map(pa.Table.from_batches([batch]))
            out = np.asarray(pc.is_valid(why))
            if not out.any():
                yield from self._work.convert(_batches(rows))
                continue
            mask: Any = pa.array(out)
            reasons = [column.filter(mask) for column in (why, sentences)]
            left_out = self._left_out(batch.filter(mask), *reasons)
            kept = rows.filter(pa.array(~out))
            made = [*self._work.convert(_batches(kept))] if kept.num_rows else []
            places = [np.flatnonzero(out)]
            for messages in made:
                # Those of one change are neighbours, numbered from 0.
                number = np.cumsum(np.asarray(messages.column("message")) == 0) - 1
                places.append(np.flatnonzero(~out)[number])
            order = np.argsort(np.concatenate(places), kind="stable")
            yield one_batch(pa.Table.from_batches([left_out, *made]), order)

    def _left_out(self, changes: pa.RecordBatch, why: Any, sentences: Any) -> pa.RecordBatch:
        """The rows of changes that are left out."""
        size = changes.num_rows
        names = [
            None if one is None else self._given[one].qualified_name
            for one in changes.column("schema_id").to_pylist()
        ]
        filled: dict[str, Any] = {
            **{name: changes.column(name) for name in (*CHANGE_PLACE, "order_key")},
            "target": pa.repeat(self._target, size),
            "message": pa.repeat(pa.scalar(0, pa.int32()), size),
            "batch": pa.repeat(self._batch_id, size),
            "table": pa.array(names, pa.string()),
            "timestamp": changes.column("source_time"),
            "outcome": pc.if_else(
                pc.is_valid(sentences), pa.scalar("refused"), pa.scalar("skipped")
            ),
            "reason_kind": why,
            "reason": sentences,
        }
        columns = [filled.get(f.name, pa.nulls(size, f.type)) for f in OUTBOX]
        return pa.RecordBatch.from_arrays(columns, schema=OUTBOX)


def _batches(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    return iter(rows.combine_chunks().to_batches())
