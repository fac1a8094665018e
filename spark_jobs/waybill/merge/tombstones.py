"""Forgets deleted keys after `tombstones.keep`.

A change that is older than a forgotten tombstone and arrives later brings its row back, so `keep`
has to be longer than the longest way of a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.errors import ConflictError
from waybill.lake.names import literal
from waybill.lake.upkeep import BUSY, MEANWHILE
from waybill.merge import columns as own
from waybill.merge.ledger import STAGE, Ledger

if TYPE_CHECKING:
    from waybill.lake import Lake

FORGETTING = "upkeep"


def forget_tombstones(lake: Lake, qualified: str, oldest_ms: int) -> tuple[int, str | None]:
    """Delete the tombstones of a merged table that were written before a time.

    What a table without key owes is no tombstone and stays.

    Args:
        lake: the lake.
        qualified: the source table.
        oldest_ms: milliseconds since 1970.

    Returns:
        How many there were, and why they were left, if they were.
    """
    ledger = Ledger(lake)
    table = lake.merged(qualified)
    if ledger.position().state.table(qualified).key == ():
        return 0, None
    recent = [
        commit.batch
        for commit in lake.commits(ledger.table)
        if commit.stage == STAGE and commit.time_ms >= oldest_ms
    ]
    young = ", ".join(literal(batch) for batch in recent) or "''"
    where = f"{own.DELETED} AND {own.BATCH} NOT IN ({young})"
    found = lake.read(table).where(where).count()
    if not found:
        return 0, None
    if any(lake.waiting(table, stage) for stage in (STAGE, FORGETTING)):
        return 0, BUSY
    branch = lake.branch(table, FORGETTING, f"tombstones-{oldest_ms}")
    branch.sql(f"DELETE FROM {{branch}} WHERE {where}")
    try:
        branch.fast_forward()
    except ConflictError:
        branch.drop()
        return 0, MEANWHILE
    return found, None
