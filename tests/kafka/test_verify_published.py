"""What a topic holds, compared with what was sent to it."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.kafka.outboxes import read
from tests.kafka.test_publish_stage import begin, feed, orders
from waybill.errors import ConfigurationError, DifferenceError
from waybill.jobs import run_migration
from waybill.lake import Lake
from waybill.verify.published import check_published, verify_published

__all__ = ["begin"]

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.mark.parametrize("origin", [False, True])
def test_a_topic_has_what_was_sent_to_it(spark, begin, tmp_path, broker, origin):
    spec = begin(3, origin_headers=origin)
    lake = Lake.open(spark, spec)
    with pytest.raises(ConfigurationError, match="has published nothing yet"):
        verify_published(spec, lake)
    for name, first in (("1", 0), ("2", 500)):
        feed(tmp_path, name, orders(first, 200))
        run_migration(spec, spark=spark)
    (result,) = verify_published(spec, lake)
    assert (result.messages, result.differing, result.expired) == (760, 0, 0)
    assert result.parts >= 2
    check_published([result])
    # Somebody else writes into the topic, and then the next batch: theirs stands between ours.
    name = spec.publish[0].kafka.topic
    write(broker, name, [(b"x", b"y", ())])
    feed(tmp_path, "3", orders(900, 50))
    run_migration(spec, spark=spark)
    (result,) = verify_published(spec, lake)
    assert (result.messages, result.differing, result.others) == (855, 0, 1)


def test_messages_that_are_doubled_or_lost_are_reported(spark, begin, tmp_path, broker, client):
    spec = begin(1)
    lake, name = Lake.open(spark, spec), spec.publish[0].kafka.topic
    feed(tmp_path, "1", orders(0, 100))
    run_migration(spec, spark=spark)
    (records,) = read(client, name).values()
    contents = [(record.key(), record.value(), record.headers() or ()) for record in records]
    write(broker, name, contents[3:4])
    feed(tmp_path, "2", orders(100, 100))
    run_migration(spec, spark=spark)
    (result,) = verify_published(spec, lake)
    assert (result.differing, result.sentence) == (1, "1 message is there more than once")
    with pytest.raises(DifferenceError, match="more than once"):
        check_published([result])
    # The topic is made anew, and filled with everything but two messages.
    admin = AdminClient({"bootstrap.servers": broker.servers})
    (records,) = read(client, name).values()
    contents = [(record.key(), record.value(), record.headers() or ()) for record in records]
    admin.delete_topics([name])[name].result()
    wait_until(lambda: name not in admin.list_topics(timeout=5).topics)
    broker.create_topic(name, 1)
    write(broker, name, [*contents[:7], *contents[9:], *[(b"x", b"y", ())] * 10])
    (result,) = verify_published(spec, lake)
    assert result.differing == 3
    assert "2 messages are not in" in result.sentence


def test_what_the_brokers_have_deleted_is_not_compared(spark, begin, tmp_path, broker):
    spec = begin(1)
    lake, name = Lake.open(spark, spec), spec.publish[0].kafka.topic
    feed(tmp_path, "1", orders(0, 100))
    run_migration(spec, spark=spark)
    admin = AdminClient({"bootstrap.servers": broker.servers})
    place = TopicPartition(name, 0, 10)
    admin.delete_records([place])[place].result()
    (result,) = verify_published(spec, lake)
    assert (result.parts, result.differing, result.expired) == (0, 0, 1)


def write(broker, name, contents) -> None:
    producer = Producer({"bootstrap.servers": broker.servers})
    for key, value, headers in contents:
        producer.produce(name, value, key, partition=0, headers=list(headers))
    assert producer.flush(20) == 0


def wait_until(condition) -> None:
    for _ in range(200):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("waited for too long")
