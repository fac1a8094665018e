"""How far a merged table is complete: up to which sequence id and source time.

A partition holds its changes in order, so it is complete up to the newest that it brought, be it a
row of another table or a heartbeat. A table is complete up to where every partition of its topics
is, and not beyond the beginning of a transaction that is still open, or half of an update that
waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from waybill.order import FULL_ROW, read_order_key, sequence_of

if TYPE_CHECKING:
    from waybill.merge.transactions import Open

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Reached(msgspec.Struct, frozen=True):
    """How far something is.

    Attributes:
        order: highest order with a sequence id, empty where there is none.
        time: newest source time, microseconds since 1970.
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
    times = [reached.time for reached in (one, other) if reached.time is not None]
    return Reached(max(one.order, other.order), max(times, default=None))


def fell_back(
    before: Mapping[str, Mapping[int, Reached]], now: Mapping[tuple[str, int], Reached]
) -> list[str]:
    """Sentences about partitions whose time goes on while their sequence ids have fallen.

    Messages that are delivered again are not newer than what was there, so the ids began anew: a
    binlog's do when another server takes over.

    Args:
        before: how far earlier batches brought each partition, by topic.
        now: how far this batch does, alone.
    """
    found = []
    for (topic, partition), reached in sorted(now.items()):
        was = before.get(topic, {}).get(partition)
        if was is None or was.time is None or reached.time is None:
            continue
        if "" < reached.order < was.order and reached.time > was.time:
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
    times = [end.time for end in ends if end.time is not None]
    whole = len(times) == len(ends)
    return Reached(min(end.order for end in ends), min(times) if whole else None)


def plain(reached: Reached) -> dict[str, Any]:
    """For people and reports: the sequence id, the time as ISO 8601; null where it is unknown."""
    sequence = None
    if reached.order:
        parts, _, _ = read_order_key(reached.order)
        sequence = ":".join(str(part) for part in parts or ())
    time = None
    if reached.time is not None:
        moment = _EPOCH + timedelta(microseconds=reached.time)
        time = moment.isoformat().replace("+00:00", "Z")
    return {"sequence": sequence, "time": time}
