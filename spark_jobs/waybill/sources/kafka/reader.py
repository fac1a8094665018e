"""Reads ranges of offsets to their end, as batches of the archive.

A range has ended with the first message at or after its end, or when the client says that the
partition has no more up to there. Waiting for the message before the end would be wrong: markers of
transactions, aborted and compacted messages are never delivered. Nothing is ever skipped in
silence: a lost start and an end that comes too early are errors, a broker that says nothing is one
after a while. A leader that was just elected may not know for a moment how far its messages are
committed; so an end that comes too early is looked at again.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from waybill.errors import Code, SourceError, UnreachableError
from waybill.kafka.failures import failure, permanent, sentence
from waybill.sources.kafka.rows import archive_rows
from waybill.spark_tasks.rechunking import BYTES_PER_BATCH, larger

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import Message

    from waybill.sources.kafka.positions import OffsetRange

MESSAGES = 1000
"""How many messages are taken at once; more fit no cache and are slower."""

POLL = 0.05
"""Seconds that one look for messages waits."""

QUIET = 2.0
"""Seconds without a message after which it is asked why."""

READING = {
    "group.id": "waybill",  # the client wants one; nobody joins it and nothing is committed to it
    # The defaults wait half a second at the end of a partition, and one when the queue was full.
    "fetch.wait.max.ms": "20",
    "fetch.queue.backoff.ms": "10",
    "fetch.error.backoff.ms": "100",
    # What is read ahead, and beyond the end of a range.
    "queued.min.messages": "100000",
    "queued.max.messages.kbytes": "32768",
    "max.partition.fetch.bytes": str(4 << 20),
}
"""What the connection may say otherwise."""

BOUNDED = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
    "isolation.level": "read_committed",
    "statistics.interval.ms": "5000",
    "max.poll.interval.ms": "86400000",  # Spark decides when the next batch is wanted
}
"""What makes the read exact; goes before the connection's own words."""

Place = tuple[str, int]


class ReadRange(NamedTuple):
    """What was delivered of a range.

    Attributes:
        rows: messages.
        bytes: of keys and values.
        lost: offsets at its start that were deleted while the batch ran, and passed over.
        bare: messages whose headers cannot be read, and were left out.
    """

    rows: int = 0
    bytes: int = 0
    lost: int = 0
    bare: int = 0


@dataclass(frozen=True, slots=True)
class RangeOptions:
    """How ranges are read.

    Attributes:
        properties: of the client; the password is among them.
        batch: id of the batch that brings the messages.
        stall: seconds to wait for brokers that say nothing.
        pass_over: whether offsets that were deleted meanwhile are passed over and counted.
        without_headers: whether headers that cannot be read are left out and counted.
    """

    properties: Mapping[str, str]
    batch: str
    stall: float = 60.0
    pass_over: bool = False
    without_headers: bool = False

    def __repr__(self) -> str:
        return f"Reading(batch={self.batch!r})"


@dataclass(slots=True)
class _Progress:
    """How far a range has been read."""

    span: OffsetRange
    at: int
    rows: int = 0
    bytes: int = 0
    lost: int = 0
    bare: int = 0


def read_ranges(
    ranges: list[OffsetRange], reading: RangeOptions, tell: Callable[[OffsetRange, ReadRange], None]
) -> Iterator[pa.RecordBatch]:
    """Rows of the archive for every message of some ranges, in bounded memory.

    Args:
        ranges: what to read, of different partitions.
        reading: how.
        tell: gets what a range held, after its last message.

    Raises:
        SourceError: messages were deleted, a partition ends before its range does, or the headers
            of a message cannot be read.
        ConfigurationError: the topic may not be read, or the login is wrong.
        UnreachableError: the brokers say nothing for too long.
    """
    work = _RangeWork(ranges, reading)
    try:
        yield from larger(work.batches())
        for progress in work.progress.values():
            outcome = ReadRange(progress.rows, progress.bytes, progress.lost, progress.bare)
            tell(progress.span, outcome)
    finally:
        work.consumer.close()


