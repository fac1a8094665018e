"""Outboxes for the tests of the sink: rows in the columns of the lake's table."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from waybill.kafka.cluster import Cluster
from waybill.lake_columns import OUTBOX
from waybill.publish.kafka.part_boundaries import GROUP

_FIELDS: list[Any] = [pa.field(GROUP, pa.int32()), *OUTBOX]
STREAM = pa.schema(_FIELDS)

MARKED_WITHIN = 20.0
"""Seconds that brokers may take to mark all partitions of a transaction that was committed."""


def message(
    offset: int,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    *,
    number: int = 0,
    partition: int = 0,
    table: str | None = "shop.orders",
    headers: list[tuple[str, bytes | None]] | None = None,
    group: int = 0,
    **fields: Any,
) -> dict[str, Any]:
    """One row of the outbox; `number` counts the messages of one change."""
    return {
        GROUP: group,
        "target": "t",
        "topic": "shop",
        "partition": partition,
        "offset": offset,
        "index": 0,
        "message": number,
        "batch": f"b{group + 1}",
        "table": table,
        "key": key,
        "value": value,
        "headers": None if headers is None else [{"key": k, "value": v} for k, v in headers],
        "outcome": "ok",
        **fields,
    }


def stream(rows: list[dict[str, Any]], size: int = 1000) -> Iterator[pa.RecordBatch]:
    """Rows as Spark hands them to a task."""
    for start in range(0, len(rows), size):
        yield pa.RecordBatch.from_pylist(rows[start : start + size], schema=STREAM)


def as_sent(row: dict[str, Any]) -> tuple[Any, ...]:
    """Key, value and headers of a row, as a reader has them."""
    headers = row["headers"]
    pairs = None if headers is None else [(h["key"], h["value"]) for h in headers]
    return row["key"], row["value"], pairs


def read(
    client: dict[str, str], topic: str, isolation: str = "read_committed"
) -> dict[int, list[Any]]:
    """Every record of a topic by partition, in order, read by a consumer of its own."""
    consumer = Consumer(
        {
            **client,
            "group.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            "isolation.level": isolation,
        }
    )
    numbers = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    records: dict[int, list[Any]] = {number: [] for number in numbers}
    if isolation == "read_committed":
        wait_for_marks(client, [(topic, number) for number in numbers])
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in numbers])
    ends: set[int] = set()
    try:
        while len(ends) < len(numbers):
            # It returns before the time is over only with so many records, which most topics lack.
            for record in consumer.consume(1000, 0.05):
                error = record.error()
                if error is None:
                    records[record.partition()].append(record)
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    ends.add(record.partition())
    finally:
        consumer.close()
    return records


def wait_for_marks(client: dict[str, str], places: list[tuple[str, int]]) -> None:
    """Wait until nothing of some partitions is open.

    A commit returns before every partition is marked, and what is not marked is not read.
    """
    cluster = Cluster(client)
    limit = time.monotonic() + MARKED_WITHIN
    while cluster.latest(places) != cluster.latest(places, stable=False):
        assert time.monotonic() < limit, f"a transaction stays open in one of {places}"
        time.sleep(0.05)


def contents(records: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Key, value and headers of records."""
    return [(record.key(), record.value(), record.headers()) for record in records]
