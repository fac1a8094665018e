"""Where the merge stands, told by the batch table `merges`; read with Spark or without."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from waybill.merge.state import MergeState
from waybill.order import order_number

if TYPE_CHECKING:
    from datetime import datetime

    from waybill.lake.history import History

STAGE = "merge"
STATE, REFUSED = "state", "refused"


class Position(NamedTuple):
    """Where the merge stands.

    Attributes:
        changes: snapshot of `changes` up to which everything is merged, None at the beginning.
        state: what it remembers.
    """

    changes: int | None
    state: MergeState


def position_of(lake: History, batch: str | None = None) -> Position:
    """Where the last visible merge ended, or that of a batch."""
    table = lake.log("merges")
    last = lake.last(table, STAGE) if batch is None else lake.find(table, STAGE, batch)
    if last is None:
        return Position(None, MergeState())
    (row,) = lake.scan(table, ["body"], {"kind": [STATE], "batch": [last.batch]})
    return Position(last.cursor["changes"], MergeState.from_json(row["body"]))


def held_snapshot(lake: History) -> int | None:
    """Snapshot of `merges` with the record of the merge that waits for its gate, if one does."""
    held = [commit.snapshot for _, commit in lake.held_commits(lake.log("merges"), STAGE)]
    return held[-1] if held else None


def order_of(order_key: str, source_time: datetime | None, by_source_time: bool) -> str:
    """The order that the merge goes by; `waybill.merge.increment.order_sql` is the same in SQL.

    Args:
        order_key: of the change.
        source_time: of the change.
        by_source_time: changes without a sequence id take their source time for one.
    """
    if not by_source_time or not order_key.startswith("1//"):
        return order_key
    micros = 0
    if source_time is not None:
        seconds = int(source_time.replace(microsecond=0).timestamp())
        micros = seconds * 1_000_000 + source_time.microsecond
    return f"1/{order_number(max(micros, 0))}{order_key[2:]}"
