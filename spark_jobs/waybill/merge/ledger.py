"""The batch table `merges`: one record per merge, and the rows that a merge refused.

A merge leaves a branch of every table that it changed and, last, a stamped branch of `merges`
whose cursor names them all:

    {"changes": <snapshot>, "after": <snapshot before>, "branches": {<table>: <branch>}}

The gate makes the tables visible and `merges` last. So a stamped branch of `merges` is a merge
that waits for the gate; branches of tables without one were left behind by a merge that was killed.

Of two merges at once one goes on record. Whoever takes a table over (`waybill.merge.leftovers`)
drops branches first and looks for records of them afterwards; whoever goes on record does so first
and looks for its branches, and for a record that was there before, afterwards. So one of the two
always sees the other.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from waybill.errors import Code, ConflictError, GateError
from waybill.lake.branches import TABLES_ASKED, same_as_main
from waybill.lake.decisions import DROPPED, decision_on, shown_in
from waybill.lake_columns import MERGE_STATE, MERGES
from waybill.merge.leftovers import drop_held
from waybill.merge.position import (
    REFUSED,
    STAGE,
    Position,
    held_merge,
    position_of,
    waiting_merges,
)
from waybill.report import StageReport

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyspark.sql import DataFrame

    from waybill.lake import Branch, Commit, Lake
    from waybill.merge.state import MergeState
    from waybill.spec.migration import Migration


OVERTAKEN = "has made a merge visible"


class Ledger:
    """The record of merges of one lake."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.table = lake.ensure(lake.log("merges"), MERGES, ("kind",))
        self._read = lake.head(self.table)
        self._branch: Branch | None = None

    def done(self, batch: str) -> StageReport | None:
        """The report of a batch that was merged before, whether or not the gate has judged it."""
        commit = self.lake.find(self.table, STAGE, batch)
        if commit is None:
            commit = next((c for c, _ in reversed(self.lake.held(self.table, STAGE, batch))), None)
        if commit is None:
            return None
        report = StageReport.from_dict(commit.report)
        report.repeated = True
        return report

    def make_way(self, spec: Migration, drop: bool) -> None:
        """See to it that no other merge waits, and drop records that killed merges left behind.

        Args:
            spec: the migration, which the commands that help are about.
            drop: whether merges that wait are dropped, whatever was decided about them.

        Raises:
            GateError: a merge of another batch waits for its gate and nobody drops it, or some
                of its tables are visible, on top of which its changes would count again.
        """
        main = self._visible()
        # One that main has left behind can pass no gate, so it need not be kept for it.
        held = [c for c, _ in self.lake.held(self.table, STAGE) if c.batch not in main]
        drop = drop or all(self._dropped(commit) for commit in held)
        if held and not drop:
            again = spec.command("run", "FILE", "--batch", held[0].batch)
            message = (
                f"batch {held[0].batch} is merged but has not passed the gate: look at its "
                "report and fix the cause, then let validate judge it again (clear the task, or "
                f"`{again}`), or drop it and merge its changes again together with the new ones "
                f"(*Drop the held batch*, or `{spec.command('run', 'FILE', '--drop-held')}`), or "
                f"have it published as it is (`{spec.command('gate', 'approve', 'FILE')}`)"
            )
            raise GateError(message, code=Code.BATCH_HELD)
        for commit in self.waiting():
            shown = None if commit.batch in main else shown_in(self.lake, commit)
            if shown:
                message = (
                    f"batch {commit.batch} is visible in part ({shown} shows it already), so it "
                    "cannot be dropped: run validate for it again (clear the task, or "
                    f"`{spec.command('run', 'FILE', '--batch', commit.batch)}`), then this batch"
                )
                raise GateError(message, code=Code.BATCH_VISIBLE_IN_PART)
        drop_held(self.lake)

    def _visible(self) -> set[str]:
        """The batches whose merges are visible."""
        return {*self.lake.batches(self.table)}

    def _dropped(self, held: Commit) -> bool:
        """Whether somebody has decided to drop a merge that waits."""
        decision = decision_on(self.lake, held)
        return decision is not None and decision.what == DROPPED

    def waiting(self) -> list[Commit]:
        """The records that are not visible."""
        return waiting_merges(self.lake)

    def position(self, batch: str | None = None) -> Position:
        """Where the last visible merge ended, or that of a batch."""
        if batch is None:
            # Before it: a merge that becomes visible in between is then taken for a later one.
            self._read = self.lake.head(self.table)
        return position_of(self.lake, batch)

    def needed(self) -> set[int]:
        """Snapshots of `changes` that merges go on from, which upkeep has to keep.

        A merge that waits for the gate began where the visible one ended, or where something waits
        (`Position.begins`), so beside these it needs only its own end.
        """
        found = self.position().begins
        found |= {commit.cursor["changes"] for commit in self.waiting()}
        return {snapshot for snapshot in found if snapshot is not None}

    def refuse(self, batch: str, refused: DataFrame) -> int:
        """Keep refused changes, in the columns of `MERGES`.

        This must happen before their table is written, because the frame reads from it.

        Returns:
            How many they are.
        """
        return self._open(batch).append(refused)

    def replay(self, batch: str) -> DataFrame | None:
        """Take refused changes out of quarantine; their places, None if there are none."""
        branch = self._open(batch)
        if branch.base is None:
            return None
        refused = self.lake.read(self.table, branch.base).where(F.col("kind") == REFUSED)
        if refused.isEmpty():
            return None
        branch.sql(f"UPDATE {{branch}} SET kind = 'replayed' WHERE kind = '{REFUSED}'")
        return refused.select("topic", "partition", "offset", "index")

    def forget_refused(self, batch: str, tables: Mapping[str, Collection[str] | None]) -> bool:
        """Take what was refused of tables out of quarantine: the batch brings all of it again.

        Args:
            batch: id of the batch.
            tables: the tables; of each the keys that are meant, None for all of them.

        Returns:
            Whether there was anything.
        """
        if not tables:
            return False
        branch = self._open(batch)
        if branch.base is None:
            return False
        refused = self.lake.read(self.table, branch.base).where(F.col("kind") == REFUSED)
        mine = refused.where(F.col("table").isin(sorted(tables))).select("table", "key")
        found: dict[str, set[str]] = {}
        for name, key in mine.distinct().collect():
            known = tables[name]
            if known is None or key in known:
                found.setdefault(name, set()).add(key)
        for name, keys in sorted(found.items()):
            values, only = {"table": name}, ""
            if tables[name] is not None:
                values["keys"] = json.dumps(sorted(keys))
                only = " AND array_contains(from_json({keys}, 'array<string>'), key)"
            branch.sql(
                f"UPDATE {{branch}} SET kind = 'replayed' WHERE kind = '{REFUSED}' "
                f"AND `table` = {{table}}{only}",
                values,
            )
        return bool(found)

    def _open(self, batch: str) -> Branch:
        """The branch of the record.

        Raises:
            ConflictError: another merge has become visible since the position was read.
        """
        if self._branch is None:
            branch = self.lake.branch(self.table, STAGE, batch, False)
            # Upkeep may have compacted the table, which brings no merge.
            same = branch.base == self._read
            if not same and self._read not in same_as_main(self.lake.metadata(self.table)):
                raise _conflict(batch, OVERTAKEN)
            self._branch = branch
        return self._branch

    def record(
        self,
        batch: str,
        cursor: dict[str, Any],
        state: MergeState,
        report: StageReport,
        tables: Sequence[Branch] = (),
    ) -> int:
        """Write the merge down on a branch of its own, for the gate to make visible.

        Args:
            batch: id of the batch.
            cursor: what was merged, up to where, and the branches of tables.
            state: what the merge remembers.
            report: its account.
            tables: the branches of tables, as this merge wrote them.

        Returns:
            Id of the stamped snapshot.

        Raises:
            ConflictError: another run has merged meanwhile, or has dropped a branch; the merge is
                not on record.
        """
        row = {**dict.fromkeys(MERGES.names), "batch": batch, "kind": MERGE_STATE}
        row["body"] = state.to_json()
        branch = self._open(batch)
        branch.append_rows([[*row.values()]], MERGES)
        snapshot = branch.commit(cursor, report.to_dict(), batch, STAGE)
        trouble = self._trouble(batch, branch, tables)
        if trouble is not None:
            branch.drop()
            raise _conflict(batch, trouble)
        return snapshot

    def _trouble(self, batch: str, record: Branch, tables: Sequence[Branch]) -> str | None:
        """Why a merge that was just recorded does not count, None if it does."""
        with ThreadPoolExecutor(TABLES_ASKED) as pool:
            stand = list(pool.map(lambda branch: branch.stands(), tables))
        lost = next((one for one, good in zip(tables, stand, strict=True) if not good), None)
        if lost is not None:
            return f"has taken over {lost.table}"
        if not record.stands():
            return OVERTAKEN
        others = [c for c, _ in self.lake.held(self.table, STAGE) if c.batch != batch]
        # One that was only opened so far stands where main does.
        if others and (others := [c for c in others if c.batch not in self._visible()]):
            snapshots = self.lake.metadata(self.table).snapshots
            own = snapshots[record.head].sequence
            first = next((c for c in others if snapshots[c.snapshot].sequence < own), None)
            if first is not None:
                return f"has merged batch {first.batch}, which waits for its gate,"
        return None


def _conflict(batch: str, trouble: str) -> ConflictError:
    message = (
        f"another run {trouble} since the merge of batch {batch} began, so nothing of this merge "
        "was kept: run the batch again"
    )
    return ConflictError(message, code=Code.CONCURRENT_RUN)


def with_held(lake: Lake) -> DataFrame:
    """The record of merges, with that of the merge that waits for its gate, if one does."""
    held = held_merge(lake)
    return lake.read(lake.log("merges"), None if held is None else held.snapshot)
