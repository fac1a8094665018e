"""What waits in topics for the next batch: how many offsets, and since when."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaException, TopicPartition

from waybill.kafka.client import named_properties
from waybill.kafka.failures import failure
from waybill.sources.kafka.lag import PATIENCE, unread
from waybill.sources.kafka.reader import BOUNDED, POLL, READING

if TYPE_CHECKING:
    from waybill.sources.kafka.positions import OffsetRange
    from waybill.spec.endpoints import KafkaSource

LITTLE = {
    "isolation.level": "read_uncommitted",
    "max.partition.fetch.bytes": "65536",
    "queued.min.messages": "1",
    "queued.max.messages.kbytes": "1024",
}
"""One message of each partition is wanted, and no more is read ahead; also one of a transaction
that is open, which waits as well."""

Place = tuple[str, int]


class Waiting(NamedTuple):
    """One partition.

    Attributes:
        topic: its name.
        partition: its number.
        start: the next offset that is read.
        end: the offset after the last one; what open transactions have is before it.
        missing: offsets that the brokers have deleted before they were read.
        oldest: time of the message that waits longest, in milliseconds since 1970; None where none
            waits, or its time is not known.
    """

    topic: str
    partition: int
    start: int
    end: int
    missing: int
    oldest: int | None

    @property
    def unread(self) -> int:
        """How many offsets wait; they are at least as many as messages."""
        return self.end - self.start


def waiting_in(source: KafkaSource, newest_first: Iterable[dict[str, Any]]) -> list[Waiting]:
    """Compare the topics as they are with what was read.

    Args:
        source: the topics.
        newest_first: cursors of the archive's commits.

    Raises:
        SourceError: a topic is not what was read before.
        ConfigurationError: the connection, a topic or a right is missing.
        UnreachableError: the brokers do not answer.
    """
    _, planned = unread(source, newest_first)
    missing = {loss[:2]: loss.end - loss.start for loss in planned.losses}
    # What open transactions have stands behind what a batch may read.
    spans = [s._replace(end=s.end + planned.held.get(s[:2], 0)) for s in planned.ranges]
    there = [span for span in spans if span.offsets]
    times = first_times(named_properties(source.connection), there)
    return [
        Waiting(
            span.topic,
            span.partition,
            span.start,
            span.end,
            missing.get(span[:2], 0),
            times.get(span[:2]),
        )
        for span in spans
    ]


def first_times(
    properties: Mapping[str, str], spans: Iterable[OffsetRange], patience: float = PATIENCE
) -> dict[Place, int]:
    """The time of the first message of ranges, by partition, in milliseconds since 1970.

    Partitions whose brokers do not deliver it in time, or whose messages have no time, are left
    out: how many messages wait is known without.

    Args:
        properties: of the client.
        spans: where messages wait.
        patience: seconds to wait for all of them.

    Raises:
        ConfigurationError: a property is wrong.
    """
    wanted = {span[:2]: span for span in spans}
    if not wanted:
        return {}
    try:
        consumer = Consumer({**READING, **properties, **BOUNDED, **LITTLE})
    except KafkaException as error:
        raise failure(error.args[0], "the connection") from error
    found: dict[Place, int] = {}
    limit = time.monotonic() + patience
    try:
        consumer.assign([TopicPartition(*place, wanted[place].start) for place in sorted(wanted)])
        while wanted and time.monotonic() < limit:
            for message in consumer.consume(100, POLL):
                place: Any = (message.topic(), message.partition())
                span, offset = wanted.get(place), message.offset()
                if span is None:
                    continue
                if message.error() is None and offset is not None and offset < span.end:
                    kind, timestamp = message.timestamp()
                    if kind != TIMESTAMP_NOT_AVAILABLE:
                        found[place] = timestamp
                # Also at an error, such as the end of a partition of which nothing is left.
                del wanted[place]
                consumer.incremental_unassign([TopicPartition(*place)])
    finally:
        consumer.close()
    return found
