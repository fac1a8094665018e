"""Archive batches into rows of `changes`: the unit that Spark and the command line share.

An object keeps what it has learnt, so one serves one task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from waybill.batches.bulk_threshold import BulkThreshold

if TYPE_CHECKING:
    import pyarrow as pa

    from waybill.batches.bulk_decoding import BulkChangeBatches
    from waybill.bulk.field_map import BulkReader
    from waybill.envelopes.pairs import PairJoiner
    from waybill.protocol import Decoder
from waybill.batches.change_rows import ChangeRows
from waybill.batches.messages import messages_of


class ChangeBatches(ChangeRows):
    """Decodes archive batches into rows of `changes`.

    Args:
        decoder: the source envelope's decoder.
        batch_id: the batch that brings the messages.
        joiner: joins the halves of updates, None where the envelope has none.
        bulk_reader: made of the decoder, says what the values of many messages mean; None where
            every message is decoded on its own.
        alone: whether the messages of a batch are decoded on their own all the same.
    """

    def __init__(
        self,
        decoder: Decoder,
        batch_id: str,
        joiner: PairJoiner | None = None,
        bulk_reader: Callable[[Any], BulkReader] | None = None,
        alone: Callable[[pa.RecordBatch], bool] | None = None,
    ) -> None:
        super().__init__(decoder, batch_id, joiner)
        self._alone = alone
        self._threshold = BulkThreshold(
            None if bulk_reader is None else lambda: self._by_bulk(bulk_reader)
        )

    def convert(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of `changes` for every message of `batches`, halves without partner last."""
        for batch in batches:
            bulk = self._threshold.of(batch.nbytes)
            if bulk is None or (self._alone is not None and self._alone(batch)):
                yield self.rows(self.changes(messages_of(batch)))
            else:
                in_bulk = bulk.in_bulk
                rows = bulk.rows(batch)
                self._threshold.paid(batch.num_rows, bulk.in_bulk - in_bulk)
                yield rows
        if self.joiner is not None:
            rest = self.joiner.rest()
            if rest:
                yield self.rows(rest)

    def _by_bulk(self, reader: Callable[[Any], BulkReader]) -> BulkChangeBatches:
        from waybill.batches.bulk_decoding import BulkChangeBatches

        return BulkChangeBatches(self, reader(self.decoder))
