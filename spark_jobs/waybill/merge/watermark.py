"""How far a merged table is complete: up to which sequence id and source time.

A partition holds its changes in order, so it is complete up to the newest that it brought, be it a
row of another table or a heartbeat. A table is complete up to where every partition of its topics
is, and not beyond the beginning of a transaction that is still open, or half of an update that
waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from waybill.lake.arrow_rows import moment_of
from waybill.lake.source_times import on_calendar
from waybill.order import FULL_ROW, read_order_key, sequence_of

if TYPE_CHECKING:
    from waybill.merge.transactions import Open


class Reached(msgspec.Struct, frozen=True):
    """How far something is.

    Attributes:
        order: highest order with a sequence id, empty where there is none.
        time: newest source time, microseconds since 1970; one on no calendar counts as none.
    """

    order: str = ""
    time: int | None = None


def further(before: Reached | None, order: str, time: int | None) -> Reached:
    """How far a partition is with another change; full rows say nothing about it."""
    before = before or Reached()
    if order[:1] == FULL_ROW:
        return before
    return joined(before, Reached(order if sequence_of(order) else "", time))


def joined(one: Reached, other: Reached) -> Reached:
    """The farther of both, in order and in time."""
    return Reached(max(one.order, other.order), max(_times([one, other]), default=None))


def fell_back(
    before: Mapping[str, Mapping[int, Reached]], now: Mapping[tuple[str, int], Reached]
) -> list[str]:
    """Sentences about partitions whose time goes on while their sequence ids have fallen.

    Messages that are delivered again are not newer than what was there, so the ids started over: a
    binlog's do when another server takes over.

    Args:
        before: how far earlier batches brought each partition, by topic.
        now: how far this batch does, alone.
    """
    found = []
    for (topic, partition), reached in sorted(now.items()):
        was = before.get(topic, {}).get(partition)
        if was is None or not "" < reached.order < was.order:
            continue
        times = _times([was, reached])
        if len(times) == 2 and times[0] < times[1]:
            old, new = plain(was), plain(reached)
            found.append(
                f"{topic}/{partition}: changes up to {new['time']} have sequence ids up to "
                f"{new['sequence']}, lower than {old['sequence']} which came by {old['time']}, and "
                "lose against it: if another server took over or its log was reset, read the "
                "source under a new migration name"
            )
    return found


def complete(partitions: Iterable[Reached], open_: Iterable[Open]) -> Reached:
    """How far all of some partitions are, without what waits for the end of its transaction."""
    ends = [*partitions, *(Reached(t.order, t.time) for t in open_ if t.order)]
    if not ends:
        return Reached()
    times = _times(ends)
    whole = len(times) == len(ends)
    return Reached(min(end.order for end in ends), min(times) if whole else None)


def plain(reached: Reached) -> dict[str, Any]:
    """For people and reports: the sequence id, the time as ISO 8601; null where it is unknown."""
    sequence = None
    if reached.order:
        parts, _, _ = read_order_key(reached.order)
        sequence = ":".join(str(part) for part in parts or ())
    moment = moment_of(reached.time, zoned=True)
    time = None if moment is None else moment.isoformat().replace("+00:00", "Z")
    return {"sequence": sequence, "time": time}


def _times(several: Iterable[Reached]) -> list[int]:
    """The times that are known."""
    return [one.time for one in several if one.time is not None and on_calendar(one.time)]
