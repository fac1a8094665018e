"""Ranges read to their end from a real broker: every message once, and never a silent gap."""

from __future__ import annotations

import pickle
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from tests.kafka.conftest import PASSWORD
from tests.kafka.producing import (
    allow,
    delete_before,
    delete_topic,
    send,
    send_transaction,
    transaction,
)
from waybill.connections import Connection
from waybill.errors import ConfigurationError, SourceError, UnreachableError
from waybill.kafka.client import properties
from waybill.lake_columns import ARCHIVE
from waybill.sources.kafka import reader
from waybill.sources.kafka.pieces import dealt
from waybill.sources.kafka.positions import OffsetRange
from waybill.sources.kafka.reader import RangeOptions, ReadRange, read_ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from stack.kafka import Broker

pytestmark = pytest.mark.kafka


def rows(
    client: dict[str, str], *ranges: OffsetRange, **settings: Any
) -> tuple[list[dict[str, Any]], dict[OffsetRange, ReadRange]]:
    """Every row of the ranges, read together, and what was reported of each."""
    reads: dict[OffsetRange, ReadRange] = {}
    found: list[dict[str, Any]] = []
    for batch in read_ranges(
        list(ranges), RangeOptions(client, "b1", **settings), reads.__setitem__
    ):
        assert batch.schema.equals(ARCHIVE)
        found += batch.to_pylist()
    assert set(reads) == set(ranges)
    assert sum(one.rows for one in reads.values()) == len(found)
    return found, reads


def offsets(client: dict[str, str], topic: str, start: int, end: int, **settings: Any) -> list[int]:
    return [row["offset"] for row in rows(client, OffsetRange(topic, 0, start, end), **settings)[0]]


def test_every_column(client: dict[str, str], topic: Callable[..., str]) -> None:
    name, now = topic(2), int(time.time() * 1000)
    headers = [("a", b"1"), ("a", b"2"), ("b", None), ("ü", b""), ("", b"\xff")]
    send(client, name, [(b"k\x00", b"\xff\xfe")], 1, headers=headers, timestamp=now)
    send(client, name, [(None, b""), (b"", None)], 1)
    found, reads = rows(client, OffsetRange(name, 1, 0, 3), OffsetRange(name, 0, 0, 0))
    assert reads == {
        OffsetRange(name, 1, 0, 3): ReadRange(3, 4),
        OffsetRange(name, 0, 0, 0): ReadRange(),
    }
    first = found[0]
    assert int(first.pop("timestamp").timestamp() * 1000) == now
    assert first == {
        "topic": name,
        "partition": 1,
        "offset": 0,
        "timestamp_type": "create",
        "key": b"k\x00",
        "value": b"\xff\xfe",
        "headers": [{"key": key, "value": value} for key, value in headers],
        "batch": "b1",
    }
    assert [(row["key"], row["value"], row["headers"]) for row in found[1:]] == [
        (None, b"", None),
        (b"", None, None),
    ]


def test_the_brokers_time(client: dict[str, str], topic: Callable[..., str]) -> None:
    name = topic(message_timestamp_type="LogAppendTime")
    send(client, name, [b"x"], timestamp=1000)
    (row,), _ = rows(client, OffsetRange(name, 0, 0, 1))
    assert row["timestamp_type"] == "logappend"
    assert abs(row["timestamp"].timestamp() - time.time()) < 600


def test_a_time_that_no_calendar_has(client: dict[str, str], topic: Callable[..., str]) -> None:
    name = topic(message_timestamp_after_max_ms=str(2**63 - 1))
    for stamp in (2**62, 2**53, 5):
        send(client, name, [b"x"], timestamp=stamp)
    found = []
    for batch in read_ranges(
        [OffsetRange(name, 0, 0, 3)], RangeOptions(client, "b"), lambda *_: None
    ):
        found += batch.column("timestamp").cast("int64").to_pylist()
    assert found == [None, 2**53 * 1000, 5000]


