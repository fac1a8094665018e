"""Changes as rows of `outbox`, encoded individually: the exact way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa

from waybill.batches.messages import envelope_fault
from waybill.batches.record_batches import record_batch
from waybill.errors import Refusal, WaybillError
from waybill.lake_columns import CHANGES, OUTBOX, columns_of
from waybill.order import read_order_key
from waybill.protocol import Encoded, Encoder
from waybill.records import NO_TABLE, ROW_OPERATIONS, Change, Message, TableSchema
from waybill.row_times.zoned import count_zones

CHANGE = columns_of(
    CHANGES,
    *("topic", "partition", "offset", "index", "operation", "old_key", "before", "after"),
    *("order_key", "transaction", "ddl_text", "schema_id", "extra", "source_time"),
)
"""What encoders need of a row of `changes`, in the order in which `changes_of` unpacks it."""

_json = msgspec.json.Encoder().encode
_NO_MESSAGE = [Encoded(None, None)]


class MessageRows:
    """Encodes rows of `changes` into rows of `outbox` for one target, individually and exactly.

    Args:
        encoder: the target envelope's encoder.
        target: name of the target in the migration.
        batch_id: the batch that the messages belong to.
        schemas: every schema of the batch by its id.
    """

    def __init__(
        self,
        encoder: Encoder,
        target: str,
        batch_id: str,
        schemas: dict[str, TableSchema],
    ) -> None:
        self.encoder = encoder
        self.target = target
        self.batch_id = batch_id
        self.schemas = schemas

    @staticmethod
    def batch_of(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        """A record batch of rows of `outbox`."""
        return record_batch(rows, OUTBOX)

    def tuples(self, batch: pa.RecordBatch) -> tuple[list[tuple[Any, ...]], list[int]]:
        """The rows of the changes of a batch, and how many each change has."""
        rows: list[tuple[Any, ...]] = []
        counts: list[int] = []
        for change in changes_of(batch, self.schemas):
            made = self._rows(change)
            rows += made
            counts.append(len(made))
        return rows, counts

    def _rows(self, change: Change) -> list[tuple[Any, ...]]:
        losses: list[str] = []
        outcome, kind, reason = "ok", None, None
        written: list[Encoded] = []
        try:
            written = self.encoder.encode(change, losses)
            if written:
                count_zones(change, losses)
        except Refusal as refusal:
            outcome, kind, reason = "refused", refusal.kind, refusal.sentence
            # What is refused is lost nowhere: it stands in quarantine.
            losses.clear()
        except WaybillError:
            raise
        except Exception as error:
            raise envelope_fault("writing the change", change.message, error) from error
        else:
            if not written:
                outcome = "skipped"
        message = change.message
        # The lake keeps no time of the queue beside a change, but that of the source.
        micros = change.source_time if message.timestamp is None else message.timestamp * 1000
        return [
            (
                self.target,
                message.topic,
                message.partition,
                message.offset,
                change.index,
                i,
                self.batch_id,
                change.schema.qualified_name,
                change.order_key,
                micros,
                out.key,
                out.value,
                None if out.headers is None else [{"key": k, "value": v} for k, v in out.headers],
                (losses or None) if i == 0 else None,
                outcome,
                kind,
                reason,
            )
            for i, out in enumerate(written or _NO_MESSAGE)
        ]


def changes_of(batch: pa.RecordBatch, schemas: dict[str, TableSchema]) -> Iterator[Change]:
    """The changes that rows of `changes` stand for (accepted rows only)."""
    columns = {name: batch.column(name) for name in CHANGE.names}
    columns["source_time"] = columns["source_time"].cast(pa.int64())
    for row in zip(*(column.to_pylist() for column in columns.values()), strict=True):
        (
            topic,
            partition,
            offset,
            index,
            operation,
            old_key,
            before,
            after,
            order,
            transaction,
            ddl_text,
            schema_id,
            extra,
            source_time,
        ) = row
        schema = NO_TABLE if schema_id is None else schemas[schema_id]
        decode = schema.image_decoder.decode
        moved_from = None
        if old_key is not None:
            moved_from = msgspec.json.decode(old_key, type=schema.Key)
        sequence, rank, full_row = read_order_key(order)
        yield Change(
            operation,
            schema,
            Message(topic, partition, offset, None, None, None),
            index=index,
            before=None if before is None else decode(before),
            after=None if after is None else decode(after),
            sequence=sequence,
            rank=rank,
            full_row=full_row,
            moved_from=moved_from,
            source_time=source_time,
            transaction=transaction,
            ddl_text=ddl_text,
            extra=None if extra is None else extra.encode(),
        )


def text_of(change: Change, name: str) -> str | None:
    """What a column of `changes` holds of a change."""
    if name == "operation":
        return change.operation
    if name == "ddl_text":
        return change.ddl_text
    if name == "extra":
        return None if change.extra is None else change.extra.decode()
    if change.operation not in ROW_OPERATIONS:
        return None
    if name == "key":
        image = change.key_image()
    elif name == "old_key":
        image = change.old_key_image()
    else:
        image = change.before if name == "before" else change.after
    return None if image is None else _json(image).decode()
