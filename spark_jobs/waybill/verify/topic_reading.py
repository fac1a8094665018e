"""What was published to a topic, read back in tasks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from waybill.kafka.client import named_properties
from waybill.kafka.cluster import Cluster
from waybill.sources.kafka.positions import OffsetRange
from waybill.sources.kafka.reader import RangeOptions, ReadRange, read_ranges
from waybill.spark_tasks.worker_startup import light

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from waybill.lake import Lake

SIDES = "digest binary, sent int, there int"
"""Bits of a message, and how often it counts in the outbox and in the topic."""

ORIGIN_HEADERS = ("waybill-batch", "waybill-source")
"""Headers that a target may add, which no message of the outbox has."""


def available(connection: str, places: Sequence[dict[str, Any]]) -> tuple[list[OffsetRange], int]:
    """What to read of each partition, and of how many parts the brokers have deleted some.

    Args:
        connection: name of the connection.
        places: topic and offsets of every part.
    """
    ranges = _spans(places)
    cluster = Cluster(named_properties(connection))
    earliest = cluster.earliest({span[:2] for span in ranges})
    cut = sum(
        any(
            first < earliest[place["topic"], int(number)]
            for number, (first, _) in place["offsets"].items()
        )
        for place in places
    )
    return ranges, cut


def _spans(places: Sequence[dict[str, Any]]) -> list[OffsetRange]:
    """From the first to the last offset of each partition."""
    found: dict[tuple[str, int], OffsetRange] = {}
    for place in places:
        for number, (first, last) in place["offsets"].items():
            where = (place["topic"], int(number))
            before = found.get(where, OffsetRange(*where, first, last + 1))
            found[where] = OffsetRange(*where, min(before.start, first), max(before.end, last + 1))
    return [found[where] for where in sorted(found)]


def topic_messages(
    lake: Lake, connection: str, ranges: Sequence[OffsetRange], origin: bool
) -> DataFrame:
    """Every message of some ranges, as `SIDES`.

    Args:
        lake: whose tasks read.
        connection: name of the connection.
        ranges: what to read.
        origin: whether messages have headers about their origin.
    """
    properties = named_properties(connection)
    reading = RangeOptions(properties, "")
    left_out = ORIGIN_HEADERS if origin else ()
    tasks = [[span] for span in ranges]

    def ignore(_: OffsetRange, __: ReadRange) -> None:
        """What a range held is counted by its messages."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers: list[Any] = [n for batch in batches for n in batch.column(0).to_pylist()]
        for number in numbers:
            for messages in read_ranges(tasks[number], reading, ignore):
                yield sides_of(messages, 0, 1, left_out)

    return lake.spark.range(0, len(tasks), 1, min(len(tasks), 64)).mapInArrow(light(read), SIDES)


def sides_of(
    messages: pa.RecordBatch, sent: int, there: int, left_out: Sequence[str] = ()
) -> pa.RecordBatch:
    """128 bits of each message, with how often it counts on either side.

    Args:
        messages: with key, value and headers.
        sent: how often each is in the outbox.
        there: how often each is in the topic.
        left_out: names of headers that do not count.
    """
    import pyarrow as pa

    columns: list[list[Any]] = [
        messages.column(name).to_pylist() for name in ("key", "value", "headers")
    ]
    rows = zip(*columns, strict=True)
    digests = [_digest(key, value, headers, left_out) for key, value, headers in rows]
    arrays: list[Any] = [
        pa.array(digests, pa.binary()),
        pa.array([sent] * len(digests), pa.int32()),
        pa.array([there] * len(digests), pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(arrays, ["digest", "sent", "there"])


def _digest(
    key: bytes | None,
    value: bytes | None,
    headers: list[dict[str, Any]] | None,
    left_out: Sequence[str],
) -> bytes:
    made = hashlib.blake2b(digest_size=16)
    parts = [key, value]
    # Kafka knows no difference between no headers and an empty list.
    for header in headers or ():
        if header["key"] not in left_out:
            parts += [header["key"].encode(), header["value"]]
    for part in parts:
        made.update(b"-" if part is None else f"{len(part)}:".encode() + part)
    return made.digest()
