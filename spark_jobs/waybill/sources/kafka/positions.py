"""Up to where each partition has been read, kept in the archive's commits.

Each commit names the partitions whose position it moved, with the range that it brought. Now and
then one names all, so that neither the metadata grows with every batch by the number of all
partitions nor the whole history has to be read back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

ENOUGH = 64
"""Partitions named by commits since the last one that named all, before one names all again."""


class OffsetRange(NamedTuple):
    """Offsets of a partition, from `start` to before `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def offsets(self) -> int:
        """How many offsets it has; there may be fewer messages."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition} from offset {self.start} to {self.end}"


class Positions(NamedTuple):
    """What the archive has of each topic.

    Attributes:
        ids: the id of each topic, empty where the brokers know none.
        next: by topic and partition the first offset that was not read.
        loose: partitions named by commits since the last one that named all.
    """

    ids: dict[str, str]
    next: dict[tuple[str, int], int]
    loose: int


NOTHING = Positions({}, {}, 0)


def read_positions(newest_first: Iterable[dict[str, Any]]) -> Positions:
    """What the cursors of the archive's commits add up to."""
    ids: dict[str, str] = {}
    following: dict[tuple[str, int], int] = {}
    loose = 0
    for cursor in newest_first:
        for topic, entry in cursor["topics"].items():
            # Brokers that know no id, or not yet, say nothing against one that was reported before.
            ids[topic] = ids.get(topic) or entry["id"]
            for partition, (_start, end) in entry["ranges"].items():
                following.setdefault((topic, int(partition)), end)
        if cursor["complete"]:
            break
        loose += sum(len(entry["ranges"]) for entry in cursor["topics"].values())
    return Positions(ids, following, loose)


def write_positions(
    before: Positions, ids: dict[str, str], ranges: Iterable[OffsetRange], afresh: bool
) -> dict[str, Any]:
    """The cursor of a commit.

    Args:
        before: what the archive had.
        ids: of the topics that were planned; an empty one does not replace what the archive has,
            unless the topics were read afresh.
        ranges: what the batch read; empty ones say that a partition is known.
        afresh: the batch read the topics from their beginning; what it did not find is forgotten.
    """
    moved = [r for r in ranges if afresh or before.next.get((r.topic, r.partition)) != r.end]
    complete = afresh or before.loose + len(moved) > max(ENOUGH, len(before.next) // 4)
    named = {(r.topic, r.partition): [r.start, r.end] for r in moved}
    known = ids if afresh else {**before.ids, **{name: id_ for name, id_ in ids.items() if id_}}
    if complete and not afresh:
        named = {**{place: [end, end] for place, end in before.next.items()}, **named}
    # A topic whose id is new is named even where nothing moved.
    learned = [name for name, id_ in ids.items() if id_ and id_ != before.ids.get(name)]
    topics: dict[str, Any] = {name: {"id": known[name], "ranges": {}} for name in sorted(learned)}
    for (topic, partition), span in sorted(named.items()):
        entry = topics.setdefault(topic, {"id": known.get(topic, ""), "ranges": {}})
        entry["ranges"][str(partition)] = span
    return {"source": "kafka", "complete": complete, "topics": topics}
