"""How much of each topic the archive does not have yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.kafka.client import named_properties
from waybill.kafka.cluster import Cluster
from waybill.sources.kafka.plan import TopicsPlan, plan
from waybill.sources.kafka.positions import read_positions

if TYPE_CHECKING:
    from waybill.lake.history import History
    from waybill.spec.endpoints import KafkaSource

PATIENCE = 5.0
"""Seconds to wait for an answer; a person waits, too."""


class TopicLag(NamedTuple):
    """One topic, counted in offsets, which are at least as many as messages.

    Attributes:
        topic: its name.
        partitions: how many it has.
        unread: offsets that a batch would read now.
        missing: offsets that the brokers have deleted before they were read.
    """

    topic: str
    partitions: int
    unread: int
    missing: int


def lag_of(source: KafkaSource, newest_first: Iterable[dict[str, Any]]) -> list[TopicLag]:
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
    partitions = Counter(span.topic for span in planned.ranges)
    waiting: Counter[str] = Counter()
    for span in planned.ranges:
        waiting[span.topic] += span.offsets
    missing: Counter[str] = Counter()
    for loss in planned.losses:
        missing[loss.topic] += loss.end - loss.start
    return [
        TopicLag(topic, partitions[topic], waiting[topic], missing[topic]) for topic in planned.ids
    ]


def unread(
    source: KafkaSource, newest_first: Iterable[dict[str, Any]]
) -> tuple[Cluster, TopicsPlan]:
    """What a batch would read now, and the cluster that has it; see `lag_of`."""
    cluster = Cluster(named_properties(source.connection), PATIENCE)
    cluster.reach()
    # As the next batch would, had it been set not to stop at what is missing.
    going_on = source.model_copy(update={"on_data_loss": "earliest"})
    return cluster, plan(going_on, cluster, read_positions(newest_first))


def cursors_of(lake: History) -> list[dict[str, Any]]:
    """How far the archive has read topics: the cursors of its commits, newest first."""
    archive = lake.log("archive")
    commits = lake.commits(archive) if lake.exists(archive) else []
    return [c.cursor for c in commits if c.stage == "snapshot" and "topics" in c.cursor]