def test_passing_over_aborted_messages_is_progress(
    client: dict[str, str], topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic()
    send_transaction(client, name, [b"x"] * 1000, commit=False)
    monkeypatch.setitem(reader.BOUNDED, "statistics.interval.ms", "100")
    work = reader._RangeWork([OffsetRange(name, 0, 0, 1001)], RangeOptions(client, "b"))
    assert list(work.batches()) == []
    work.moved, work.fetched = 0.0, 0
    for _ in range(100):
        work.consumer.consume(1, 0.1)
        if work.fetched:
            break
    work.consumer.close()
    assert (work.fetched, work.moved > 0) == (1001, True)


class Lost:
    """What `consume` gives for the next offset if the brokers have deleted it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def topic(self) -> str:
        return self.name

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return -1001

    def error(self) -> KafkaError:
        return KafkaError(KafkaError._AUTO_OFFSET_RESET)


def test_what_was_read_before_a_loss_is_not_lost(
    client: dict[str, str], topic: Callable[..., str]
) -> None:
    name = topic()
    send(client, name, [b"%d" % n for n in range(30)])
    work = reader._RangeWork(
        [OffsetRange(name, 0, 0, 30)], RangeOptions(client, "b", pass_over=True)
    )
    work.consumer.assign([TopicPartition(name, 0, 0)])
    first: list[Any] = []
    while len(first) < 10:
        first += work.consumer.consume(10 - len(first), 5)
    delete_before(client, name, 20)
    rows = work._archived(work._sorted_out([*first, Lost(name)]))
    assert rows.column("offset").to_pylist() == list(range(10))
    for batch in work.batches():
        rows = batch
    assert rows.column("offset").to_pylist() == list(range(20, 30))
    (progress,) = work.progress.values()
    assert (progress.rows, progress.lost) == (20, 10)
    work.consumer.close()


def test_pieces_add_up_to_the_topic(client: dict[str, str], topic: Callable[..., str]) -> None:
    name = topic(3)
    for partition in range(3):
        send(client, name, [b"%d" % n for n in range(partition * 1000, 2500)], partition)
    whole = [
        OffsetRange(name, 0, 0, 2500),
        OffsetRange(name, 1, 0, 1500),
        OffsetRange(name, 2, 0, 500),
    ]
    tasks = dealt(whole, 700)
    assert all(len({span.partition for span in task}) == len(task) for task in tasks)
    assert any(len(task) > 1 for task in tasks), "short ranges are read together"
    found = [row for task in tasks for row in rows(client, *task)[0]]
    assert sorted((r["partition"], r["offset"], r["value"]) for r in found) == [
        (p, n, b"%d" % (n + p * 1000)) for p in range(3) for n in range(2500 - p * 1000)
    ]


def test_large_messages_come_in_small_batches(
    client: dict[str, str], topic: Callable[..., str]
) -> None:
    name = topic(max_message_bytes="4000000")
    values = [bytes([n]) * 900_000 for n in range(60)]
    send({**client, "message.max.bytes": "4000000"}, name, values)
    reading, sizes, got = RangeOptions(client, "b"), [], []
    for batch in read_ranges([OffsetRange(name, 0, 0, 60)], reading, lambda *_: None):
        sizes.append(batch.nbytes)
        got += batch.column("value").to_pylist()
    assert got == values
    assert max(sizes) < 48 << 20


def test_gaps_of_transactions(client: dict[str, str], topic: Callable[..., str]) -> None:
    name = topic()
    for tag, commit in ((b"a", True), (b"b", False), (b"c", True), (b"d", False)):
        send_transaction(client, name, [tag] * 10, commit)
    # 0-9, marker 10; 11-20 aborted, 21; 22-31, 32; 33-42 aborted, 43
    kept = [*range(10), *range(22, 32)]
    assert offsets(client, name, 0, 44) == kept
    pieces = [span for task in dealt([OffsetRange(name, 0, 0, 44)], 5) for span in task]
    assert [o for span in pieces for o in offsets(client, name, span.start, span.end)] == kept
    assert offsets(client, name, 33, 44) == [], "nothing but a gap"
    with transaction(client, name, [b"open"] * 5, commit=False):
        assert offsets(client, name, 22, 44) == list(range(22, 32))
        with pytest.raises(SourceError, match="ends at offset 44"):
            offsets(client, name, 22, 49)


def test_gaps_of_compaction(client: dict[str, str], topic: Callable[..., str]) -> None:
    name = topic(
        cleanup_policy="compact",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.01",
        min_compaction_lag_ms="0",
        delete_retention_ms="0",
    )
    for n in range(6):
        send(client, name, [(b"k%d" % (i % 10), b"%d" % n) for i in range(100)])
        time.sleep(0.2)
    got: list[int] = list(range(600))
    for _ in range(60):
        got, before = offsets(client, name, 0, 600), got
        if len(got) < 150 and got == before:
            break
        send(client, name, [(b"tick", b"")])
        time.sleep(1)
    assert got == sorted(got)
    assert got[0] > 100
    assert len(got) < 150
    assert offsets(client, name, 0, got[0]) == [], "a range that was emptied completely"
    assert offsets(client, name, got[3], got[4] + 1) == got[3:5]


def test_a_start_that_was_deleted(client: dict[str, str], topic: Callable[..., str]) -> None:
    name = topic()
    send(client, name, [b"x"] * 100)
    delete_before(client, name, 50)
    assert offsets(client, name, 50, 100) == list(range(50, 100))
    with pytest.raises(SourceError, match="now begin at offset 50"):
        offsets(client, name, 20, 100)
    # Deleted after it was planned, and allowed: passed over and counted.
    span, gone = OffsetRange(name, 0, 20, 100), OffsetRange(name, 0, 20, 40)
    found, reads = rows(client, span, pass_over=True)
    assert [row["offset"] for row in found] == list(range(50, 100))
    assert reads == {span: ReadRange(50, 50, lost=30)}
    assert rows(client, gone, pass_over=True) == ([], {gone: ReadRange(0, 0, lost=20)})


def test_an_end_that_is_not_there(
    broker: Broker, client: dict[str, str], topic: Callable[..., str]
) -> None:
    name = topic()
    send(client, name, [b"x"] * 10)
    for start, end in ((0, 20), (15, 20)):
        with pytest.raises(SourceError, match=r"ends at offset 10, before what was planned"):
            offsets(client, name, start, end, pass_over=True)
    delete_topic(client, name)
    broker.create_topic(name)
    send(client, name, [b"y"] * 3)
    with pytest.raises(SourceError, match="ends at offset 3"):
        offsets(client, name, 0, 10)


def test_a_topic_that_is_not_there(client: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="make the topic"):
        offsets(client, "no.such.topic.to.read", 0, 5)


def test_a_topic_that_may_not_be_read(
    broker: Broker, client: dict[str, str], topic: Callable[..., str]
) -> None:
    name = topic()
    send(client, name, [b"x"])
    extra = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}
    address = broker.address("SASL_PLAINTEXT")

    def ann(password: str) -> dict[str, str]:
        return properties(Connection("k", "kafka", address, None, "ann", password, extra))

    with pytest.raises(ConfigurationError, match="give the user of the connection the right"):
        offsets(ann(PASSWORD), name, 0, 1)
    with pytest.raises(ConfigurationError, match="fix login") as caught:
        offsets(ann("wrong password"), name, 0, 1)
    assert "wrong password" not in str(caught.value)
    allow(client, "topic", name, "READ")
    assert offsets(ann(PASSWORD), name, 0, 1) == [0]


def test_tls(
    broker: Broker, client: dict[str, str], topic: Callable[..., str], authority: tuple[Path, Path]
) -> None:
    name = topic()
    send(client, name, [b"x"])
    extra = {"security.protocol": "SSL", "ssl.ca.location": str(authority[1])}
    given = properties(Connection("k", "kafka", broker.address("SSL"), extra=extra))
    assert offsets(given, name, 0, 1) == [0]


def test_a_broker_that_is_not_there() -> None:
    given = properties(Connection("k", "kafka", "127.0.0.1", 1))
    message = r"t/0 from offset 0 to 5 at 127\.0\.0\.1:1: .*not answered for .*Connection refused"
    with pytest.raises(UnreachableError, match=message) as caught:
        offsets(given, "t", 0, 5, stall=3)
    assert caught.value.transient
    assert type(pickle.loads(pickle.dumps(caught.value))) is UnreachableError


def half_read(
    client: dict[str, str], name: str, end: int, stall: float, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[int]]:
    """Offsets batch by batch, with a queue so short that most is still on the broker."""
    monkeypatch.setattr("waybill.spark_tasks.rechunking.ROWS_PER_BATCH", 100)
    short = {**client, "queued.max.messages.kbytes": "64", "queued.min.messages": "10"}
    short["fetch.message.max.bytes"] = "10000"
    reading = RangeOptions(short, "b", stall)
    for batch in read_ranges([OffsetRange(name, 0, 0, end)], reading, lambda *_: None):
        found: Any = batch.column("offset").to_pylist()
        yield found


def test_a_broker_that_restarts_in_mid_read(
    broker: Broker, client: dict[str, str], topic: Callable[..., str], monkeypatch: Any
) -> None:
    name = topic()
    send(client, name, [b"x" * 1000] * 5000)
    batches = half_read(client, name, 5000, 300, monkeypatch)
    got = list(next(batches))
    broker.kill()
    # A server ends with the thread that started it, so the reading is what goes elsewhere.
    rest = threading.Thread(target=lambda: got.extend(o for found in batches for o in found))
    rest.start()
    rest.join(3)
    assert rest.is_alive()
    broker.start()
    rest.join()
    assert got == list(range(5000))


def test_a_broker_that_goes_away_in_mid_read(
    broker: Broker, client: dict[str, str], topic: Callable[..., str], monkeypatch: Any
) -> None:
    name = topic()
    send(client, name, [b"x" * 1000] * 5000)
    batches = half_read(client, name, 5000, 4, monkeypatch)
    next(batches)
    broker.kill()
    try:
        with pytest.raises(UnreachableError, match="not answered for"):
            for _ in batches:
                pass
    finally:
        broker.start()


def test_the_password_is_not_shown() -> None:
    assert "hidden" not in repr(RangeOptions({"sasl.password": "hidden"}, "b1"))
