"""The messages of a batch on their way to the one task that sends them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from waybill.lake.ordered_rows import clusters, read_in_order
from waybill.lake.task_rows import TaskRows
from waybill.layout import OUTBOX, columns_of
from waybill.publish.kafka.cutting import GROUP
from waybill.publish.parts import ORDER

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from waybill.lake import Lake, Span
    from waybill.lake.ordered_rows import RowGroup

LITTLE = 1 << 30
"""So many bytes of messages the one task that sends reads itself where Spark sorts them. Beyond,
all tasks read and hand over to it, which takes more of the processors and less of the time."""

MESSAGE = columns_of(OUTBOX, "batch", *ORDER, "table", "timestamp", "key", "value", "headers")
"""What the sender needs of the outbox."""

BOUNDS = ("batch", "topic", "partition", "offset")
COUNTED = ("key",)
"""What must be known of row groups, if they are to be read without Spark."""

ORIGIN = 100
"""Bytes that the headers about the origin add to a message, beside what its row has anyway."""


class Outgoing(NamedTuple):
    """The messages of some batches for one target.

    Attributes:
        rows: their rows of the outbox, for queries.
        groups: the row groups that hold them and nothing else, None where that is not known.
        longest: bytes of the longest row, None where that is not known.
    """

    rows: DataFrame
    groups: Sequence[RowGroup] | None = None
    longest: int | None = None


def gather(lake: Lake, span: Span, rows: DataFrame, label: str) -> Outgoing:
    """What a span of the outbox has for a target.

    Args:
        lake: the lake.
        span: of its outbox.
        rows: the messages in it that are for the target.
        label: the target's name.
    """
    where = {"target": [label], "outcome": ["ok"]}
    return Outgoing(rows, lake.row_groups(span, where, BOUNDS, COUNTED), lake.longest_row(span))


class Made(NamedTuple):
    """The messages that one batch made for a target.

    Attributes:
        batch: the batch.
        messages: how many.
        keyless: messages without key.
        largest: bytes that none of them is longer than.
        longest: looks up the bytes of the longest one, and its change.
    """

    batch: str
    messages: int
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
    size = _size(messages.rows, origin)
    place = F.concat_ws("/", "topic", "partition", "offset", "index")

    def longest(batch: str) -> tuple[int, str]:
        own = messages.rows.where(F.col("batch") == batch).select(size.alias("size"), place)
        found = own.orderBy(F.desc("size")).first()
        return (0, "") if found is None else (found[0], found[1])

    if messages.groups is not None and messages.longest is not None:
        counts: dict[str, int] = {}
        keyless: dict[str, int] = {}
        for group in messages.groups:
            batch = group.low[0]
            counts[batch] = counts.get(batch, 0) + group.rows
            keyless[batch] = keyless.get(batch, 0) + group.nulls["key"]
        most = messages.longest + ORIGIN
        found = [
            Made(batch, count, keyless[batch], most, partial(longest, batch))
            for batch, count in counts.items()
            if count
        ]
    else:
        # Numbers only: with a text in it, Spark would sort the rows to aggregate them.
        counted = messages.rows.groupBy("batch").agg(
            F.count("*").alias("messages"),
            F.count_if(F.col("key").isNull()).alias("keyless"),
            F.max(size).alias("largest"),
        )
        found = [
            Made(row.batch, row.messages, row.keyless, row.largest, partial(longest, row.batch))
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
    return TaskRows.of(_sorted(messages.rows, numbers))


def _read_in_order(
    rows: DataFrame, ordered: list[list[RowGroup]], numbers: dict[str, int]
) -> TaskRows:
    """Clusters of row groups, read by the task."""

    def read(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for cluster, batch in read_in_order(ordered, MESSAGE, ORDER):
            # The first bound is the number of the batch, which is one for all of a cluster.
            yield numbered(batch, cluster[0].low[0])

    return TaskRows(rows, rows.sparkSession.range(0, 1, 1, 1), read)


def numbered(batch: pa.RecordBatch, number: int) -> pa.RecordBatch:
    """Messages of one batch, with its number."""
    import pyarrow as pa

    column = pa.repeat(pa.scalar(number, pa.int32()), batch.num_rows)
    return batch.append_column(GROUP, column)


def _sorted(rows: DataFrame, numbers: dict[str, int]) -> DataFrame:
    """The messages sorted by Spark."""
    group = F.lit(0)
    for batch, number in numbers.items():
        group = F.when(F.col("batch") == batch, F.lit(number)).otherwise(group)
    sent = rows.select(group.cast("int").alias(GROUP), *MESSAGE.names)
    size = rows.agg(F.sum(_size(rows, origin=False))).first()
    little = size is None or (size[0] or 0) <= LITTLE
    single = sent.coalesce(1) if little else sent.repartition(1)
    return single.sortWithinPartitions(GROUP, *ORDER)


def _size(rows: DataFrame, origin: bool) -> Column:
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
