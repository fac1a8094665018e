"""What the lake knows of a row's changes, as `waybill.merge.explain` wants it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from waybill.layout import CHANGE_PLACE
from waybill.merge.explain import Merged, Place
from waybill.merge.position import REFUSED, position_of
from waybill.merge.rules import Change
from waybill.merge.texts import read_image

if TYPE_CHECKING:
    from waybill.lake.history import History


def changes_of(rows: list[dict[str, Any]]) -> dict[Place, Change]:
    """The changes that rows of the log stand for, by place.

    Args:
        rows: whose `order_key` is the order that the merge goes by
            (`waybill.merge.increment.order_sql`).
    """
    return {
        place_of(row): Change(
            row["order_key"],
            row["operation"],
            row["key"] or "",
            None if row["operation"] == "delete" else read_image(row["after"] or "{}"),
            row["old_key"],
            place_of(row),
        )
        for row in rows
    }


def place_of(row: dict[str, Any]) -> Place:
    """Where a row of the log came from."""
    return row["topic"], row["partition"], row["offset"], row["index"]


def merged_facts(lake: History, qualified: str, rows: list[dict[str, Any]]) -> Merged:
    """What the merge knows of a table and of some rows of its log."""
    position = position_of(lake)
    state = position.state.table(qualified)
    refused = {}
    if lake.exists(lake.log("merges")):
        asked = {"kind": [REFUSED], "table": [qualified]}
        kept = lake.scan(lake.log("merges"), (*CHANGE_PLACE, "reason"), asked)
        refused = {place_of(row): row["reason"] for row in kept}
    later = lake.between(lake.log("changes"), position.changes, None)
    unmerged = {commit.batch for commit in later}
    ids = {row["transaction"] for row in rows if row["transaction"]}
    waiting = dict.fromkeys({t.id for t in position.state.open} & ids, "waits for the end of its")
    if ids:
        asked = {"operation": ["rollback"], "transaction": sorted(ids)}
        ended = lake.scan(lake.log("changes"), ["transaction"], asked)
        waiting.update({row["transaction"]: "rolled back with its" for row in ended})
    return Merged(
        state.truncated,
        frozenset(state.names),
        refused,
        {
            place_of(row): f"{waiting[row['transaction']]} transaction {row['transaction']}"
            for row in rows
            if row["transaction"] in waiting
        },
        frozenset(place_of(row) for row in rows if row["batch"] in unmerged),
    )
