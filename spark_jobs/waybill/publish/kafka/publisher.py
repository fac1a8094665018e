"""Publishes a batch to a topic: what is asked and checked before, the sending, the account."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql.pandas.types import from_arrow_schema

from waybill.counting import counted
from waybill.errors import Code, ConfigurationError
from waybill.kafka.client import named_properties
from waybill.kafka.cluster import Cluster
from waybill.publish.kafka.ledger import LedgerEntry, Owner, ensure_ledger, read_entries
from waybill.publish.kafka.message_source import in_order, made
from waybill.publish.kafka.part_boundaries import Limits
from waybill.publish.kafka.progress import reporting_progress, sent_of
from waybill.publish.kafka.sender import SENT, Group, Sending, check_entries
from waybill.publish.kafka.topic import FRAME, PATIENCE, TargetTopic, describe
from waybill.publish.outcome import Published, PublishedPart
from waybill.spark_tasks.errors import unwrapped
from waybill.spec.durations import seconds_of

if TYPE_CHECKING:
    from waybill.publish.kafka.message_source import Made
    from waybill.publish.outgoing import Outgoing
    from waybill.spec.endpoints import KafkaTarget


def publish_kafka(
    messages: Outgoing,
    target: KafkaTarget,
    owner: Owner,
    batches: Sequence[str],
    progress: Callable[..., Any],
    limits: Limits | None = None,
) -> Published:
    """Send the messages that were not sent yet.

    Args:
        messages: what is to be sent, of one batch or of several.
        target: where to.
        owner: migration and target.
        batches: batches in their order; the messages of an earlier one go first.
        progress: gets what was done.
        limits: how large parts become.

    Raises:
        ConfigurationError: something is to be fixed first; nothing was sent.
        ConflictError: another run took over, or a batch was published with other messages before.
        UnreachableError: no server answers; what was sent is on record, a rerun goes on.
    """
    by_batch = made(messages, batches, target.origin_headers)
    if not by_batch:
        return Published([], _details(target, [], 0))
    sending = prepare(target, owner, by_batch, limits)
    before = recover(sending, progress)
    count = sum(one.messages for one in by_batch)
    progress(
        "publish: %s: %s to %s, %s%s",
        *(owner.target, counted(count, "message"), target.topic),
        counted(sending.partitions, "partition"),
        f"; {counted(before, 'was', 'were')} sent before" if before else "",
    )
    rows = in_order(messages, by_batch)
    with unwrapped(), reporting_progress(sending, before, progress):
        found = rows.map(sending.run, from_arrow_schema(SENT)).collect()
    sent = [(row.batch, row.part, _entry(row.entry)) for row in found]
    again = sum(row.before for row in found)
    parts = [
        _part(number, entry, f"{target.ledger}:{owner.key(batch, part).decode()}")
        for number, (batch, part, entry) in enumerate(sent)
    ]
    outcome = Published(parts, _details(target, [entry for _, _, entry in sent], again))
    progress(
        "publish: %s: %s, %s, in %s",
        *(owner.target, counted(outcome.messages, "message"), counted(len(parts), "part")),
        target.topic,
    )
    return outcome


def prepare(
    target: KafkaTarget, owner: Owner, batches: Sequence[Made], limits: Limits | None = None
) -> Sending:
    """Check all that can be known before anything is sent.

    Raises:
        ConfigurationError: something is to be fixed first.
        UnreachableError: no server answers.
    """
    properties = named_properties(target.connection)
    cluster = Cluster(properties, PATIENCE)
    topic = describe(cluster, target.topic)
    check_partition(target, topic)
    check_messages(batches, topic)
    ensure_ledger(cluster, target.ledger)
    return Sending(
        owner,
        properties,
        topic.name,
        topic.partitions,
        topic.largest,
        target.ledger,
        tuple(Group(found.batch, found.messages) for found in batches),
        target.partition,
        target.keyless,
        target.timestamps == "source",
        target.origin_headers,
        seconds_of(target.transaction_timeout),
        limits or Limits(),
    )


def recover(sending: Sending, progress: Callable[..., Any]) -> int:
    """Take the target over from every earlier run, and look at what they have sent.

    What a killed run left open would keep readers waiting; it is ended here, also if this run goes
    no further. What the user of the connection may not do is reported here.

    Returns:
        How many of the messages to send are in the topic already.

    Raises:
        ConfigurationError: a right is missing, or a setting wrong.
        ConflictError: a batch was published with other messages, or to another topic.
        UnreachableError: no server answers.
    """
    with sending.transactions() as transactions:
        transactions.take()
    entries = read_entries(sending.properties, sending.ledger, sending.owner, progress)
    check_entries(sending, entries)
    return sent_of(entries, {group.batch for group in sending.groups})


def check_partition(target: KafkaTarget, topic: TargetTopic) -> None:
    """See that the one partition is there, where the target names one."""
    if target.partition is not None and target.partition >= topic.partitions:
        message = (
            f"the topic {topic.name} has no partition {target.partition}, it has "
            f"{topic.partitions}, counted from 0: fix the target's setting partition"
        )
        raise ConfigurationError(message, code=Code.TARGET_TOPIC)


def check_messages(batches: Sequence[Made], topic: TargetTopic) -> None:
    """See that the topic takes every message.

    The brokers hold the size of a compressed batch against their limit; this holds that of the
    message as it is, because how far it can be compressed is not known before.

    Raises:
        ConfigurationError: one is too large, or has no key where it needs one. Nothing was sent:
            without that message readers would not have what the source has.
    """
    if topic.largest is not None:
        doubtful = [found for found in batches if found.largest + FRAME > topic.largest]
        size, place = max((found.longest() for found in doubtful), default=(0, ""))
        if size + FRAME > topic.largest:
            message = (
                f"the message of change {place} has {size} bytes, more than the topic "
                f"{topic.name} takes, so nothing was sent: raise its max.message.bytes from "
                f"{topic.largest} to at least {size + FRAME}"
            )
            raise ConfigurationError(message, code=Code.TARGET_TOPIC)
    keyless = sum(found.keyless for found in batches)
    if keyless and topic.compacted:
        message = (
            f"{counted(keyless, 'message has', 'messages have')} no key and the topic "
            f"{topic.name} is compacted, so nothing was sent: set its cleanup.policy to delete, or "
            "publish to another topic"
        )
        raise ConfigurationError(message, code=Code.TARGET_TOPIC)


def _entry(content: bytes | bytearray) -> LedgerEntry:
    return msgspec.json.decode(bytes(content), type=LedgerEntry)


def _part(number: int, entry: LedgerEntry, record: str) -> PublishedPart:
    place = json.dumps({"topic": entry.topic, "offsets": entry.offsets}, separators=(",", ":"))
    return PublishedPart(
        number,
        place,
        entry.messages,
        entry.bytes,
        entry.sha256,
        entry.first,
        entry.last,
        record,
    )


def _details(target: KafkaTarget, entries: Sequence[LedgerEntry], again: int) -> dict[str, Any]:
    """Figures of the target."""
    offsets: dict[str, list[int]] = {}
    for entry in entries:
        for number, (first, last) in entry.offsets.items():
            known = offsets.setdefault(number, [first, last])
            known[:] = [min(known[0], first), max(known[1], last)]
    return {
        "messages": sum(entry.messages for entry in entries),
        "tombstones": sum(entry.tombstones for entry in entries),
        "parts": len(entries),
        "parts_sent_before": again,
        "bytes": sum(entry.bytes for entry in entries),
        "topic": target.topic,
        "offsets": dict(sorted(offsets.items(), key=lambda item: int(item[0]))),
    }
