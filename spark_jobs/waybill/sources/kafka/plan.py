"""What one batch reads of its topics: exact ranges, asked for and settled before Spark starts.

The end of a range is the last stable offset: whatever stands before it is decided, committed or
aborted. Offsets between the two that no message has (markers of transactions, aborted and
compacted messages) are gaps, not losses.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from waybill.counting import counted
from waybill.errors import Code, SourceError
from waybill.sources.kafka.positions import NOTHING, OffsetRange, Positions

if TYPE_CHECKING:
    from waybill.kafka.cluster import Cluster, Place, Topic
    from waybill.spec.endpoints import KafkaSource
    from waybill.spec.values import Offsets


class LostOffsets(NamedTuple):
    """Offsets that were not read and that the brokers do not have any more."""

    topic: str
    partition: int
    start: int
    end: int


class TopicsPlan(NamedTuple):
    """What one batch reads.

    Attributes:
        ids: the id of each topic.
        ranges: one per partition, sorted; empty ones are partitions with nothing new.
        losses: what is missing before the ranges.
        held: offsets after the ranges that belong to transactions which are open, by partition.
    """

    ids: dict[str, str]
    ranges: list[OffsetRange]
    losses: list[LostOffsets]
    held: dict[Place, int]

    @property
    def offsets(self) -> int:
        """How many offsets there are to read."""
        return sum(span.offsets for span in self.ranges)


class Bounds(NamedTuple):
    """What the brokers have of each partition.

    Attributes:
        earliest: the first offset.
        stable: the last stable offset.
        latest: the end, open transactions included.
    """

    earliest: dict[Place, int]
    stable: dict[Place, int]
    latest: dict[Place, int]


def plan(
    source: KafkaSource, cluster: Cluster, before: Positions = NOTHING, afresh: bool = False
) -> TopicsPlan:
    """Settle what a batch reads.

    Args:
        source: the topics.
        cluster: where they are.
        before: what was read before.
        afresh: read from the beginning again.

    Raises:
        SourceError: a topic is not what was read before: its messages were deleted, it ends too
            early, it is gone or it was made again.
        ConfigurationError: a topic is not there, or may not be read.
        UnreachableError: the brokers do not answer.
    """
    known = NOTHING if afresh else before
    first = not known.next
    topics = _topics(source, cluster, known)
    _check_ids(topics, known)
    places = [(topic.name, number) for topic in topics for number in topic.partitions]
    _check_partitions(set(places), topics, known)
    bounds = bounds_of(cluster, places)
    starts = _first_offsets(source, cluster, places, bounds, known, first, afresh)
    ends = _ends(source, cluster, places, bounds)
    ranges, losses = [], []
    for place in places:
        start = known.next.get(place)
        if start is None:
            start = starts[place]
        else:
            _check_end(place, start, bounds.latest[place])
            if start < bounds.earliest[place]:
                losses.append(LostOffsets(*place, start, bounds.earliest[place]))
                start = bounds.earliest[place]
        ranges.append(OffsetRange(*place, start, max(start, ends[place])))
    if losses and source.on_data_loss == "fail":
        raise SourceError(_lost(losses), code=Code.OFFSETS_LOST)
    # With an end of our own what follows is not ours, held or not.
    held = {p: bounds.latest[p] - bounds.stable[p] for p in places if not _ended(source, p)}
    ids = {topic.name: topic.id for topic in topics}
    return TopicsPlan(ids, ranges, losses, {place: count for place, count in held.items() if count})


def bounds_of(cluster: Cluster, places: Iterable[Place]) -> Bounds:
    """What the brokers have now; errors as `plan`."""
    asked = list(places)
    # In this order the three never contradict each other while messages come in.
    earliest = cluster.earliest(asked)
    stable = cluster.latest(asked)
    latest = cluster.latest(asked, stable=False)
    return Bounds(earliest, {p: max(stable[p], earliest[p]) for p in asked}, latest)


def _topics(source: KafkaSource, cluster: Cluster, known: Positions) -> list[Topic]:
    if source.pattern is None:
        return cluster.describe(source.topics)
    names = [name for name in cluster.topic_names() if source.takes(name)]
    gone = sorted(name for name in known.ids if source.takes(name) and name not in names)
    if gone and source.on_data_loss == "fail":
        message = (
            f"the topic {gone[0]}, read before, is no longer at {cluster.servers}, and what came "
            "after the last batch is lost with it: fix the pattern, or continue without it with "
            "on_data_loss: earliest"
        )
        raise SourceError(message, code=Code.TOPIC_UNKNOWN)
    if not names:
        message = (
            f"no topic at {cluster.servers} matches the pattern {source.pattern!r}: fix it, create "
            "the topic, or give the user of the connection the right to see it"
        )
        raise SourceError(message, code=Code.TOPIC_UNKNOWN)
    for field, given in (("start", source.start), ("end", source.end)):
        strange = set(given) - {*names, *known.ids} if isinstance(given, dict) else set()
        if strange:
            message = (
                f"{field} names the topic {min(strange)}, which is not at {cluster.servers} or not "
                "among those that the pattern finds: fix it"
            )
            raise SourceError(message, code=Code.TOPIC_UNKNOWN)
    return cluster.describe(names)


def check_unchanged(cluster: Cluster, planned: TopicsPlan) -> None:
    """See that no topic was made again while it was read.

    Raises:
        SourceError: one was.
    """
    _check_ids(cluster.describe(planned.ids), Positions(planned.ids, {}, 0))


def _check_ids(topics: list[Topic], known: Positions) -> None:
    for topic in topics:
        before = known.ids.get(topic.name, "")
        if before and topic.id and topic.id != before:
            # Its offsets start over, so that topic, partition and offset name two messages: going
            # on is nothing that a setting may decide.
            message = (
                f"the topic {topic.name} was deleted and recreated since it was read: run with "
                "mode full to read it from its beginning if the envelope has sequence ids, else "
                "give the migration a new name"
            )
            raise SourceError(message, code=Code.TOPIC_RECREATED)


def _check_partitions(there: set[Place], topics: list[Topic], known: Positions) -> None:
    names = {topic.name for topic in topics}
    gone = sorted(place for place in known.next if place[0] in names and place not in there)
    if gone:
        message = (
            f"partition {gone[0][1]} of the topic {gone[0][0]}, read before, is no longer there: "
            "the topic was recreated; run with mode full (`--full`) to read it from its beginning"
        )
        raise SourceError(message, code=Code.TOPIC_RECREATED)


def _check_end(place: Place, start: int, latest: int) -> None:
    if latest < start:
        message = (
            f"partition {place[1]} of the topic {place[0]} ends at offset {latest} and was read up "
            f"to {start}: the brokers lost messages, or the topic was recreated; run with mode "
            "full to read what there is from its beginning"
        )
        raise SourceError(message, code=Code.TOPIC_RECREATED)


def _first_offsets(
    source: KafkaSource,
    cluster: Cluster,
    places: list[Place],
    bounds: Bounds,
    known: Positions,
    first: bool,
    afresh: bool,
) -> dict[Place, int]:
    """Where partitions are read from that were not read before."""
    fresh = [place for place in places if place not in known.next]
    starts = {place: bounds.earliest[place] for place in fresh}
    # What the pattern finds later, and partitions that are added, hold nothing but what is new.
    named = [p for p in fresh if p[0] not in known.ids and (first or source.pattern is None)]
    start = source.start
    if isinstance(start, dict):
        starts.update(_given(start, named, bounds))
    elif isinstance(start, datetime):
        starts.update(_at(cluster, start, named, bounds))
    elif start == "latest" and not afresh:
        starts.update({place: bounds.stable[place] for place in named})
    return starts


def _named(what: str, offsets: Offsets, places: list[Place]) -> dict[Place, int]:
    """Offsets by place, for those of the places that are named.

    Raises:
        SourceError: a topic has no partition of a number.
    """
    given = {(topic, number): at for topic, some in offsets.items() for number, at in some.items()}
    for topic, number in given:
        if (topic, number) not in places and any(place[0] == topic for place in places):
            message = f"{what} names partition {number} of the topic {topic}, which has none"
            raise SourceError(f"{message}: fix it", code=Code.OFFSET_INVALID)
    return {place: offset for place, offset in given.items() if place in places}


def _given(offsets: Offsets, places: list[Place], bounds: Bounds) -> dict[Place, int]:
    given = _named("start", offsets, places)
    for (topic, number), offset in given.items():
        low, high = bounds.earliest[topic, number], bounds.stable[topic, number]
        if not low <= offset <= high:
            message = (
                f"start names offset {offset} of partition {number} of the topic {topic}, which "
                f"has {low} to {high}: fix it"
            )
            raise SourceError(message, code=Code.OFFSET_INVALID)
    return given


def _at(
    cluster: Cluster, moment: datetime, places: list[Place], bounds: Bounds
) -> dict[Place, int]:
    """The first offset that is as new as a time; the end where there is none."""
    found = cluster.first_at(places, int(moment.timestamp() * 1000))
    return {
        place: bounds.stable[place]
        if offset < 0
        else min(max(offset, bounds.earliest[place]), bounds.stable[place])
        for place, offset in found.items()
    }


def _ends(
    source: KafkaSource, cluster: Cluster, places: list[Place], bounds: Bounds
) -> dict[Place, int]:
    if source.end is None:
        return bounds.stable
    if isinstance(source.end, datetime):
        return _at(cluster, source.end, places, bounds)
    # What is not there yet comes with a later batch.
    given = _named("end", source.end, places)
    return {place: min(given.get(place, stable), stable) for place, stable in bounds.stable.items()}


def _ended(source: KafkaSource, place: Place) -> bool:
    """Whether the migration says where a partition ends."""
    if isinstance(source.end, dict):
        return place[1] in source.end.get(place[0], {})
    return source.end is not None


def _lost(losses: list[LostOffsets]) -> str:
    worst = max(losses, key=lambda loss: loss.end - loss.start)
    others = counted(len(losses) - 1, "more partition misses", "more partitions miss")
    more = "" if not losses[1:] else f", and {others} some"
    deleted = counted(worst.end - worst.start, "offset")
    return (
        f"partition {worst.partition} of the topic {worst.topic} begins at offset {worst.end}, and "
        f"was read up to {worst.start}: the brokers have deleted {deleted} "
        f"not read yet{more}; keep messages for longer, and continue from what is left with "
        "on_data_loss: earliest"
    )
