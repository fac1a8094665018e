"""Numbers of rows, compared as far as numbers can be while rows come and go."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from waybill.merge.columns import BATCH, DELETED
from waybill.merge.position import STAGE
from waybill.verify.comparing import merged_rows
from waybill.verify.deciding import POLL, LakeState, Pending, covers, lake_state
from waybill.verify.results import COUNT, TableResult, left_open, time_text

if TYPE_CHECKING:
    from waybill.lake import Lake
    from waybill.spec.migration import Migration
    from waybill.verify.database import Database, DatabaseView
    from waybill.verify.plan import Compared


def live_rows(lake: Lake, table: Compared, snapshot: int | None) -> int:
    """How many rows a state of a merged table has, without tombstones."""
    if snapshot is None:
        return 0
    return merged_rows(lake, table, snapshot).where(f"NOT {DELETED}").count()


def count_table(
    lake: Lake,
    spec: Migration,
    table: Compared,
    database: Database,
    first: LakeState,
    view: DatabaseView,
    deadline: float,
    progress: Callable[..., Any],
    fixed: bool,
) -> TableResult:
    """Compare the numbers of rows.

    A number that differs is a difference if no batch wrote the table until one came that holds
    everything from before the view, or if fewer rows were written meanwhile than it is off by.

    Args:
        lake: the lake.
        spec: the migration.
        table: the table.
        database: an open session with its view.
        first: the state of the lake, fixed before the view was taken.
        view: the view.
        deadline: until when to wait for a batch, by `time.monotonic`.
        progress: says a line about the work.
        fixed: whether somebody asked for that state.
    """
    assert table.source is not None, "only existing tables are counted"
    wall = time.time()
    theirs, ours = database.count(table.source), live_rows(lake, table, first.snapshot)
    off = abs(theirs - ours)
    mark = Pending(str(theirs), f"{first.own}/{ours}", view.clock, wall)
    pending: dict[str, Pending] = {}
    differs = False
    if off:
        was = left_open(lake, table.label, counts=True).get(COUNT)
        if was is not None and (was.database, was.lake) == (mark.database, mark.lake):
            mark = was
        differs = _differs(lake, spec, table, first, mark, off, deadline, progress, fixed)
        pending = {} if differs else {COUNT: mark}
    sentence = ""
    if off:
        more = f"the {'database' if theirs > ours else 'lake'} has {off} more"
        undecided = (
            "not decided: rows may be on their way; `--wait` for longer than a batch takes decides "
            "it, or a verification after the next batch if the table is not written until then"
        )
        sentence = more if differs else f"{more}, {undecided}"
        if first.wait and not differs:
            sentence = f"{more}: {first.wait}"
    return TableResult(
        table.name,
        "counts",
        theirs,
        ours,
        off if differs else 0,
        0 if differs else off,
        first.batch,
        view.position,
        time_text(view.clock),
        None if first.reached is None else time_text(first.reached),
        sentence,
        [],
        pending,
        None,
        table.source_name,
    )


def _differs(
    lake: Lake,
    spec: Migration,
    table: Compared,
    first: LakeState,
    mark: Pending,
    off: int,
    deadline: float,
    progress: Callable[..., Any],
    fixed: bool,
) -> bool:
    reported = False
    while True:
        state = lake_state(lake, spec, table)
        if covers(state, spec, mark.clock, mark.wall) is not None:
            break
        if state.held is not None or time.monotonic() >= deadline:
            # No batch covers a table that waits, and other tables need the time.
            return False
        if not reported:
            progress("%s: the numbers of rows differ, waiting for a batch", table.label)
            reported = True
        time.sleep(min(POLL, max(0.0, deadline - time.monotonic())))
    if state.own == first.own:
        return True
    if state.truncated != first.truncated or fixed or state.snapshot is None:
        return False
    return _written_since(lake, table, first, state.snapshot) < off


def _written_since(lake: Lake, table: Compared, first: LakeState, snapshot: int) -> int:
    """How many rows and tombstones batches wrote after a state."""
    later = []
    for commit in lake.commits(lake.log("merges")):
        if commit.batch == first.batch:
            break
        if commit.stage == STAGE:
            later.append(commit.batch)
    rows = merged_rows(lake, table, snapshot)
    return rows.where(rows[BATCH].isin(later)).count()
