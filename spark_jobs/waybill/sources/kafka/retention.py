"""Whether the brokers will soon delete messages that the archive does not have yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka.admin import ConfigResource, ResourceType

from waybill.sources.kafka.lag import unread

if TYPE_CHECKING:
    from waybill.kafka.cluster import Cluster
    from waybill.spec.endpoints import KafkaSource

SHARE = 0.5
"""The share of a topic's retention after which a message that is not read yet is in danger."""


class Endangered(NamedTuple):
    """A partition whose next unread message is in danger.

    Attributes:
        topic: its name.
        partition: its number.
        offset: of the next message that would be read.
        unread: offsets from there on.
        retention: how long the topic keeps messages, in seconds.
    """

    topic: str
    partition: int
    offset: int
    unread: int
    retention: float


def endangered(
    source: KafkaSource, newest_first: Iterable[dict[str, Any]], now: float
) -> list[Endangered]:
    """The partitions whose next unread message has lived through `SHARE` of its retention.

    Only a retention by time (`retention.ms`, `cleanup.policy=delete`) is looked at: what one by
    size deletes depends on what is sent.

    Args:
        source: the topics.
        newest_first: cursors of the archive's commits.
        now: seconds since 1970.

    Raises:
        SourceError: a topic is not what was read before.
        ConfigurationError: the connection, a topic or a right is missing.
        UnreachableError: the brokers do not answer.
    """
    cluster, planned = unread(source, newest_first)
    waiting = [span for span in planned.ranges if span.offsets]
    kept = _retentions(cluster, {span.topic for span in waiting})
    found = []
    for topic, seconds in kept.items():
        spans = {(span.topic, span.partition): span for span in waiting if span.topic == topic}
        young = cluster.first_at(spans, int((now - SHARE * seconds) * 1000))
        found += [
            Endangered(topic, place[1], span.start, span.offsets, seconds)
            for place, span in spans.items()
            # There is none so young, or the first one stands behind what is to be read.
            if young[place] < 0 or young[place] > span.start
        ]
    return found


def _retentions(cluster: Cluster, topics: set[str]) -> dict[str, float]:
    """How long topics keep messages, in seconds; those that delete none by age are left out."""
    if not topics:
        return {}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in sorted(topics)]
    found = {}
    for resource, future in cluster.admin.describe_configs(resources).items():
        entries = cluster.answer(future, f"the configuration of the topic {resource.name}")
        milliseconds = int(entries["retention.ms"].value)
        if milliseconds >= 0 and "delete" in entries["cleanup.policy"].value:
            found[resource.name] = milliseconds / 1000
    return found
