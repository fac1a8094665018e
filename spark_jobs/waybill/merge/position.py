"""Where the merge stands, read from the batch table `merges`; read with Spark or without."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from waybill.errors import Code, ConfigurationError
from waybill.lake.decisions import waiting_merge
from waybill.lake_columns import MERGE_STATE
from waybill.merge.state import MergeState
from waybill.order import order_number

if TYPE_CHECKING:
    from datetime import datetime

    from waybill.lake.commit import Commit
    from waybill.lake.history import History

STAGE = "merge"
REFUSED = "refused"
TRIED = (REFUSED, "replayed")
"""Kinds of refused changes: those that wait for a replay, and those that a later batch took up."""


class Position(NamedTuple):
    """Where the merge stands.

    Attributes:
        changes: snapshot of `changes` up to which everything is merged, None at the beginning.
        state: what it remembers.
    """

    changes: int | None
    state: MergeState

    @property
    def begins(self) -> set[int | None]:
        """The snapshots of `changes` that merges go on from, None for its beginning.

        Where the merge ended, and where the transactions and the tables that wait began.
        """
        waiting = {transaction.after for transaction in self.state.open}
        return {self.changes, *waiting, *(table.after for table in self.state.held.values())}


def position_of(lake: History, batch: str | None = None) -> Position:
    """Where the last visible merge ended, or that of a batch."""
    table = lake.log("merges")
    last = lake.last(table, STAGE) if batch is None else lake.find(table, STAGE, batch)
    return Position(None, MergeState()) if last is None else _after(lake, last, None)


def held_merge(lake: History) -> Commit | None:
    """The stamp of the merge that waits for its gate, if one does."""
    return waiting_merge(lake)


def needed_held(lake: History) -> Commit:
    """The stamp of the merge that waits for its gate.

    Raises:
        ConfigurationError: none waits.
    """
    held = held_merge(lake)
    if held is None:
        message = "no batch waits for the gate, so nothing is held: leave --held out"
        raise ConfigurationError(message, code=Code.OPTION)
    return held


def position_after(lake: History, merge: Commit) -> Position:
    """Where a merge ended, or would end that waits for its gate."""
    return _after(lake, merge, merge.snapshot)


def waiting_merges(lake: History) -> list[Commit]:
    """Stamps of merges that are not visible, those among them that main has left behind."""
    return [info.commit for info in lake.waiting(lake.log("merges"), STAGE) if info.commit]


def _after(lake: History, merge: Commit, snapshot: int | None) -> Position:
    """Where a merge ended, by the record of merges as of a snapshot."""
    wanted = {"kind": [MERGE_STATE], "batch": [merge.batch]}
    (row,) = lake.scan(lake.log("merges"), ["body"], wanted, snapshot)
    return Position(merge.cursor["changes"], MergeState.from_json(row["body"]))


def order_of(order_key: str, source_time: datetime | None, by_source_time: bool) -> str:
    """The order that the merge goes by; `waybill.merge.increment.order_sql` is the same in SQL.

    Args:
        order_key: of the change.
        source_time: of the change; None also for one that is on no calendar (`time_in_order`).
        by_source_time: changes without a sequence id take their source time for one.
    """
    if not by_source_time or not order_key.startswith("1//"):
        return order_key
    micros = 0
    if source_time is not None:
        seconds = int(source_time.replace(microsecond=0).timestamp())
        micros = seconds * 1_000_000 + source_time.microsecond
    return f"1/{order_number(max(micros, 0))}{order_key[2:]}"
