"""What the lake knows of a row's changes, as `waybill.merge.explain` wants it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from waybill.lake_columns import CHANGE_PLACE
from waybill.merge.explain import Merged, Place
from waybill.merge.position import REFUSED, position_after, position_of
from waybill.merge.renamings import above, present_key
from waybill.merge.rules import Change
from waybill.merge.spark_rows import read_image

if TYPE_CHECKING:
    from waybill.lake.commit import Commit
    from waybill.lake.history import History
    from waybill.merge.renamings import Renamings
    from waybill.merge.state import MergeState

ASKED_BY_PLACE = 1_000
"""Of more rows the places are not a filter: what was refused in the whole table is read."""


def changes_of(rows: list[dict[str, Any]], renamed: Renamings = ()) -> dict[Place, Change]:
    """The changes that rows of the log stand for, by place, with the names of now.

    Args:
        rows: whose `order_key` is the order that the merge goes by
            (`waybill.merge.increment.order_sql`).
        renamed: what statements renamed in their table.
    """
    return {place_of(row): _change(row, above(renamed, row["order_key"])) for row in rows}


def _change(row: dict[str, Any], renamed: Renamings) -> Change:
    def now(text: str | None) -> str | None:
        return present_key(text, renamed) if text and renamed else text

    return Change(
        row["order_key"],
        row["operation"],
        now(row["key"]) or "",
        None if row["operation"] == "delete" else read_image(now(row["after"] or "{}")),
        now(row["old_key"]),
        place_of(row),
    )


def place_of(row: dict[str, Any]) -> Place:
    """Where a row of the log came from."""
    return row["topic"], row["partition"], row["offset"], row["index"]


def _places(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The values that the places of rows have, column by column."""
    return {name: sorted({row[name] for row in rows}) for name in ("topic", "partition", "offset")}


def merged_facts(
    lake: History, qualified: str, rows: list[dict[str, Any]], merge: Commit | None = None
) -> Merged:
    """What the merge knows of a table and of some rows of its log.

    Args:
        lake: the lake.
        qualified: the table.
        rows: of its log.
        merge: the stamp of a merge that waits for the gate, or of one of before, where what that
            knows is meant; the last visible one where it is left out.
    """
    snapshot = None if merge is None else merge.snapshot
    position = position_of(lake) if merge is None else position_after(lake, merge)
    state = position.state.table(qualified)
    refused = {}
    if lake.exists(lake.log("merges")):
        asked: dict[str, list[Any]] = {"kind": [REFUSED], "table": [qualified]}
        if len(rows) <= ASKED_BY_PLACE:
            asked |= _places(rows)
        kept = lake.scan(lake.log("merges"), (*CHANGE_PLACE, "reason"), asked, snapshot)
        refused = {place_of(row): row["reason"] for row in kept}
    later = lake.between(lake.log("changes"), position.changes, None)
    unmerged = {commit.batch for commit in later}
    return Merged(
        state.truncated,
        frozenset(state.names),
        refused,
        _of_transactions(lake, position.state, rows),
        frozenset(place_of(row) for row in rows if row["batch"] in unmerged),
        state.renamed,
        lake.changes_since(qualified) is None,
    )


def _of_transactions(
    lake: History, state: MergeState, rows: list[dict[str, Any]]
) -> dict[Place, str]:
    """Why rows do not show that belong to a transaction that is open or was rolled back."""
    mine = [row for row in rows if row["transaction"]]
    found: dict[Place, str] = {}
    for transaction in state.open if mine else ():
        # What came before its begin was read is merged.
        came = {c.batch for c in lake.between(lake.log("changes"), transaction.after, None)}
        for row in mine:
            if transaction.members.have(row["transaction"]) and row["batch"] in came:
                found[place_of(row)] = f"waits for the end of its transaction {row['transaction']}"
    for gone in state.rolled_back:
        for row in mine:
            if gone.members.have(row["transaction"]) and row["batch"] in gone.batches:
                found[place_of(row)] = f"rolled back with its transaction {row['transaction']}"
    return found
