"""Transactions: changes wait for the commit of theirs, and one that was rolled back never shows.

Only transactions that a `begin` announced can be told to be open. Rows that name one and are
merged before their `begin` arrives are not called back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from waybill.durations import seconds_of
from waybill.errors import WaitingError

EVENTS = ("begin", "commit", "rollback")
"""Operations that begin and end transactions."""


class Open(msgspec.Struct, frozen=True):
    """A transaction that began and has not ended.

    Attributes:
        id: as rows and events name it.
        after: snapshot of `changes` before the batch that brought its `begin`, None at the
            beginning; its rows come after it.
        since: when a merge met it first, seconds since 1970.
        order: order of its `begin`.
        time: source time of its `begin`, microseconds since 1970.
    """

    id: str
    after: int | None
    since: int
    order: str = ""
    time: int | None = None


class Event(NamedTuple):
    """A begin or end."""

    order: str
    operation: str
    transaction: str
    time: int | None = None


class Verdict(NamedTuple):
    """What is to be done with the rows of transactions.

    Attributes:
        open: transactions whose rows wait.
        released: of earlier batches, committed since: their rows are merged now.
        dropped: of earlier batches, rolled back since: their rows never are.
        rolled_back: ids of transactions that were rolled back in this batch.
    """

    open: tuple[Open, ...] = ()
    released: tuple[Open, ...] = ()
    dropped: tuple[Open, ...] = ()
    rolled_back: frozenset[str] = frozenset()

    @property
    def hidden(self) -> frozenset[str]:
        """Ids of transactions whose rows this merge does not take."""
        return self.rolled_back | {transaction.id for transaction in self.open}


def judge(
    before: tuple[Open, ...], events: Iterable[Event], after: int | None, now: int
) -> Verdict:
    """What a batch's begins and ends mean for the rows.

    Args:
        before: transactions that were open before the batch.
        events: in any order.
        after: snapshot of `changes` that the batch begins after.
        now: seconds since 1970.
    """
    known = {transaction.id for transaction in before}
    last = {event.transaction: event for event in sorted(events)}
    ended = {id_: event.operation for id_, event in last.items() if event.operation != "begin"}
    began = [e for id_, e in last.items() if id_ not in ended and id_ not in known]
    return Verdict(
        tuple(t for t in before if t.id not in ended)
        + tuple(Open(e.transaction, after, now, e.order, e.time) for e in began),
        tuple(t for t in before if ended.get(t.id) == "commit"),
        tuple(t for t in before if ended.get(t.id) == "rollback"),
        frozenset(id_ for id_, operation in ended.items() if operation == "rollback"),
    )


def check_wait(open_: tuple[Open, ...], longest: str, now: int) -> None:
    """Stop where a transaction has been open for too long.

    Raises:
        WaitingError: names the oldest one and what to do.
    """
    limit = seconds_of(longest)
    late = [transaction for transaction in open_ if now - transaction.since > limit]
    if late:
        oldest = min(late, key=lambda transaction: transaction.since)
        hours = (now - oldest.since) / 3600
        message = (
            f"transaction {oldest.id} has been open for {hours:.1f} hours, longer than "
            f"transactions.longest_wait ({longest}), and {len(late) - 1} others with it: find out "
            "at the source whether it ended, then set a longer wait, or transactions.hold: false "
            "to merge what it has brought"
        )
        raise WaitingError(message)
