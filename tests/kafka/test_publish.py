"""The sink against a real broker: every message once and in order, or nothing and a reason."""

from __future__ import annotations

import os
import threading
import time

import pytest

from stack.kafka import Broker
from tests.kafka.conftest import PASSWORD
from tests.kafka.outboxes import as_sent, contents, message, read, stream
from tests.kafka.sending import Publication, publication
from waybill.errors import ConfigurationError, ConflictError, UnreachableError, WaybillError
from waybill.kafka.cluster import Cluster
from waybill.publish.kafka.ledger import Owner, ensure_ledger, read_entries
from waybill.publish.kafka.message_source import Made
from waybill.publish.kafka.part_boundaries import Limits
from waybill.publish.kafka.preflight import examine
from waybill.publish.kafka.publisher import prepare, recover
from waybill.publish.kafka.sender import Group
from waybill.publish.kafka.topic import FRAME, describe
from waybill.publish.kafka.transactions import Transactions
from waybill.spec.endpoints import KafkaTarget

pytestmark = pytest.mark.kafka

SOON = 10.0
"""Seconds within which a mistake is reported."""


@pytest.fixture
def out(client, topic) -> Publication:
    """A publication of its own for each test."""
    return publication(client, topic)


@pytest.fixture
def connect(monkeypatch, broker):
    """Makes `kafka_default` a connection to the broker."""

    def connect(**fields: str) -> None:
        for name in list(os.environ):
            if name.startswith(("AIRFLOW_CONN_", "KAFKA_")):
                monkeypatch.delenv(name)
        given = {"bootstrap_servers": broker.servers, **fields}
        for name, value in given.items():
            monkeypatch.setenv(f"KAFKA_{name.upper()}", value)

    connect()
    return connect


def login(broker: Broker, password: str = PASSWORD) -> dict[str, str]:
    """How the user of the tests, who has no rights of his own, comes in."""
    return {
        "bootstrap_servers": broker.address("SASL_PLAINTEXT"),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": "ann",
        "sasl_password": password,
    }


MADE = [Made("b1", 3000, 300_000, 0, 100, lambda: (100, "shop/0/0/0"))]


def plan(target: dict[str, str], made: list[Made] = MADE):
    return prepare(KafkaTarget.model_validate(target), Owner("demo", "t"), made)


# Everything once


def test_every_message_arrives_once_in_order_with_key_headers_and_tombstones(out):
    parts = out.send()
    assert [part["before"] for part in parts] == [False] * 12
    out.check()
    records = [record for own in read(out.client, out.topic).values() for record in own]
    assert sum(record.value() is None for record in records) == 334
    assert sum(record.key() is None for record in records) == 231


def test_a_rerun_sends_nothing(out):
    first = out.send()
    again = out.send()
    assert [part["before"] for part in again] == [True] * 12
    assert [part["entry"] for part in again] == [part["entry"] for part in first]
    assert out.raw() == 3000
    # Also after the parts have become larger, or the topic has more partitions.
    out.part = 1000
    assert all(part["before"] for part in out.send())
    out.partitions = 5
    assert all(part["before"] for part in out.send())
    assert out.raw() == 3000


def test_headers_and_times(out, client):
    rows = [
        message(1, headers=[("a", b"1"), ("a", None), ("ü", b"")], timestamp=1_700_000_000_123_456),
        message(2, timestamp=None),
        message(3, headers=[], timestamp=-5),
    ]
    now = time.time() * 1000
    sending = out.sending(source_time=True, origin=True)
    list(sending.run(stream(rows)))
    (records,) = (own for own in read(client, out.topic).values() if own)
    own = [("waybill-batch", b"b1")]
    assert [record.headers() for record in records] == [
        [("a", b"1"), ("a", None), ("ü", b""), *own, ("waybill-source", b"shop/0/1/0")],
        [*own, ("waybill-source", b"shop/0/2/0")],
        [*own, ("waybill-source", b"shop/0/3/0")],
    ]
    times = [record.timestamp()[1] for record in records]
    assert times[0] == 1_700_000_000_123
    assert all(abs(time - now) < 60_000 for time in times[1:])


