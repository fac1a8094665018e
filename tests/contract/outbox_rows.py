"""Rows of the outbox, written in bulk and one by one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from waybill.batches.bulk_encoding import BulkMessageBatches
from waybill.batches.encoding import MessageBatches
from waybill.batches.message_rows import CHANGE
from waybill.envelopes import registry
from waybill.records import TableSchema

Schemas = dict[str, TableSchema]


def accepted_halves(table: pa.Table) -> tuple[list[pa.RecordBatch], Schemas]:
    """The accepted changes of rows of `changes`, in two batches, and the schemas by their ids."""
    schemas = {
        row["schema_id"]: TableSchema.from_json(row["extra"])
        for row in table.to_pylist()
        if row["outcome"] == "schema"
    }
    accepted = table.filter(pa.compute.equal(table["outcome"], "ok")).select(CHANGE.names)
    return accepted.combine_chunks().to_batches(max_chunksize=max(1, len(accepted) // 2)), schemas


def agree_on_the_outbox(
    target: str, settings: Any, batches: list[pa.RecordBatch], schemas: Schemas
) -> None:
    """Both ways write the same rows; `settings` are those of writing."""
    expected = encoded(target, settings, batches, schemas, bulk=False)
    found = encoded(target, settings, batches, schemas, bulk=True)
    for one, other in zip(expected, found, strict=True):
        assert one == other


def encoded(
    target: str,
    settings: Any,
    batches: list[pa.RecordBatch],
    schemas: Schemas,
    bulk: bool,
) -> list[Any]:
    envelope = registry.get(target)
    encoder = envelope.encoder(settings)  # type: ignore[misc]
    work = MessageBatches(encoder, "label", "batch", schemas)
    in_bulk = BulkMessageBatches(work, envelope.bulk_writer(encoder), fewest=1)  # type: ignore[misc]
    rows: list[Any] = []
    for batch in batches:
        made = in_bulk.rows(batch) if bulk else work.batch_of(work.tuples(batch)[0])
        rows += made.to_pylist()
    return rows
