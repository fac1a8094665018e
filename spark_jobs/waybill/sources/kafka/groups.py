"""Offsets of a consumer group, written for those who watch its lag and never read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, TopicPartition

from waybill.kafka.failures import sentence

if TYPE_CHECKING:
    from waybill.sources.kafka.positions import OffsetRange


def commit_offsets(
    properties: Mapping[str, str], group: str, ranges: Iterable[OffsetRange]
) -> list[str]:
    """Let a group stand at the ends of ranges.

    Returns:
        What went wrong, one sentence; the batch is done all the same.
    """
    ends = [TopicPartition(span.topic, span.partition, span.end) for span in ranges]
    consumer = Consumer(
        {**properties, "group.id": group, "enable.auto.commit": "false", "log_level": "2"}
    )
    try:
        done = consumer.commit(offsets=ends, asynchronous=False)
        errors = [place.error for place in done or [] if place.error is not None]
    except KafkaException as error:
        errors = [error.args[0]]
    finally:
        consumer.close()
    return [
        f"offsets were not committed to the consumer group {group}: {sentence(error)}"
        for error in errors[:1]
    ]
