"""What waits at the source, asked of a real broker: how much, since when, and as of when."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.kafka.producing import delete_before, send, transaction
from tests.kafka.test_commands import change, connect, reading
from waybill import jobs
from waybill.lake import Lake
from waybill.overview.files import read_source
from waybill.overview.source_look import look_at_source
from waybill.sources.kafka.positions import OffsetRange
from waybill.sources.kafka.waiting import first_times

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stack.kafka import Broker

pytestmark = pytest.mark.kafka

HOUR = 3_600_000


@pytest.fixture(autouse=True)
def connected(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, broker.servers)


def test_the_source_is_asked_between_batches(
    spark: Any,
    client: dict[str, str],
    topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, now = topic(3), int(time.time() * 1000)
    spec = reading(tmp_path, name)
    lake = Lake.open(spark, spec)
    send(client, name, [change(n) for n in range(5)], 0, timestamp=now - 3 * HOUR)
    send(client, name, [change(n) for n in range(2)], 2, timestamp=now - HOUR)
    first = look_at_source(spec, lake)
    assert first == read_source(spec)
    assert (first.unread, first.unit, first.archive) == (7, "messages", None)
    assert first.oldest == now - 3 * HOUR
    assert now <= first.looked <= time.time() * 1000
    found = [(p.partition, p.start, p.end, p.oldest) for p in first.partitions]
    assert found == [(0, 0, 5, now - 3 * HOUR), (2, 0, 2, now - HOUR)]

    jobs.run_migration(spec, until="snapshot", spark=spark)
    planned = read_source(spec)
    assert planned is not None
    assert (planned.unread, planned.behind(planned.looked)) == (0, 0.0)
    assert first.looked < planned.looked, "when the batch was planned, not when it ended"
    archived = lake.head(lake.log("archive"))
    assert planned.archive == archived

    send(client, name, [change(n) for n in range(4)], 1, timestamp=now - 2 * HOUR)
    send(client, name, [change(n) for n in range(3)], 2, timestamp=now)
    delete_before(client, name, 4, 2)
    between = look_at_source(spec, lake)
    assert (between.unread, between.gone, between.oldest) == (5, 2, now - 2 * HOUR)
    assert between.archive == archived
    jobs.run_migration(spec, until="convert", spark=spark, batch="a-replay", mode="replay")
    assert read_source(spec) == between, "a batch that reads nothing knows nothing newer"

    connect(monkeypatch, "127.0.0.1:1")
    unanswered = look_at_source(spec, lake)
    assert (unanswered.looked, unanswered.unread) == (between.looked, 5), "as it was, and when"
    assert unanswered.failed > between.looked
    assert "127.0.0.1:1" in unanswered.problem


def test_what_an_open_transaction_has_waits_too(
    spark: Any, client: dict[str, str], topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic()
    spec = reading(tmp_path, name)
    lake = Lake.open(spark, spec)
    with transaction(client, name, [change(1), change(2)], commit=True):
        jobs.run_migration(spec, until="snapshot", spark=spark)
        planned = read_source(spec)
        assert planned is not None
        assert planned.unread == 2, "the snapshot had to leave them"
        look = look_at_source(spec, lake)
        assert look.unread == 2
        assert look.oldest is not None
        assert time.time() * 1000 - look.oldest < 60_000


def test_a_source_that_was_never_reached(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, "127.0.0.1:1")
    spec = reading(tmp_path, "any")
    look = look_at_source(spec, Lake.open(spark, spec))
    assert (look.looked, look.unread) == (0, 0)
    assert look.problem


def test_times_that_do_not_come_are_left_out(
    client: dict[str, str], topic: Callable[..., str]
) -> None:
    name = topic(2)
    send(client, name, [b"x"] * 3, timestamp=1_700_000_000_000)
    there, empty = OffsetRange(name, 0, 1, 3), OffsetRange(name, 1, 0, 9)
    assert first_times(client, [there, empty], 3) == {(name, 0): 1_700_000_000_000}
    assert first_times({"bootstrap.servers": "127.0.0.1:1"}, [there], 0.3) == {}
    assert first_times(client, []) == {}
