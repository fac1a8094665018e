"""The rows of parts, read by tasks from the row groups that hold them.

Convert writes messages in the order of their changes, so a part is a run of row groups: nothing has
to be sorted, and no message goes through Java.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.lake.ordered_rows import behind, clusters, read_in_order
from waybill.lake.sizing import BATCH_BYTES, MOST_ROWS, SHUFFLED, dealt, shuffle_partitions
from waybill.lake.task_rows import TaskRows, opened
from waybill.lake_columns import OUTBOX, columns_of
from waybill.publish import parts as cutting
from waybill.publish.outgoing import numbered
from waybill.publish.parts import ORDER, MessageRange
from waybill.spark_tasks.errors import unwrapped
from waybill.spark_tasks.worker_startup import light

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from waybill.lake.ordered_rows import RowGroup
    from waybill.publish.outgoing import Outgoing
    from waybill.spark_tasks.worker_startup import Make

_RANGES = "topic string, partition int, range bigint, messages bigint, bytes bigint"
_MEASURED = ("topic", "partition", "offset", "key", "value")
_PLACE = ("topic", "partition", "offset")
Place = tuple[Any, ...]


class PartRows(NamedTuple):
    """What a part is made of.

    Attributes:
        after: topic, partition and offset that it begins behind, None for the first part.
        upto: those that it ends with, None for the last part.
        clusters: row groups with its messages, in order; the outer ones may have others, too.
    """

    after: Place | None
    upto: Place | None
    clusters: list[list[RowGroup]]


def parts_in_row_groups(
    messages: Outgoing, batch: str, columns: Sequence[str], part_messages: int
) -> TaskRows | None:
    """The messages that a batch made, with the column `part`; every part whole, in one task.

    Args:
        messages: what is to be sent, whose row groups are known.
        batch: the batch.
        columns: the columns that are wanted of a message, beside those of the order.
        part_messages: about how many messages make a part.

    Returns:
        None where row groups overlap in more than a task can sort.
    """
    spark = messages.rows.sparkSession
    own = [group for group in messages.groups or () if group.low[0] == batch and group.rows]
    count = sum(group.rows for group in own)
    parts: list[list[MessageRange]] = [[]]
    most = None if messages.longest is None else count * messages.longest
    if count > part_messages or most is None or most >= cutting.PART_BYTES:
        parts = cutting.cut(measured(spark, own), part_messages)
    found = part_rows(own, parts)
    if found is None:
        return None
    schema = columns_of(OUTBOX, *ORDER, *columns)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for numbers in batches:
            given: list[Any] = numbers.column(0).to_pylist()
            for number in given:
                for rows in read_part(found[number], schema):
                    yield numbered(rows, "part", number)

    few = len(found) == 1 and count <= MOST_ROWS and most is not None and most <= BATCH_BYTES
    handed = spark.range(0, len(found), 1, len(found))
    return TaskRows(lambda: messages.rows, handed, read, 1 if few else 0)


def measured(spark: SparkSession, groups: Sequence[RowGroup]) -> list[MessageRange]:
    """Every range of offsets that holds messages, in order, counted by tasks.

    Args:
        spark: the session.
        groups: the row groups with the messages of one batch.
    """
    sizes = [group.bytes for group in groups]
    cores = spark.sparkContext.defaultParallelism
    tasks = dealt(groups, sizes, shuffle_partitions(sum(sizes) // SHUFFLED, cores))
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    with unwrapped():
        rows = numbers.mapInArrow(light(_measuring(tasks, cutting.OFFSETS)), _RANGES).collect()
    messages: Counter[tuple[str, int, int]] = Counter()
    size: Counter[tuple[str, int, int]] = Counter()
    for row in rows:
        place = row.topic, row.partition, row.range
        messages[place] += row.messages
        size[place] += row.bytes
    return [MessageRange(*place, messages[place], size[place]) for place in sorted(messages)]


def _measuring(tasks: list[list[RowGroup]], offsets: int) -> Make:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers: list[Any] = batch.column(0).to_pylist()
            for number in numbers:
                for group in tasks[number]:
                    with opened(group.path) as file:
                        rows = file.read_row_group(group.number, _MEASURED, use_threads=False)
                    yield from ranges_in(rows, offsets).to_batches()

    return work


def ranges_in(rows: pa.Table, offsets: int) -> pa.Table:
    """The ranges of offsets that rows are of, with how many rows and bytes each has.

    Args:
        rows: place, key and value of messages.
        offsets: how many a range has, a power of two.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    sizes = [
        pc.fill_null(pc.binary_length(rows.column(name)), 0).cast(pa.int64())
        for name in ("key", "value")
    ]
    range_rows = pa.table(
        {
            "topic": rows.column("topic").cast(pa.string()),
            "partition": rows.column("partition"),
            "range": pc.shift_right(rows.column("offset"), offsets.bit_length() - 1),
            "bytes": pc.add(*sizes),
        }
    )
    found = range_rows.group_by(["topic", "partition", "range"], use_threads=False).aggregate(
        [("bytes", "count"), ("bytes", "sum")]
    )
    return found.rename_columns(["topic", "partition", "range", "messages", "bytes"])


def part_rows(
    groups: Sequence[RowGroup], parts: Sequence[Sequence[MessageRange]]
) -> list[PartRows] | None:
    """Where the messages of parts are.

    Args:
        groups: the row groups with the messages of one batch, bounded by batch, topic, partition
            and offset.
        parts: the ranges of each part; of a single part they need not be known.

    Returns:
        None where row groups overlap in more than a task can sort.
    """
    ordered = clusters(group._replace(low=group.low[1:], high=group.high[1:]) for group in groups)
    if ordered is None:
        return None
    starts = [_before(part[0]) for part in parts[1:]]
    found = []
    for after, upto in pairwise([None, *starts, None]):
        near = [
            cluster
            for cluster in ordered
            if (after is None or max(group.high for group in cluster) > after)
            and (upto is None or min(group.low for group in cluster) <= upto)
        ]
        found.append(PartRows(after, upto, near))
    return found


def _before(first: MessageRange) -> Place:
    """The last place that can stand before a range."""
    return first.topic, first.partition, first.range * cutting.OFFSETS - 1


def read_part(part: PartRows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The messages of a part in their order, inside a task.

    Args:
        part: where they are.
        schema: the columns to read, those of the order among them.
    """
    import pyarrow.compute as pc

    for cluster, batch in read_in_order(part.clusters, schema, ORDER):
        if part.after is not None and min(group.low for group in cluster) <= part.after:
            batch = batch.filter(behind(batch, _PLACE, part.after))
        if part.upto is not None and max(group.high for group in cluster) > part.upto:
            batch = batch.filter(pc.invert(behind(batch, _PLACE, part.upto)))
        if batch.num_rows:
            yield batch
