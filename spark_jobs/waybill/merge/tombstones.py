"""Forgets deleted keys after `tombstones.keep`.

A change that is older than a forgotten tombstone and arrives later brings its row back, so `keep`
has to be longer than the longest way of a message. Changes of a table that waits for a decision may
wait for longer than that, so it keeps its tombstones until it goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.errors import ConflictError
from waybill.lake.names import literal
from waybill.lake.setting_aside import set_aside
from waybill.lake.upkeep import BUSY, MEANWHILE, clear_away
from waybill.lake.upkeep import STAGE as UPKEEP
from waybill.merge import columns as own
from waybill.merge.ledger import Ledger
from waybill.merge.position import STAGE
from waybill.report import TABLES_HELD

if TYPE_CHECKING:
    from waybill.lake import Branch, Lake

UNKNOWN = "the snapshots of the record of merges that show which tombstones are old are gone"
WAITS = "its changes wait for a decision"


def forget_tombstones(lake: Lake, qualified: str, oldest_ms: int) -> tuple[int, str | None]:
    """Delete the tombstones of a merged table that were written before a time.

    What a table without key owes is not a tombstone and stays.

    Args:
        lake: the lake.
        qualified: the source table.
        oldest_ms: milliseconds since 1970.

    Returns:
        How many there were, and why they were left, if they were.
    """
    ledger = Ledger(lake)
    table = lake.merged(qualified)
    state = ledger.position().state
    if state.table(qualified).key == () or lake.head(table) is None:
        return 0, None
    if qualified in state.held or any(
        qualified in commit.report["details"].get(TABLES_HELD, {}) for commit in ledger.waiting()
    ):
        return 0, WAITS
    clear_away(lake, table)
    if lake.waiting(table, STAGE):
        return 0, BUSY
    branch = lake.branch(table, UPKEEP, "tombstones")
    try:
        return _forget(ledger, branch, oldest_ms)
    except ConflictError:
        return 0, MEANWHILE
    finally:
        branch.drop()


def _forget(ledger: Ledger, branch: Branch, oldest_ms: int) -> tuple[int, str | None]:
    """Delete on a branch of the table and show it, unless somebody else writes meanwhile."""
    lake = ledger.lake
    # Asked after the branch was made: what it holds was merged by one of these, or is old.
    if lake.known_since(ledger.table) > oldest_ms:
        return 0, UNKNOWN
    shown = [commit for commit in lake.commits(ledger.table) if commit.stage == STAGE]
    recent = [commit.batch for commit in shown if commit.time_ms >= oldest_ms]
    # A table may be visible before its merge's record is.
    recent += [commit.batch for commit in ledger.waiting()]
    young = ", ".join(literal(batch) for batch in recent) or "''"
    where = f"{own.DELETED} AND {own.BATCH} NOT IN ({young})"
    found = branch.read().where(where).count()
    if found:
        set_aside(lake, branch)
        branch.sql(f"DELETE FROM {{branch}} WHERE {where}")
        branch.fast_forward(alone=True)
    return found, None
