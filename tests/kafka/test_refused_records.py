"""Records that brokers refuse, and one that is larger than the usual queue of the client."""

from __future__ import annotations

import time

import pytest

from tests.kafka.outboxes import message, read, stream
from tests.kafka.sending import Publication, publication
from waybill.errors import Code, ConfigurationError
from waybill.publish.kafka.transactions import Transactions

pytestmark = pytest.mark.kafka

HOUR = 3600 * 1000
MANY = 300
"""Records of a part. Few of them have a callback, so that most fail in silence."""


@pytest.fixture
def publish(client, topic):
    """Sends rows to a topic of its own; gives the publication and the error."""

    def publish(rows, **settings) -> tuple[Publication, ConfigurationError]:
        name = topic(1, **settings)
        made = topic(1)
        out = publication(client, lambda *_: made, partitions=1, counts=(len(rows),), part=10_000)
        out.topic = name
        with pytest.raises(ConfigurationError) as caught:
            list(out.sending(source_time=True).run(stream(rows)))
        assert not caught.value.transient
        assert caught.value.code is Code.TARGET_TOPIC
        assert read(client, name) == {0: []}
        assert out.entries() == {}
        return out, caught.value

    return publish


def at(offset: int, millis: int | None) -> dict:
    return message(offset, timestamp=None if millis is None else millis * 1000)


@pytest.mark.parametrize("place", [0, 170, MANY - 1])
def test_a_time_too_far_in_the_future_is_no_outage(publish, place):
    """Neither is it where no record with a callback has that time."""
    now = int(time.time() * 1000)
    rows = [at(i, now + 3 * HOUR if i == place else now - 1000) for i in range(MANY)]
    out, error = publish(rows)
    assert f"the topic {out.topic} does not take the time of a record" in error.sentence
    assert f"(change shop/0/{place}/0), its oldest" in error.sentence
    assert "message.timestamp.after.max.ms" in error.sentence
    assert "timestamps: now" in error.sentence


def test_a_time_too_far_in_the_past(publish):
    now = int(time.time() * 1000)
    rows = [at(i, 1_000_000_000_000 if i == 7 else now) for i in range(MANY)]
    out, error = publish(rows, message_timestamp_before_max_ms=str(HOUR))
    assert f"the topic {out.topic} does not take" in error.sentence
    assert "its oldest of 2001-09-09 01:46:40 UTC (change shop/0/7/0)" in error.sentence
    assert "message.timestamp.before.max.ms" in error.sentence


def test_a_message_without_key_in_a_compacted_topic_whose_settings_are_not_seen(publish):
    """Where they are seen, nothing is sent at all."""
    rows = [message(i, None if i == 123 else b"k") for i in range(MANY)]
    out, error = publish(rows, cleanup_policy="compact")
    assert f"the topic {out.topic} does not take a record" in error.sentence
    assert "the message of change shop/0/123/0 has no key" in error.sentence
    assert "cleanup.policy" in error.sentence


def test_a_message_larger_than_the_usual_queue_is_sent(client, topic):
    largest = 200_000_000
    name = topic(1, max_message_bytes=str(largest))
    value = b"x" * (2**27 + 1)
    with Transactions(client, "waybill/tests/large", 120.0, largest) as transactions:
        transactions.take()
        transactions.begin()
        transactions.send(name, b"before", b"k", 0)
        transactions.send(name, value, b"k", 0, watched=True)
        transactions.finish()
        transactions.commit()
        assert transactions.offsets == {0: (1, 1)}


def test_a_queue_that_the_connection_makes_too_small_is_no_wait_for_ever(client, topic):
    name = topic(1)
    properties = {**client, "queue.buffering.max.kbytes": "8"}
    with Transactions(properties, "waybill/tests/small", 60.0, 1_000_000) as transactions:
        transactions.take()
        transactions.begin()
        for _ in range(50):  # more than it holds at once
            transactions.send(name, b"x" * 5000, b"k", 0)
        began = time.monotonic()
        sentence = "a message of 9001 bytes .* at least 9,"
        with pytest.raises(ConfigurationError, match=sentence) as caught:
            transactions.send(name, b"x" * 9000, b"k", 0)
    assert time.monotonic() - began < 10
    assert caught.value.code is Code.CONNECTION_INVALID
    assert "queue.buffering.max.kbytes" in caught.value.sentence
