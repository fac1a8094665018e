"""Looks at a target before anything is published to it; changes and takes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.counting import counted
from waybill.kafka.client import named_properties
from waybill.kafka.cluster import Cluster
from waybill.publish.kafka.ledger import check_ledger, exists
from waybill.publish.kafka.publisher import check_partition
from waybill.publish.kafka.topic import PATIENCE, TargetTopic, describe

if TYPE_CHECKING:
    from waybill.spec.endpoints import KafkaTarget

DAY_MS = 86_400_000


def examine(target: KafkaTarget) -> tuple[str, list[str]]:
    """Whether a target can be published to, as far as that can be known without taking it.

    The right on the transactional id is not asked for: asking takes it from a run that publishes.

    Returns:
        What the topic is, and what people should know about it.

    Raises:
        ConfigurationError: address, login, topic, partition, ledger or a right is wrong.
        UnreachableError: no server answers.
    """
    cluster = Cluster(named_properties(target.connection), PATIENCE)
    topic = describe(cluster, target.topic)
    check_partition(target, topic)
    text = f"topic {topic.name}, {counted(topic.partitions, 'partition')}"
    if topic.largest is not None:
        text += f", takes messages of {counted(topic.largest, 'byte')}"
    notes = _notes(target, topic)
    if exists(cluster, target.ledger):
        check_ledger(cluster, target.ledger)
    else:
        notes.append(f"the ledger {target.ledger} is not there and will be made")
    return text, notes


def _notes(target: KafkaTarget, topic: TargetTopic) -> list[str]:
    notes = []
    if not topic.settings:
        notes.append(
            f"settings of the topic {topic.name} may not be seen (right DESCRIBE_CONFIGS), so its "
            "largest message is not known before a batch is sent"
        )
    if topic.compacted:
        notes.append(
            f"the topic {topic.name} is compacted: a batch with a message without key stops"
        )
    kept = int(topic.settings.get("retention.ms", "-1"))
    if target.timestamps == "source" and kept >= 0 and "delete" in topic.settings["cleanup.policy"]:
        notes.append(
            f"the topic {topic.name} deletes records older than {kept / DAY_MS:.1f} days, and with "
            "timestamps: source a change is as old as it was made: raise retention.ms, or take now"
        )
    return notes