class _RangeWork:
    """One consumer and the ranges that it has not read to their end."""

    def __init__(self, ranges: list[OffsetRange], reading: RangeOptions) -> None:
        self.reading = reading
        self.progress = {(s.topic, s.partition): _Progress(s, s.start) for s in ranges}
        self.open = {place for place, entry in self.progress.items() if entry.span.offsets}
        self.only = next(iter(self.open)) if len(self.open) == 1 else None
        self.wanted = MESSAGES
        self.heard: list[KafkaError] = []
        self.moved = self.asked = time.monotonic()
        self.fetched = 0
        self.early: set[Place] = set()
        """Partitions that seemed to end before their ranges do, and of which no more has come."""
        called: Any = {"error_cb": self.heard.append, "stats_cb": self._on_statistics}
        self.consumer = Consumer({**READING, **reading.properties, **BOUNDED, **called})

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The messages that are left."""
        starts = [TopicPartition(*place, self.progress[place].at) for place in sorted(self.open)]
        self.consumer.assign(starts)
        while self.open:
            before = len(self.open)
            good = self._sorted_out(self.consumer.consume(self.wanted, POLL))
            if good:
                self.heard.clear()
                yield self._archived(good)
                # Spark may have been slow in between; only waiting for the brokers counts.
                self.moved = time.monotonic()
            elif len(self.open) < before:
                self.moved = time.monotonic()
            else:
                self._check_patience()

    def _sorted_out(self, got: list[Message]) -> list[Message]:
        """The messages that belong to ranges; those that end a range are noted."""
        if self.only in self.open and got and not any(m.error() is not None for m in got):
            last: Any = got[-1].offset()
            if last < self.progress[self.only].span.end:
                self.early.clear()
                return got
        return [message for message in got if self._takes(message)]

    def _takes(self, message: Message) -> bool:
        """Whether a message belongs to its range."""
        place: Any = (message.topic(), message.partition())
        offset: Any = message.offset()
        error = message.error()
        if error is not None:
            self._on_error(error, place, offset)
            return False
        if place in self.open and offset >= self.progress[place].span.end:
            self._end(place)
        if place not in self.open:
            return False
        self.early.discard(place)
        # An error behind it may say that what comes next is lost, and this message is not.
        self.progress[place].at = offset + 1
        return True

    def _on_error(self, error: KafkaError, place: Place, offset: int) -> None:
        if place not in self.open:
            self.heard.append(error)
        elif error.code() == KafkaError._PARTITION_EOF:
            if offset < self.progress[place].span.end:
                self.early.add(place)
            else:
                self._end(place)
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION):
            self._on_lost_place(self.progress[place])
        else:
            self.heard.append(error)

    def _on_lost_place(self, progress: _Progress) -> None:
        """What comes next is not there, which it was when the batch was planned."""
        span = progress.span
        place = TopicPartition(span.topic, span.partition)
        try:
            low, high = self.consumer.get_watermark_offsets(place, timeout=10)
        except KafkaException as error:
            raise failure(error.args[0], self._about(span), self.heard) from error
        if low <= progress.at:
            raise SourceError(_too_short(span, high), code=Code.TOPIC_RECREATED)
        if not self.reading.pass_over:
            text = (
                f"{span} is no longer complete, the brokers now begin at offset {low}: run the "
                "batch again, which reports what is missing, and keep messages for longer"
            )
            raise SourceError(text, code=Code.OFFSETS_LOST)
        at = min(low, span.end)
        progress.lost += at - progress.at
        progress.at = at
        if at == span.end:
            self._end((span.topic, span.partition))
        else:
            self.consumer.incremental_unassign([place])
            self.consumer.incremental_assign([TopicPartition(span.topic, span.partition, at)])

    def _end(self, place: Place) -> None:
        self.open.remove(place)
        if self.open:
            # Nothing more is fetched of it while the others are read.
            self.consumer.incremental_unassign([TopicPartition(*place)])

    def _archived(self, messages: list[Message]) -> pa.RecordBatch:
        """Messages as rows, each counted for its range."""
        reading = self.reading
        without = reading.without_headers
        rows, sizes, bare = archive_rows(messages, reading.batch, self.only, without)
        for message in bare:
            place: Any = (message.topic(), message.partition())
            self.progress[place].bare += 1
        total, count = sum(sizes), len(messages)
        if self.only is not None:
            self._count(self.only, count, total, messages[-1])
        else:
            places: list[Any] = [(m.topic(), m.partition()) for m in messages]
            bytes_of: Counter[Place] = Counter()
            for place, size in zip(places, sizes, strict=True):
                bytes_of[place] += size
            last = dict(zip(places, messages, strict=True))
            for place, number in Counter(places).items():
                self._count(place, number, bytes_of[place], last[place])
        self.wanted = max(1, min(MESSAGES, BYTES_PER_BATCH * count // max(1, total)))
        return rows

    def _count(self, place: Place, rows: int, size: int, last: Message) -> None:
        progress = self.progress[place]
        progress.rows += rows
        progress.bytes += size
        offset: Any = last.offset()
        # What is lost behind these messages may have been passed over already.
        progress.at = max(progress.at, offset + 1)

    def _on_statistics(self, text: str) -> None:
        """Takes fetched offsets for progress: aborted messages are passed over in silence."""
        topics = json.loads(text)["topics"]
        fetched = sum(
            max(0, statistics["next_offset"])
            for topic, number in self.progress
            if (statistics := topics.get(topic, {}).get("partitions", {}).get(str(number)))
        )
        if fetched != self.fetched:
            self.fetched = fetched
            self.moved = time.monotonic()

    def _check_patience(self) -> None:
        """Give up if the brokers have not answered for too long, or something that stays."""
        now = time.monotonic()
        waited = now - self.moved
        if waited < QUIET:
            return
        for place in sorted(self.early & self.open):
            self._check_end(self.progress[place].span)
        if now - self.asked > QUIET:
            self._ask_about_topic()
            self.asked = time.monotonic()
        span = self.progress[min(self.open)].span
        stays = next((error for error in self.heard if permanent(error)), None)
        if stays is not None:
            raise failure(stays, self._about(span))
        if waited > self.reading.stall:
            last_error = (
                f"; the last that was heard: {sentence(self.heard[-1])}" if self.heard else ""
            )
            text = (
                f"{self._about(span)}: the brokers have not answered for {waited:.0f} s"
                f"{last_error}: see that they run, and run the batch again"
            )
            raise UnreachableError(text, code=Code.KAFKA_UNREACHABLE)

    def _check_end(self, span: OffsetRange) -> None:
        """See that a partition has what was planned, as far as its leader knows by now.

        Raises:
            SourceError: it has not.
        """
        place = TopicPartition(span.topic, span.partition)
        try:
            _, high = self.consumer.get_watermark_offsets(place, timeout=10)
        except KafkaException as error:
            self.heard.append(error.args[0])
            return
        if high < span.end:
            raise SourceError(_too_short(span, high), code=Code.TOPIC_RECREATED)
        self.early.discard((span.topic, span.partition))

    def _ask_about_topic(self) -> None:
        """A consumer does not learn that a topic is gone, or that it may not read it."""
        topic = min(self.open)[0]
        try:
            found = self.consumer.list_topics(topic, timeout=5).topics[topic].error
        except KafkaException as error:
            found = error.args[0]
        if found is not None:
            self.heard.append(found)

    def _about(self, span: OffsetRange) -> str:
        return f"{span} at {self.reading.properties.get('bootstrap.servers')}"


def _too_short(span: OffsetRange, end: int) -> str:
    return (
        f"{span}: the partition ends at offset {end}, before what was planned: the brokers lost "
        "messages, or the topic was recreated; run the batch again, which reports which"
    )
