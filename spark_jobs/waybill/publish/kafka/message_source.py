"""The messages of a batch on their way to the one task that sends them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from waybill.lake.local_rows import local_rows
from waybill.lake.ordered_rows import clusters, read_in_order
from waybill.lake.task_rows import TaskRows
from waybill.lake_columns import OUTBOX, columns_of
from waybill.publish.kafka.part_boundaries import GROUP
from waybill.publish.outgoing import numbered
from waybill.publish.parts import ORDER

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from waybill.lake.ordered_rows import RowGroup
    from waybill.publish.outgoing import Outgoing

LITTLE = 1 << 30
"""So many bytes of messages the one task that sends reads itself where Spark sorts them. Beyond,
all tasks read and hand over to it, which takes more of the processors and less of the time."""

MESSAGE = columns_of(OUTBOX, "batch", *ORDER, "table", "timestamp", "key", "value", "headers")
"""What the sender needs of the outbox."""

ORIGIN = 100
"""Bytes that the headers about the origin add to a message, beside what its row has anyway."""


class Made(NamedTuple):
    """The messages that one batch made for a target.

    Attributes:
        batch: the batch.
        messages: how many.
        bytes: about so many, not packed.
        keyless: messages without key.
        largest: bytes that none of them is longer than.
        longest: looks up the bytes of the longest one, and its change.
    """

    batch: str
    messages: int
    bytes: int
    keyless: int
    largest: int
    longest: Callable[[], tuple[int, str]]


def made(messages: Outgoing, batches: Sequence[str], origin: bool) -> list[Made]:
    """What each batch made, in the order of batches; those that are not named go first.

    Args:
        messages: what is to be sent.
        batches: batches in their order.
        origin: whether messages get headers about their origin.
    """
    size = _size(origin)
    place = F.concat_ws("/", "topic", "partition", "offset", "index")

    def longest(batch: str) -> tuple[int, str]:
        own = messages.rows.where(F.col("batch") == batch).select(size.alias("size"), place)
        found = own.orderBy(F.desc("size")).first()
        return (0, "") if found is None else (found[0], found[1])

    if messages.groups is not None and messages.longest is not None:
        most = messages.longest + ORIGIN
        made_columns: dict[str, list[RowGroup]] = {}
        for group in messages.groups:
            if group.rows:
                made_columns.setdefault(group.low[0], []).append(group)
        found = [
            Made(
                batch,
                sum(group.rows for group in groups),
                sum(group.bytes for group in groups),
                sum(group.nulls["key"] for group in groups),
                most,
                partial(longest, batch),
            )
            for batch, groups in made_columns.items()
        ]
    else:
        # Numbers only: with a text in it, Spark would sort the rows to aggregate them.
        counted = messages.rows.groupBy("batch").agg(
            F.count("*").alias("messages"),
            F.sum(size).alias("bytes"),
            F.count_if(F.col("key").isNull()).alias("keyless"),
            F.max(size).alias("largest"),
        )
        found = [
            Made(
                row.batch,
                row.messages,
                row.bytes,
                row.keyless,
                row.largest,
                partial(longest, row.batch),
            )
            for row in counted.collect()
        ]
    order = {batch: i for i, batch in enumerate(batches)}
    return sorted(found, key=lambda one: (order.get(one.batch, -1), one.batch))


def in_order(messages: Outgoing, found: Sequence[Made]) -> TaskRows:
    """Every message in one task, by batch and in the order of the source.

    Beside what the sender needs of the outbox, rows have the number of their batch (`GROUP`).
    """
    numbers = {one.batch: number for number, one in enumerate(found)}
    if messages.groups is not None:
        ranked = [
            group._replace(
                low=(numbers[group.low[0]], *group.low[1:]),
                high=(numbers[group.high[0]], *group.high[1:]),
            )
            for group in messages.groups
            if group.rows
        ]
        ordered = clusters(ranked)
        if ordered is not None:
            return _read_in_order(messages.rows, ordered, numbers)
    little = sum(one.bytes for one in found) <= LITTLE
    return TaskRows.of(_sorted(messages.rows, numbers, little))


def _read_in_order(
    rows: DataFrame, ordered: list[list[RowGroup]], numbers: dict[str, int]
) -> TaskRows:
    """Clusters of row groups, read by the task."""

    def read(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for cluster, batch in read_in_order(ordered, MESSAGE, ORDER):
            # The first bound is the number of the batch, which is one for all of a cluster.
            yield numbered(batch, GROUP, cluster[0].low[0])

    return TaskRows(lambda: rows, rows.sparkSession.range(0, 1, 1, 1), read)


def _sorted(rows: DataFrame, numbers: dict[str, int], little: bool) -> DataFrame:
    """The messages sorted by Spark, read by the one task alone where they are little."""
    # Not one condition for each batch: a target may begin with those of years.
    groups = local_rows(rows.sparkSession, numbers.items(), f"batch string, `{GROUP}` int")
    sent = rows.join(F.broadcast(groups), "batch").select(GROUP, *MESSAGE.names)
    single = sent.coalesce(1) if little else sent.repartition(1)
    return single.sortWithinPartitions(GROUP, *ORDER)


def _size(origin: bool) -> Column:
    """Bytes of a message: key, value and headers, each header with what frames it."""
    length = F.coalesce(F.octet_length("key"), F.lit(0))
    length += F.coalesce(F.octet_length("value"), F.lit(0))
    length += F.expr(
        "coalesce(aggregate(headers, 0, (sum, h) -> sum + 10 + octet_length(h.key) + "
        "coalesce(octet_length(h.value), 0)), 0)"
    )
    if origin:
        place = F.concat_ws("/", "topic", "partition", "offset", "index")
        length += F.octet_length("batch") + F.octet_length(place) + F.lit(40)
    return length
