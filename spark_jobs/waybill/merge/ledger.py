"""The batch table `merges`: one record per merge, and the rows that a merge refused.

A merge leaves a branch of every table that it changed and, last, a stamped branch of `merges`
whose cursor names them all:

    {"changes": <snapshot>, "after": <snapshot before>, "branches": {<table>: <branch>}}

The gate makes the tables visible and `merges` last. So a stamped branch of `merges` is a merge
that waits for the gate; branches of tables without one were left behind by a merge that was killed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from waybill.errors import Code, GateError
from waybill.lake.decisions import DROPPED, decision_on
from waybill.lake_columns import MERGE_STATE, MERGES
from waybill.merge.position import (
    REFUSED,
    STAGE,
    Position,
    held_merge,
    position_of,
    waiting_merges,
)
from waybill.merge.rewriting import drop_future
from waybill.report import StageReport

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import DataFrame

    from waybill.lake import Branch, Commit, Lake
    from waybill.merge.state import MergeState
    from waybill.spec.migration import Migration


class Ledger:
    """The record of merges of one lake."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.table = lake.ensure(lake.log("merges"), MERGES, ("kind",))
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
        """See to it that no other merge waits, and drop what killed merges left behind.

        Args:
            spec: the migration, which the commands that help are about.
            drop: whether merges that wait are dropped, whatever was decided about them.

        Raises:
            GateError: a merge of another batch waits for its gate and nobody drops it, or some
                of its tables are visible, on top of which its changes would count again.
        """
        main = {commit.batch for commit in self.lake.commits(self.table)}
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
            shown = None if commit.batch in main else self._shown(commit)
            if shown:
                message = (
                    f"batch {commit.batch} is visible in part ({shown} shows it already), so it "
                    "cannot be dropped: run validate for it again (clear the task, or "
                    f"`{spec.command('run', 'FILE', '--batch', commit.batch)}`), then this batch"
                )
                raise GateError(message, code=Code.BATCH_VISIBLE_IN_PART)
        drop_held(self.lake)

    def _dropped(self, held: Commit) -> bool:
        """Whether somebody has decided to drop a merge that waits."""
        decision = decision_on(self.lake, held)
        return decision is not None and decision.what == DROPPED

    def _shown(self, held: Commit) -> str | None:
        """A table in which a merge is visible whose record is not, None if there is none."""
        tables = held.cursor["branches"]
        return next((t for t in tables if self.lake.find(t, STAGE, held.batch)), None)

    def waiting(self) -> list[Commit]:
        """The records that are not visible."""
        return waiting_merges(self.lake)

    def position(self, batch: str | None = None) -> Position:
        """Where the last visible merge ended, or that of a batch."""
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
        if self._branch is None:
            self._branch = self.lake.branch(self.table, STAGE, batch, False)
        return self._branch

    def record(
        self, batch: str, cursor: dict[str, Any], state: MergeState, report: StageReport
    ) -> int:
        """Write the merge down on a branch of its own, for the gate to make visible.

        Returns:
            Id of the stamped snapshot.
        """
        row = {**dict.fromkeys(MERGES.names), "batch": batch, "kind": MERGE_STATE}
        row["body"] = state.to_json()
        branch = self._open(batch)
        branch.append_rows([[*row.values()]], MERGES)
        return branch.commit(cursor, report.to_dict(), batch, STAGE)


def with_held(lake: Lake) -> DataFrame:
    """The record of merges, with that of the merge that waits for its gate, if one does."""
    held = held_merge(lake)
    return lake.read(lake.log("merges"), None if held is None else held.snapshot)


def drop_held(lake: Lake) -> None:
    """Drop what merges left that is not visible; the tables stay as the last gate left them."""
    # The record first: one without its branches would say that its tables are visible.
    merged = [*lake.merged_tables().values()]
    for table in [lake.log("merges"), *merged]:
        for info in lake.waiting(table, STAGE):
            lake.reopen(table, info.name).drop()
    for table in merged:
        drop_future(lake, table)
