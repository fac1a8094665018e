"""Messages for the tests, sent as each test needs them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from waybill.kafka.cluster import Cluster


def send(
    client: Mapping[str, str], topic: str, items: Iterable[Any], partition: int = 0, **more: Any
) -> None:
    """Send values, or pairs of key and value, in their order: also what is sent again."""
    settings = {"linger.ms": 5, "max.in.flight.requests.per.connection": 1}
    producer = Producer({**client, **settings})
    for item in items:
        key, value = item if isinstance(item, tuple) else (None, item)
        producer.produce(topic, value, key, partition, **more)
        producer.poll(0)
    assert producer.flush(30) == 0


@contextlib.contextmanager
def transaction(
    client: Mapping[str, str], topic: str, values: Iterable[bytes], commit: bool, partition: int = 0
) -> Iterator[None]:
    """A transaction that is open inside the block, then committed or aborted."""
    producer = Producer({**client, "transactional.id": f"{topic}-{partition}-{id(values)}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, None, partition)
    assert producer.flush(30) == 0
    yield
    if commit:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)
    # The client is told before the marker that ends the transaction is written.
    cluster, place = Cluster(client), (topic, partition)
    while cluster.latest([place]) != cluster.latest([place], stable=False):
        pass


def send_transaction(
    client: Mapping[str, str], topic: str, values: Iterable[bytes], commit: bool, partition: int = 0
) -> None:
    """A whole transaction; its marker takes one offset."""
    with transaction(client, topic, values, commit, partition):
        pass


def delete_before(client: Mapping[str, str], topic: str, offset: int, partition: int = 0) -> None:
    """Let the broker delete messages, as its retention would."""
    admin = AdminClient(dict(client))
    for done in admin.delete_records([TopicPartition(topic, partition, offset)]).values():
        done.result(30)


def delete_topic(client: Mapping[str, str], topic: str) -> None:
    """Delete a topic and wait until it is gone."""
    admin = AdminClient(dict(client))
    admin.delete_topics([topic])[topic].result(30)
    while topic in admin.list_topics(timeout=10).topics:
        pass


KINDS = {"topic": ResourceType.TOPIC, "transactional id": ResourceType.TRANSACTIONAL_ID}


def allow(client: Mapping[str, str], kind: str, name: str, operation: str) -> None:
    """Give the user ann a right, which the broker forbids otherwise: `"topic", name, "WRITE"`."""
    admin = AdminClient(dict(client))
    literal, allowed = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    what = AclOperation[operation]
    rule = AclBinding(KINDS[kind], name, literal, "User:ann", "*", what, allowed)
    admin.create_acls([rule])[rule].result(10)
    # The cluster has the rule now; the broker may learn of it a moment later.
    known = AclBindingFilter(KINDS[kind], name, literal, "User:ann", "*", what, allowed)
    while not admin.describe_acls(known).result(10):
        pass