def test_records_have_the_time_of_sending_unless_set_otherwise(out, client):
    list(out.sending().run(stream([message(1, timestamp=1_700_000_000_123_456)])))
    (record,) = (record for own in read(client, out.topic).values() for record in own)
    assert abs(record.timestamp()[1] - time.time() * 1000) < 60_000
    assert record.headers() is None


def test_the_largest_message_that_is_let_through_is_taken(client, topic):
    """It cannot be compressed; with one byte more than the frame allows the broker says no."""
    limit = 5000
    name = topic(1, max_message_bytes=str(limit))
    out = publication(client, lambda *_: name, partitions=1)
    ensure_ledger(Cluster(client), out.ledger)
    value = os.urandom(limit - FRAME - 3)
    rows = [message(1), message(2, b"key", value), message(3)]
    sending = out.sending()
    list(type(sending)(**{**vars(sending), "largest": limit}).run(stream(rows)))
    assert contents(read(client, name)[0]) == [as_sent(row) for row in rows]


# Whoever was here before


def test_a_batch_that_was_left_half_sent_goes_on_with_the_next(client, topic):
    """The next run has the messages of both batches; the parts of the first stay its parts."""
    out = publication(client, topic, counts=(1000, 700))
    parts = out.sending(1).run(stream(out.rows[:1000], 100))
    next(parts), next(parts)
    del parts
    assert sorted(out.entries()) == [("b1", 0), ("b1", 1)]
    sent = out.send()
    assert [part["before"] for part in sent] == [True, True, False, False, *[False] * 3]
    out.check()


def test_other_messages_under_the_same_batch_are_a_conflict_and_send_nothing(out):
    out.send()
    rows = out.rows
    other = [*rows[:10], {**rows[10], "value": b"other"}, *rows[11:]]
    with pytest.raises(ConflictError, match=r"b1 was published .* with other messages"):
        list(out.sending().run(stream(other)))
    fewer = type(out)(**{**vars(out), "counts": (2999,)})
    with pytest.raises(ConflictError, match="with other messages"):
        recover(fewer.sending(), print)
    with pytest.raises(ConflictError, match="with other messages"):
        fewer.send()
    assert out.raw() == 3000
    out.check()


def test_another_topic_under_the_same_batch_is_a_conflict(out, topic):
    """Another ledger, as the error says, sends all of it to the new topic too."""
    out.send()
    elsewhere = type(out)(**{**vars(out), "topic": topic(3)})
    sentence = r"published to the topic .* before, not to .*, or another ledger to send the whole"
    with pytest.raises(ConflictError, match=sentence):
        elsewhere.send()
    assert elsewhere.raw() == 0
    anew = type(out)(**{**vars(elsewhere), "ledger": f"{elsewhere.topic}.ledger"})
    ensure_ledger(Cluster(anew.client), anew.ledger)
    anew.send()
    anew.check()
    out.check()


def test_targets_and_migrations_do_not_mind_each_other(client, topic, out):
    """Even in one topic and one ledger, with the same batch."""
    out.send()
    other = out.sending()
    for owner in (Owner("demo", "u"), Owner("other", "t")):
        mine = type(other)(**{**vars(other), "owner": owner})
        assert not any(
            row["before"] for batch in mine.run(stream(out.rows)) for row in batch.to_pylist()
        )
    assert out.raw() == 9000
    assert len(out.entries()) == 12


def test_an_entry_that_is_lost_is_noticed(out, client):
    out.send()
    owner = Owner("demo", "t")
    with Transactions(client, "tests/vandal", 30) as vandal:
        vandal.take()
        vandal.begin()
        vandal.send(out.ledger, None, owner.key("b1", 3), owner.slot)
        vandal.commit()
    with pytest.raises(ConflictError, match="has lost entries of batch b1"):
        out.send()
    assert out.raw() == 3000


