"""What a batch reads of its topics, settled against a real broker."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from stack.kafka import await_topic
from tests.kafka.producing import (
    delete_before,
    delete_topic,
    send,
    send_transaction,
    transaction,
)
from waybill.errors import ConfigurationError, SourceError
from waybill.kafka.cluster import Cluster
from waybill.sources.kafka.plan import LostOffsets, TopicsPlan, check_unchanged, plan
from waybill.sources.kafka.positions import NOTHING, Positions, read_positions, write_positions
from waybill.spec.endpoints import KafkaSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from stack.kafka import Broker

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def cluster(client: dict[str, str]) -> Cluster:
    return Cluster(client)


def source(*topics: str, **fields: Any) -> KafkaSource:
    return KafkaSource(topics=list(topics), **fields)


def spans(planned: TopicsPlan) -> list[tuple[int, int, int]]:
    return [(span.partition, span.start, span.end) for span in planned.ranges]


def after(planned: TopicsPlan, before: Positions = NOTHING) -> Positions:
    """What the archive has after the batch, by way of the cursor."""
    cursor = write_positions(before, planned.ids, planned.ranges, afresh=not before.next)
    return read_positions([cursor, *([] if before is NOTHING else [restated(before)])])


def restated(known: Positions) -> dict[str, Any]:
    topics: dict[str, Any] = {}
    for (topic, partition), end in known.next.items():
        entry = topics.setdefault(topic, {"id": known.ids[topic], "ranges": {}})
        entry["ranges"][str(partition)] = [end, end]
    return {"complete": True, "topics": topics}


def test_first_and_later_batches(
    cluster: Cluster, client: dict[str, str], topic: Callable[..., str]
) -> None:
    name = topic(3)
    send(client, name, [b"x"] * 5, 0)
    send(client, name, [b"x"] * 2, 2)
    first = plan(source(name), cluster)
    assert spans(first) == [(0, 0, 5), (1, 0, 0), (2, 0, 2)]
    assert (first.offsets, first.losses, first.held) == (7, [], {})
    assert spans(plan(source(name), cluster, after(first))) == [(0, 5, 5), (1, 0, 0), (2, 2, 2)]
    send(client, name, [b"x"] * 3, 1)
    assert spans(plan(source(name), cluster, after(first))) == [(0, 5, 5), (1, 0, 3), (2, 2, 2)]
    assert spans(plan(source(name), cluster, after(first), afresh=True)) == spans(
        plan(source(name), cluster)
    )


def test_new_partitions_begin_at_their_beginning(
    cluster: Cluster, client: dict[str, str], topic: Callable[..., str]
) -> None:
    name = topic(1)
    send(client, name, [b"x"] * 4)
    known = after(plan(source(name, start="latest"), cluster))
    admin = AdminClient(dict(client))
    admin.create_partitions([NewPartitions(name, 3)])[name].result(30)
    await_topic(admin, name, 3)
    send(client, name, [b"x"] * 2, 2)
    later = plan(source(name, start="latest"), cluster, known)
    assert spans(later) == [(0, 4, 4), (1, 0, 0), (2, 0, 2)]


def test_where_a_first_read_starts(
    cluster: Cluster, client: dict[str, str], topic: Callable[..., str]
) -> None:
    name, now = topic(2), int(time.time() * 1000)
    for second in range(10):
        send(client, name, [b"x"], 0, timestamp=now - 100_000 + second * 1000)
    delete_before(client, name, 2)

    def start(where: Any, afresh: bool = False) -> list[tuple[int, int, int]]:
        return spans(plan(source(name, start=where), cluster, afresh=afresh))

    assert start("earliest") == [(0, 2, 10), (1, 0, 0)]
    assert start("latest") == [(0, 10, 10), (1, 0, 0)]
    # A full run reads from the beginning, or it would read nothing.
    assert start("latest", afresh=True) == [(0, 2, 10), (1, 0, 0)]
    between = datetime.fromtimestamp((now - 100_000 + 4500) / 1000, UTC)
    assert start(between) == [(0, 5, 10), (1, 0, 0)]
    assert start(datetime(2001, 1, 1, tzinfo=UTC)) == [(0, 2, 10), (1, 0, 0)]
    assert start("2999-01-01T00:00:00Z") == [(0, 10, 10), (1, 0, 0)]
    assert start({name: {0: 7}}) == [(0, 7, 10), (1, 0, 0)]
    with pytest.raises(SourceError, match=r"offset 1 of partition 0 .* has 2 to 10"):
        start({name: {0: 1}})
    with pytest.raises(SourceError, match="offset 11"):
        start({name: {0: 11}})
    with pytest.raises(SourceError, match="partition 7 of the topic"):
        start({name: {7: 0}})


def test_an_end_by_time(
    cluster: Cluster, client: dict[str, str], topic: Callable[..., str]
) -> None:
    name, now = topic(), int(time.time() * 1000)
    for second in range(10):
        send(client, name, [b"x"], timestamp=now - 100_000 + second * 1000)
    end = datetime.fromtimestamp((now - 100_000 + 4000) / 1000, UTC)
    first = plan(source(name, end=end), cluster)
    assert spans(first) == [(0, 0, 4)]
    assert spans(plan(source(name, end=end), cluster, after(first))) == [(0, 4, 4)]
    # The end was moved back behind what was read: nothing to read, and nothing to forget.
    early = datetime.fromtimestamp((now - 100_000 + 1000) / 1000, UTC)
    assert spans(plan(source(name, end=early), cluster, after(first))) == [(0, 4, 4)]
    assert spans(plan(source(name), cluster, after(first))) == [(0, 4, 10)]


def test_an_end_by_offsets(
    cluster: Cluster, client: dict[str, str], topic: Callable[..., str]
) -> None:
    name = topic(2)
    send(client, name, [b"x"] * 10, 0)
    send(client, name, [b"x"] * 3, 1)
    exact = source(name, start={name: {0: 2}}, end={name: {0: 6}})
    first = plan(exact, cluster)
    assert spans(first) == [(0, 2, 6), (1, 0, 3)]
    assert spans(plan(exact, cluster, after(first))) == [(0, 6, 6), (1, 3, 3)]
    # What is not there yet comes with the batch after it.
    more = source(name, end={name: {0: 12}})
    second = plan(more, cluster, after(first))
    assert spans(second) == [(0, 6, 10), (1, 3, 3)]
    send(client, name, [b"x"] * 5, 0)
    assert spans(plan(more, cluster, after(second))) == [(0, 10, 12), (1, 3, 3)]
    with pytest.raises(SourceError, match="end names partition 7 of the topic"):
        plan(source(name, end={name: {7: 1}}), cluster)
    with (
        transaction(client, name, [b"y"], commit=True, partition=0),
        transaction(client, name, [b"y"], commit=True, partition=1),
    ):
        held = plan(more, cluster, after(second)).held
    assert held == {(name, 1): 1}, "what an end leaves is not waited for"


def test_an_open_transaction_is_left_and_reported(
    cluster: Cluster, client: dict[str, str], topic: Callable[..., str]
) -> None:
    name = topic()
    send_transaction(client, name, [b"x"] * 3, commit=True)
    with transaction(client, name, [b"y"] * 5, commit=True):
        held = plan(source(name), cluster)
        assert spans(held) == [(0, 0, 4)]
        assert held.held == {(name, 0): 5}
        assert spans(plan(source(name, start="latest"), cluster)) == [(0, 4, 4)]
    ended = plan(source(name), cluster, after(held))
    assert (spans(ended), ended.held) == ([(0, 4, 10)], {})


def test_deleted_messages(
    cluster: Cluster, client: dict[str, str], topic: Callable[..., str]
) -> None:
    name = topic()
    send(client, name, [b"x"] * 10)
    known = after(plan(source(name), cluster))
    send(client, name, [b"x"] * 10)
    delete_before(client, name, 10)
    assert spans(plan(source(name), cluster, known)) == [(0, 10, 20)]
    delete_before(client, name, 15)
    message = r"begins at offset 15, and was read up to 10: .* deleted 5 offsets .* on_data_loss"
    with pytest.raises(SourceError, match=message):
        plan(source(name), cluster, known)
    going_on = plan(source(name, on_data_loss="earliest"), cluster, known)
    assert spans(going_on) == [(0, 15, 20)]
    assert going_on.losses == [LostOffsets(name, 0, 10, 15)]
    # Also where nothing is left to read.
    delete_before(client, name, 20)
    with pytest.raises(SourceError, match="deleted 10 offsets"):
        plan(source(name), cluster, known)
    emptied = plan(source(name, on_data_loss="earliest"), cluster, known)
    assert spans(emptied) == [(0, 20, 20)]
    assert after(emptied, known).next == {(name, 0): 20}


def test_a_topic_that_was_made_again(
    broker: Broker, cluster: Cluster, client: dict[str, str], topic: Callable[..., str]
) -> None:
    name = topic()
    send(client, name, [b"x"] * 10)
    first = plan(source(name), cluster)
    delete_topic(client, name)
    with pytest.raises(ConfigurationError, match=f"the topic {name} at"):
        plan(source(name), cluster, after(first))
    broker.create_topic(name)
    # As many messages as before: only the id tells.
    send(client, name, [b"y"] * 12)
    for loss in ("fail", "earliest"):
        with pytest.raises(SourceError, match="deleted and recreated"):
            plan(source(name, on_data_loss=loss), cluster, after(first))
    with pytest.raises(SourceError, match="deleted and recreated"):
        check_unchanged(cluster, first)
    assert spans(plan(source(name), cluster, after(first), afresh=True)) == [(0, 0, 12)]


def test_a_shrunken_end_where_brokers_know_no_ids(
    cluster: Cluster, client: dict[str, str], topic: Callable[..., str]
) -> None:
    name = topic()
    send(client, name, [b"x"] * 3)
    known = Positions({name: ""}, {(name, 0): 10}, 0)
    for loss in ("fail", "earliest"):
        with pytest.raises(SourceError, match="ends at offset 3 and was read up to 10"):
            plan(source(name, on_data_loss=loss), cluster, known)
    with pytest.raises(SourceError, match=r"partition 1 of the topic .* no longer there"):
        plan(source(name), cluster, Positions({name: ""}, {(name, 0): 3, (name, 1): 1}, 0))


def test_topics_by_pattern(broker: Broker, cluster: Cluster, client: dict[str, str]) -> None:
    shop = KafkaSource(pattern=r"by\.pattern\.\d", start="latest")
    with pytest.raises(SourceError, match=r"no topic at .* matches the pattern"):
        plan(shop, cluster)
    for name in ("by.pattern.1", "by.pattern.10", "not.by.pattern.1"):
        broker.create_topic(name)
        send(client, name, [b"x"] * 2)
    first = plan(shop, cluster)
    assert [str(span) for span in first.ranges] == ["by.pattern.1/0 from offset 2 to 2"]
    broker.create_topic("by.pattern.2")
    send(client, "by.pattern.2", [b"x"] * 3)
    later = plan(shop, cluster, after(first))
    # All of a topic that came later is new, wherever the first read started.
    assert spans(later) == [(0, 2, 2), (0, 0, 3)]
    delete_topic(client, "by.pattern.1")
    with pytest.raises(SourceError, match=r"by\.pattern\.1, read before, is no longer"):
        plan(shop, cluster, after(later, after(first)))
    going_on = shop.model_copy(update={"on_data_loss": "earliest"})
    assert spans(plan(going_on, cluster, after(later, after(first)))) == [(0, 3, 3)]


def test_a_topic_that_the_list_names_later_starts_where_it_says(
    cluster: Cluster, client: dict[str, str], topic: Callable[..., str]
) -> None:
    one, two = topic(), topic()
    for name in (one, two):
        send(client, name, [b"x"] * 2)
    known = after(plan(source(one), cluster))
    both = plan(source(one, two, start="latest"), cluster, known)
    assert spans(both) == [(0, 2, 2), (0, 2, 2)]


def test_an_unknown_topic(cluster: Cluster, topic: Callable[..., str]) -> None:
    with pytest.raises(ConfigurationError, match=r"the topic no\.such\.topic at"):
        plan(source(topic(), "no.such.topic"), cluster)
