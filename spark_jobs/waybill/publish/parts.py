"""Cuts a batch of messages into parts, always the same way for the same messages.

Parts follow the order of the messages: topic, partition, offset, index, message. Where one ends
depends on counts of the messages alone, so that a rerun makes the same parts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from waybill.lake.local_rows import local_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OFFSETS = 4096
"""Offsets that stay together: a part is made of whole ranges of so many, a power of two."""

PART_MESSAGES = 250_000
PART_BYTES = 128 << 20
"""A part ends with the range in which it reaches one of these."""

ORDER = ("topic", "partition", "offset", "index", "message")
"""The order of the messages of a batch."""


class MessageRange(NamedTuple):
    """Messages made from `OFFSETS` neighbouring offsets of a partition."""

    topic: str
    partition: int
    range: int
    messages: int
    bytes: int


def ranges_of(messages: DataFrame) -> dict[str, list[MessageRange]]:
    """Every range that holds messages, in order, by the batch that made them."""
    counted = (
        messages.groupBy("batch", "topic", "partition", _range().alias("range"))
        .agg(
            F.count("*").alias("messages"),
            F.sum(_length("key") + _length("value")).alias("bytes"),
        )
        .collect()
    )
    found: dict[str, list[MessageRange]] = {}
    for batch, *row in sorted(counted):
        found.setdefault(batch, []).append(MessageRange(*row))
    return found


def cut(
    ranges: Iterable[MessageRange], part_messages: int = PART_MESSAGES, part_bytes: int = PART_BYTES
) -> list[list[MessageRange]]:
    """The parts, each as its ranges."""
    parts: list[list[MessageRange]] = []
    messages = size = 0
    for found in ranges:
        if not parts or messages >= part_messages or size >= part_bytes:
            parts.append([])
            messages = size = 0
        parts[-1].append(found)
        messages += found.messages
        size += found.bytes
    return parts


def with_part(messages: DataFrame, parts: list[list[MessageRange]]) -> DataFrame:
    """The messages with a column `part`, each part whole and in order inside one Spark task."""
    if len(parts) == 1:
        single = messages.withColumn("part", F.lit(0))
        return single.coalesce(1).sortWithinPartitions(*ORDER)
    rows = [
        (found.topic, found.partition, found.range, number)
        for number, part in enumerate(parts)
        for found in part
    ]
    schema = "topic string, partition int, range bigint, part int"
    plan = local_rows(messages.sparkSession, rows, schema)
    joined = messages.withColumn("range", _range()).join(
        F.broadcast(plan), ["topic", "partition", "range"]
    )
    return joined.repartition(len(parts), "part").sortWithinPartitions("part", *ORDER)


def _range() -> Column:
    return F.floor(F.col("offset") / OFFSETS).cast("bigint")


def _length(column: str) -> Column:
    return F.coalesce(F.octet_length(column), F.lit(0))