def test_a_transaction_of_another_target_is_waited_for(out, client):
    """What stands behind it in the ledger is committed, and seen only when it ends."""
    with Transactions(client, "tests/other", 60) as other:
        other.take()
        other.begin()
        other.send(out.ledger, b"{}", b"other/b/t/0", Owner("demo", "t").slot)
        other.finish()
        done: list[object] = []
        said: list[object] = []

        def look() -> None:
            found = read_entries(client, out.ledger, Owner("demo", "t"), lambda *a: said.append(a))
            done.append(found)

        thread = threading.Thread(target=look)
        thread.start()
        while not said:
            assert thread.is_alive()
            time.sleep(0.05)
        assert not done
        other.commit()
        thread.join(30)
        assert done == [{}]


def test_two_publishers_at_once(out):
    """The later one takes over in the midst of a part; who is told to run again loses nothing."""
    sending, rows = out.sending(), out.rows
    first_is_sending, second_is_done = threading.Event(), threading.Event()
    conflicts: list[BaseException] = []

    def slowly():
        for i, batch in enumerate(stream(rows, 100)):
            if i == 9:
                first_is_sending.set()
                assert second_is_done.wait(60)
            yield batch

    def first() -> None:
        try:
            list(sending.run(slowly()))
        except ConflictError as error:
            conflicts.append(error)

    thread = threading.Thread(target=first)
    thread.start()
    assert first_is_sending.wait(60)
    half = [part for batch in sending.run(stream(rows[:1700], 100)) for part in batch.to_pylist()]
    assert [part["before"] for part in half] == [True, True, True, False, False, False, False]
    second_is_done.set()
    thread.join(60)
    assert "another run publishes to this target" in str(conflicts[0])


