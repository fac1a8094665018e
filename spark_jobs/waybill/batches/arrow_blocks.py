"""Blocks of messages, and of texts, that stand in columns of Arrow."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from waybill.batches.messages import messages_of
from waybill.bulk.arena import Arena
from waybill.bulk.arrow_texts import integers_of, nulls_of, texts_of
from waybill.bulk.block import Block, Scanned

if TYPE_CHECKING:
    from collections.abc import Iterable

    from waybill.bulk.arena import Bytes, Places
    from waybill.records import Message


class _Messages:
    """The messages of a batch, made when they are asked for."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._asked = 0

    @cached_property
    def _all(self) -> list[Message]:
        return list(messages_of(self._batch))

    def __call__(self, number: int) -> Message:
        self._asked += 1
        if self._asked > _FEW:
            return self._all[number]
        return next(messages_of(self._batch.slice(number, 1)))

    def several(self, numbers: list[int]) -> Iterable[Message]:
        """Some of the messages, all at a time."""
        if len(numbers) * 2 > self._batch.num_rows:
            return [self._all[number] for number in numbers]
        return messages_of(rows_of(self._batch, np.array(numbers, np.int64)))


_FEW = 400
"""So many messages are sooner made individually than with all others."""


def messages_block(batch: pa.RecordBatch) -> Block:
    """The messages of an archive batch; those with headers are not scanned."""
    rows = batch.num_rows
    apart = np.zeros(rows, np.bool_)
    names = batch.schema.names
    if "headers" in names and batch.column("headers").null_count < rows:
        headers = pa.compute.list_value_length(batch.column("headers")).fill_null(0)
        apart |= integers_of(headers) > 0
    times = None
    if "timestamp" in names and batch.column("timestamp").null_count < rows:
        micros = batch.column("timestamp").cast(pa.int64())
        apart |= nulls_of(micros)
        times = integers_of(micros.fill_null(0)) // 1000
    offsets = integers_of(batch.column("offset"))
    messages = _Messages(batch)
    partitions = integers_of(batch.column("partition"))
    data, begins, ends = _there(batch, "value")
    arena: Bytes | Arena = data
    keys = None
    if "key" in names and batch.column("key").null_count < rows:
        others, firsts, lasts = _there(batch, "key")
        arena, size = Arena(np.concatenate([data, others])), len(data)
        firsts, lasts = (np.where(places < 0, -1, places + size) for places in (firsts, lasts))
        keys = Scanned(arena, firsts, lasts, apart)
    block = Block(arena, begins, ends, partitions, offsets, times, messages, keys, apart)
    block.several = messages.several
    if "topic" in names:
        topics = batch.column("topic").unique().to_pylist()
        block.topic = topics[0] if len(topics) == 1 else None
    return block


def _there(batch: pa.RecordBatch, name: str) -> tuple[Bytes, Places, Places]:
    """The bytes of a column of texts, and where each is; below zero where there is none."""
    data, begins, ends = texts_of(batch.column(name))
    nulls = nulls_of(batch.column(name))
    return data, np.where(nulls, -1, begins), np.where(nulls, -1, ends)


def one_batch(rows: pa.Table, order: Places) -> pa.RecordBatch:
    """Rows of a table in another order, as one batch."""
    places: Any = pa.array(order)
    columns: Any = [column.chunk(0) for column in rows.take(places).combine_chunks().columns]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def rows_of(batch: pa.RecordBatch, numbers: Places) -> pa.RecordBatch:
    """Some rows of a batch."""
    places: Any = pa.array(numbers)
    return batch.take(places)
