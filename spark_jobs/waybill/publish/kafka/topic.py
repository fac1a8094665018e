"""What is known of a topic before anything is sent to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AclOperation, ConfigResource, ResourceType, TopicDescription

from waybill.errors import Code, ConfigurationError

if TYPE_CHECKING:
    from waybill.kafka.cluster import Cluster

FRAME = 100
"""Bytes that a record has in its batch beside key, value and headers, at most."""

PATIENCE = 8.0
"""Seconds to wait for an answer."""


class TargetTopic(NamedTuple):
    """A topic to write to.

    Attributes:
        name: its name.
        partitions: how many it has.
        settings: its settings, none where the user may not know them.
    """

    name: str
    partitions: int
    settings: dict[str, str]

    @property
    def largest(self) -> int | None:
        """Bytes of the largest batch of records that it takes, None where that is not known."""
        limit = self.settings.get("max.message.bytes")
        return None if limit is None else int(limit)

    @property
    def compacted(self) -> bool:
        """Whether records are kept by key, so that each must have one."""
        return "compact" in self.settings.get("cleanup.policy", "")


def describe(cluster: Cluster, name: str) -> TargetTopic:
    """Look at a topic.

    Raises:
        ConfigurationError: the login is wrong, the topic is not there, or the user may not write.
        UnreachableError: no server answers.
    """
    asked = cluster.admin.describe_topics(
        TopicCollection([name]), include_authorized_operations=True, request_timeout=PATIENCE
    )
    about: TopicDescription = cluster.answer(asked[name], f"the topic {name}")
    allowed = about.authorized_operations
    if allowed and AclOperation.WRITE not in allowed:
        message = (
            f"the user of the connection may not write to the topic {name} at {cluster.servers}: "
            "give it the right WRITE, or take another connection"
        )
        raise ConfigurationError(message, code=Code.TARGET_TOPIC)
    return TargetTopic(name, len(about.partitions), settings_of(cluster, name))


def settings_of(cluster: Cluster, name: str) -> dict[str, str]:
    """Settings of a topic; none where the user may not know them."""
    resource = ConfigResource(ResourceType.TOPIC, name)
    asked = cluster.admin.describe_configs([resource], request_timeout=PATIENCE)[resource]
    try:
        found: Mapping[str, Any] = cluster.answer(asked, f"the settings of the topic {name}")
    except ConfigurationError:
        return {}
    return {key: setting.value for key, setting in found.items()}