def test_publishers_that_take_over_from_each_other_again_and_again(out):
    """Each is told to run again and does; nothing is lost or doubled."""
    broken: list[BaseException] = []

    def publish() -> None:
        for _ in range(60):
            try:
                out.send()
            except ConflictError:
                continue
            except BaseException as error:
                broken.append(error)
                raise
            else:
                return

    threads = [threading.Thread(target=publish) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert broken == []
    out.check()


# What goes wrong


def test_a_broker_that_is_away_for_a_while_is_waited_for(tmp_path):
    """It goes in the middle of a transaction, and comes back."""
    with Broker(tmp_path / "kafka") as broker:
        client = {"bootstrap.servers": broker.servers, "reconnect.backoff.max.ms": "500"}
        out = publication(client, lambda count: broker.create_topic("out", count))

        def interrupted():
            for i, batch in enumerate(stream(out.rows, 100)):
                if i == 13:
                    broker.stop()
                    broker.start()
                yield batch

        list(out.sending().run(interrupted()))
        out.check()


def test_a_broker_that_stays_away_is_an_error_that_may_pass(tmp_path):
    with Broker(tmp_path / "kafka") as broker:
        client = {"bootstrap.servers": broker.servers, "reconnect.backoff.max.ms": "500"}
        out = publication(client, lambda count: broker.create_topic("out", count))

        def interrupted():
            for i, batch in enumerate(stream(out.rows, 100)):
                if i == 13:
                    broker.kill()
                yield batch

        with pytest.raises(UnreachableError) as caught:
            list(out.sending(timeout=5).run(interrupted()))
        assert "\n" not in str(caught.value)
        broker.start()
        assert [part["before"] for part in out.send()].count(True) == 5
        out.check()


def quickly(fault: type[WaybillError], match: str, call, *arguments) -> None:
    """An error of one sentence, in time."""
    started = time.monotonic()
    with pytest.raises(fault, match=match) as caught:
        call(*arguments)
    assert time.monotonic() - started < SOON
    assert "\n" not in str(caught.value)
    assert PASSWORD not in str(caught.value)


def test_mistakes_are_reported_before_anything_is_sent(connect, broker, topic, client):
    name = topic(2)
    quickly(ConfigurationError, "make the topic", plan, {"topic": "not.there"})
    quickly(ConfigurationError, "no partition 2, it has 2", plan, {"topic": name, "partition": 2})
    ledger = topic(3)
    target = {"topic": name, "ledger": ledger}
    quickly(ConfigurationError, "has 3 partitions and needs 16", plan, target)
    ledger = topic(16)
    target = {"topic": name, "ledger": ledger}
    quickly(ConfigurationError, "cleanup.policy=delete, so it would forget", plan, target)
    long = {"topic": name, "ledger": f"{name}.ledger", "transaction_timeout": "1h"}
    sending = plan(long)
    quickly(ConfigurationError, "lower .* transaction_timeout", recover, sending, print)
    connect(bootstrap_servers="127.0.0.1:1")
    quickly(UnreachableError, "127.0.0.1:1", plan, {"topic": name})
    connect(**login(broker, "wrong"))
    quickly(ConfigurationError, "fix login", plan, {"topic": name})
    assert sum(map(len, read(client, name, "read_uncommitted").values())) == 0


def test_missing_rights_are_reported_one_after_another(connect, broker, topic, client, allow):
    name = topic(2)
    target = {"topic": name, "ledger": f"{name}.led"}
    connect(**login(broker))
    quickly(ConfigurationError, "authorization failed", plan, target)
    allow("topic", name, "DESCRIBE")
    quickly(ConfigurationError, "may not write to the topic", plan, target)
    allow("topic", name, "WRITE")
    quickly(ConfigurationError, rf"{name}\.led.*authorization failed", plan, target)
    ensure_ledger(Cluster(client), f"{name}.led")
    allow("topic", f"{name}.led", "READ")
    quickly(ConfigurationError, "may not write to the topic", plan, target)
    allow("topic", f"{name}.led", "WRITE")
    sending = plan(target)
    assert sending.largest is None
    quickly(ConfigurationError, "Transactional Id authorization", recover, sending, print)
    allow("transactional id", sending.owner.transactional_id, "WRITE")
    assert recover(sending, print) == 0
    rows = [message(i) for i in range(10)]
    small = type(sending)(**{**vars(sending), "groups": (Group("b1", 10),)})
    list(small.run(stream(rows)))
    assert sum(map(len, read(client, name).values())) == 10


def test_the_ledger_is_made_as_it_must_be(connect, topic, client):
    name = topic()
    plan({"topic": name, "ledger": f"{name}.made"})
    plan({"topic": name, "ledger": f"{name}.made"})
    found = describe(Cluster(client), f"{name}.made")
    assert found.partitions == 16
    assert found.compacted


def test_limits_of_parts_are_those_of_the_target(connect, topic):
    name = topic()
    target = KafkaTarget(topic=name, transaction_timeout="30s", timestamps="source")
    sending = prepare(target, Owner("demo", "t"), MADE, Limits(7))
    assert (sending.timeout, sending.source_time, sending.limits.messages) == (30, True, 7)
    assert PASSWORD not in repr(sending)
    assert "bootstrap" not in repr(sending)


def test_check_says_what_is_known_and_takes_nothing(connect, broker, topic, client, allow, out):
    """A run that publishes meanwhile is not disturbed."""
    name = topic(2, max_message_bytes="5000", cleanup_policy="compact,delete")
    target = KafkaTarget(topic=name, ledger=f"{name}.led", timestamps="source")
    with Transactions(client, Owner("demo", "t").transactional_id, 30) as running:
        running.take()
        running.begin()
        text, notes = examine(target)
        running.send(out.ledger, b"{}", b"x", 0)
        running.commit()
    assert text == f"topic {name}, 2 partitions, takes messages of 5000 bytes"
    assert [word for word in ("compacted", "7.0 days", "will be made") if word in " ".join(notes)]
    assert len(notes) == 3
    ensure_ledger(Cluster(client), target.ledger)
    assert examine(KafkaTarget(topic=name, ledger=target.ledger))[1] == [notes[0]]
    with pytest.raises(ConfigurationError, match="no partition 2"):
        examine(KafkaTarget(topic=name, partition=2))
    connect(**login(broker))
    allow("topic", name, "WRITE")
    allow("topic", target.ledger, "WRITE")
    assert "may not be seen" in examine(KafkaTarget(topic=name, ledger=target.ledger))[1][0]
