"""Decodes archive batches: most messages in bulk, the others individually, in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from waybill.batches.arrow_blocks import messages_block, one_batch
from waybill.batches.bulk_halves import joined
from waybill.batches.written_changes import changes_of, skipped_of, storable
from waybill.bulk import kernels
from waybill.bulk.forms import FEWEST, Forms
from waybill.bulk.rows import merged

if TYPE_CHECKING:
    from waybill.batches.change_rows import ChangeRows
    from waybill.bulk.arena import Places
    from waybill.bulk.block import Block
    from waybill.bulk.field_map import BulkReader
    from waybill.bulk.rows import Rows
    from waybill.records import Change


class BulkChangeBatches:
    """Decodes batches for `ChangeRows`, which takes the rest.

    Args:
        work: decodes one message after the other, and counts.
        reader: says what the values of messages mean.
        fewest: fewer messages of a batch of the same shape are decoded individually.
    """

    def __init__(self, work: ChangeRows, reader: BulkReader, fewest: int = FEWEST) -> None:
        self._work = work
        self._forms = Forms(work.decoder, reader, fewest)
        self._no_value = reader.no_value
        self._lead = self._forms.lead
        self.in_bulk = 0
        """Changes that were read in bulk so far."""

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of `changes` of the messages of a batch, in their order."""
        lead, self._lead = self._lead, 0
        if not 0 < lead < batch.num_rows:
            return self._rows(batch)
        parts = [self._rows(part) for part in (batch.slice(0, lead), batch.slice(lead))]
        rows = pa.Table.from_batches(parts)
        return one_batch(rows, np.arange(rows.num_rows))

    def _rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        work = self._work
        block = messages_block(batch)
        found, slow = self._forms.read(block)
        if work.joiner is not None:
            in_order = joined(found, block.size, work.joiner.waiting)
            found, slow = in_order.rows, np.concatenate([slow, in_order.apart])
            # The halves that were joined are messages and changes of their own.
            work.joiner.joined += in_order.updates
            work.decoded += in_order.updates
            work.messages += in_order.updates
        alone: dict[int, Change] = {}
        whole: list[Rows] = []
        for rows in merged(found, by_table=False):
            work.messages += len(rows)
            work.decoded += len(rows)
            good = storable(rows)
            alone.update(_changes(rows.take(~good)))
            kept = rows.take(good)
            if len(kept):
                whole.append(kept)
        parts: list[pa.Table] = []
        places: list[Any] = []
        if self._no_value:
            slow = self._skip_empty(block, slow, batch, parts, places)
        tuples, numbers = self._one_by_one(block, slow.tolist(), alone)
        for rows in whole:
            for row in rows.first_of_tables():
                schema_rows = work.schema_rows(rows.change(row))
                tuples += schema_rows
                numbers += [int(rows.places[row])] * len(schema_rows)
        if tuples:
            parts.append(pa.Table.from_batches([work.batch_of(tuples)]))
            places.append(np.array(numbers, np.int64))
        if whole:
            table, place = changes_of(whole, batch, work.batch_id)
            self.in_bulk += len(place)
            parts.append(table)
            places.append(place)
        if not parts:
            return work.batch_of([])
        made = pa.concat_tables(parts)
        order = kernels.in_order(np.concatenate(places), block.size)
        return one_batch(made, order)

    def _skip_empty(
        self,
        block: Block,
        slow: Places,
        batch: pa.RecordBatch,
        parts: list[pa.Table],
        places: list[Any],
    ) -> Places:
        """Add the rows of messages without a value; returns the numbers of all others."""
        work = self._work
        without = (block.begins[slow] < 0) & (block.offsets[slow] >= 0)
        empty = slow[without]
        if len(empty):
            work.messages += len(empty)
            work.decoded += len(empty)
            self.in_bulk += len(empty)
            parts.append(skipped_of(block, empty, batch, work.batch_id, self._no_value))
            places.append(empty)
        return slow[~without]

    def _one_by_one(
        self, block: Any, slow: list[int], alone: dict[int, Change]
    ) -> tuple[list[tuple[Any, ...]], list[int]]:
        """Rows of messages and changes on their own, and the number of the message of each."""
        work = self._work
        tuples: list[tuple[Any, ...]] = []
        numbers: list[int] = []
        by_place = dict(zip(slow, block.several(slow), strict=True))
        for number in sorted([*slow, *alone]):
            change = alone.get(number)
            changes = work.changes(iter([by_place[number]])) if change is None else iter([change])
            made = work.tuples(changes)
            tuples += made
            numbers += [number] * len(made)
        return tuples, numbers


def _changes(rows: Rows) -> dict[int, Change]:
    return {int(rows.places[row]): rows.change(row) for row in range(len(rows))}
