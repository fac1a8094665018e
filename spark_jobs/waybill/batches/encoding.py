"""Rows of `changes` into rows of `outbox`: the unit that Spark and the command line share.

An object keeps what it has learnt, so one serves one task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from waybill.batches.bulk_threshold import BulkThreshold

if TYPE_CHECKING:
    import pyarrow as pa

    from waybill.batches.bulk_encoding import BulkMessageBatches
    from waybill.bulk.templates import BulkWriter
    from waybill.protocol import Encoder
    from waybill.records import TableSchema
from waybill.batches.message_rows import MessageRows


class MessageBatches(MessageRows):
    """Encodes rows of `changes` into rows of `outbox` for one target.

    Args:
        encoder: the target envelope's encoder.
        target: name of the target in the migration.
        batch_id: the batch that the messages belong to.
        schemas: every schema of the batch by its id.
        bulk_writer: made of the encoder, says where the values of many messages come from; None
            where every change is encoded on its own.
    """

    def __init__(
        self,
        encoder: Encoder,
        target: str,
        batch_id: str,
        schemas: dict[str, TableSchema],
        bulk_writer: Callable[[Any], BulkWriter] | None = None,
    ) -> None:
        super().__init__(encoder, target, batch_id, schemas)
        self._threshold = BulkThreshold(
            None if bulk_writer is None else lambda: self._by_bulk(bulk_writer)
        )

    def convert(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of `outbox` for every change of `batches`."""
        for batch in batches:
            bulk = self._threshold.of(batch.nbytes)
            if bulk is None:
                rows, _ = self.tuples(batch)
                yield self.batch_of(rows)
            else:
                in_bulk = bulk.in_bulk
                made = bulk.rows(batch)
                self._threshold.paid(batch.num_rows, bulk.in_bulk - in_bulk)
                yield made

    def _by_bulk(self, writer: Callable[[Any], BulkWriter]) -> BulkMessageBatches:
        from waybill.batches.bulk_encoding import BulkMessageBatches

        return BulkMessageBatches(self, writer(self.encoder))
