"""The stage `merge`: the changes of a batch into the tables, on branches that the gate judges."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql import functions as F

from waybill.counting import counted
from waybill.lake.column_comments import comment_columns
from waybill.lake.commit import stamp_of
from waybill.lake.future_columns import BECOMES
from waybill.lake.setting_aside import set_aside
from waybill.merge.ambiguity import refuse_ambiguous, refuse_unordered_truncates
from waybill.merge.bags import BagMerge
from waybill.merge.column_origins import keep_column_origins
from waybill.merge.comments import comments
from waybill.merge.held_tables import Parts
from waybill.merge.increment import Increment
from waybill.merge.increment_counts import HeldRows
from waybill.merge.ledger import Ledger
from waybill.merge.leftovers import clear_table, whole_or_nothing
from waybill.merge.moved_rows import moved_rows
from waybill.merge.multi_change_keys import refused_rows
from waybill.merge.position import STAGE
from waybill.merge.reloads import mark_gone
from waybill.merge.rewriting import rewrite, staged_state
from waybill.merge.row_effects import effects, newest
from waybill.merge.state import held_summary
from waybill.merge.table import TableMerge
from waybill.merge.table_plans import NAMED
from waybill.merge.transactions import EVENTS, check_wait, source_names
from waybill.merge.upsert.merging import (
    COMMITS_AT_ONCE,
    commit_written,
    plain_table,
    upsert,
)
from waybill.merge.upsert.plain import changed_in_place, not_plain
from waybill.merge.watermark import fell_back, plain
from waybill.merge.writing import FEW, FEW_BYTES, prepare
from waybill.report import COLUMN_CHANGES, SOURCES, TABLES_HELD, TRIED_AGAIN, StageReport
from waybill.spec.mapping import rules_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from waybill.lake import Branch
    from waybill.merge.increment_counts import Survey
    from waybill.merge.plan import MergePlan
    from waybill.merge.state import TableState
    from waybill.merge.table_plans import TablePlan
    from waybill.merge.transactions import Open
    from waybill.merge.upsert.merging import Plain, WrittenFiles
    from waybill.records import TableSchema
    from waybill.spec.migration import Migration
    from waybill.stage_context import StageContext

OF_EARLIER = "rows of transactions of earlier batches"
REPLAYED = "refused changes"
GONE = "gone by reload"
OF_HELD = "changes of tables that waited"
REPLACED = "reloaded"
REBUILT_FROM = "rows before the rebuild"
KEYS_REBUILT = "rows that were rebuilt"
BY_SPARK = "merged by Spark"
KEYS_BY_SPARK = "keys merged by Spark"


def run_merge(spec: Migration, context: StageContext) -> StageReport:
    """Merge what `changes` brought since the last merge.

    Every table that changes gets a branch, and so does `merges` (see `waybill.merge.ledger`);
    nothing is visible before the gate has passed. A batch that was merged before is not merged
    again.

    Raises:
        GateError: another batch waits for its gate.
        ConflictError: another run merged meanwhile; nothing of this one counts.
        ConfigurationError: the order or the key of changes cannot be determined.
        SchemaChangeError: a table changed in a way that a person has to decide about.
        WaitingError: a transaction has been open for longer than the migration allows.
        ReconciliationError: the counts do not add up, or rows have values in a column of the lake
            that cannot take those of its type now.
    """
    started = time.monotonic()
    ledger = Ledger(context.lake)
    done = ledger.done(context.batch)
    if done is not None:
        return done
    ledger.make_way(spec, context.options.drop_held)
    merging = _Merge(spec, context, ledger)
    with whole_or_nothing(context.lake, merging.made):
        report = merging.run()
    report.seconds = round(time.monotonic() - started, 3)
    return report


class _Merge:
    """One merge of one batch."""

    def __init__(self, spec: Migration, context: StageContext, ledger: Ledger) -> None:
        self.spec = spec
        self.context = context
        self.lake = context.lake
        self.ledger = ledger
        self.began_ms = int(time.time() * 1000)
        self.position = ledger.position()
        self.by_source_time = spec.order.ambiguous == "source_time"
        cut = self.lake.cut_tables() if self.by_source_time else ()
        self.position.state.check_order(self.by_source_time, cut)
        self.increment = Increment(
            self.lake,
            self.position.changes,
            self.lake.newest(self.lake.log("changes"), self.position.changes),
            self.by_source_time,
        )
        self.report = StageReport(STAGE, context.batch, file=context.spec.digest)
        self.branches: dict[str, str] = {}
        self.made: dict[str, Branch] = {}
        self.upserted: dict[str, WrittenFiles] = {}
        self.not_plain: dict[str, str | None] = {}
        self.schemas: dict[str, TableSchema] = {}
        self.alone = True
        self.size = 0
        self.watermarks: dict[str, dict[str, Any]] = {}

    def run(self) -> StageReport:
        """Survey, plan, tables, record."""
        started = time.monotonic()
        increment = self.increment
        sizes = self.report.details["sizes"] = self._cut_shuffles()
        survey, open_ = self._survey()
        parts = Parts(self.spec, self.context.batch, self.position.state)
        found = parts.of(increment, survey, self.context.options.mode == "replay")
        plan, report = found[0].plan, self.report
        report.skipped.update(survey.skipped)
        report.waiting += parts.waiting
        if parts.earlier:
            report.extra_in[OF_HELD] = parts.earlier
        if parts.held:
            report.details[TABLES_HELD] = held_summary(plan.state)
        report.warnings += [warning for part in found for warning in part.plan.warnings]
        report.warnings += [*parts.warnings(), *fell_back(plan.state.reached, survey.reached)]
        if any(part.plan.unordered for part in found):
            plan.state.by_source_time = self.by_source_time
        plan.state.open, plan.state.halves = open_, self.increment.halves()
        plan.state.rolled_back = self.increment.verdict.gone
        plan.state.reach(survey.reached)
        report.cursor = {"after": self.increment.after, "changes": self.increment.upto}
        self.watermarks = {name: plain(plan.state.watermark(name)) for name in plan.state.tables}
        tables: dict[str, TablePlan] = {}
        for part in found:
            self.increment, self.schemas, self.alone = part.increment, part.schemas, part.alone
            # What waited may be many times what the batch brings.
            self.size = (sizes if part.increment is increment else self._cut_shuffles())["bytes"]
            rebuilds = {n: one.keys or None for n, one in part.plan.tables.items() if one.rebuilds}
            if self.ledger.forget_refused(self.context.batch, rebuilds):
                report.details[TRIED_AGAIN] = True
            self._merge_tables(part.plan)
            tables |= part.plan.tables
        for name in parts.began:
            why = f"waits for a decision: {parts.held[name].why}"
            counts = dict.fromkeys(("in", "key changes", "out", "superseded", "refused"), 0)
            reached = plain(plan.state.watermark(name))
            report.details[name] = {**counts, "complete up to": reached, "columns": [why]}
        report.cursor["branches"] = self.branches
        report.reconcile()
        given = (self.spec, self.lake, self.context.batch, self.made)
        if trouble := keep_column_origins(*given, tables):
            report.warnings.append(trouble)
        report.seconds = round(time.monotonic() - started, 3)
        recorded = (self.context.batch, report.cursor, plan.state, report)
        self.ledger.record(*recorded, [*self.made.values()])
        return report

    def _cut_shuffles(self) -> dict[str, int]:
        """Let the session shuffle the increment into pieces of a good size; see `Lake`."""
        increment = self.increment
        return self.lake.cut_shuffles(self.lake.log("changes"), increment.after, increment.upto)

    def _survey(self) -> tuple[Survey, tuple[Open, ...]]:
        """The increment in numbers, and the transactions that are open after it."""
        replay = self.context.options.mode == "replay"
        again = self._bring_back() if replay else 0
        replaced = self.increment.rebuilt.replaced_since(self.increment.after)
        survey, open_ = self.increment.survey(), self.position.state.open
        report, held = self.report, HeldRows()
        gone = self.position.state.rolled_back
        if open_ or gone or any(survey.skipped[event] for event in EVENTS):
            now, rule = int(time.time()), self.spec.transactions
            decoded = self.lake.last(self.lake.log("changes"), "convert")
            mapped = {} if decoded is None else decoded.report.get("details", {}).get(SOURCES, {})
            known = {*self.position.state.tables, *survey.tables}
            tables = source_names(known, mapped, rules_of(self.spec.select, []))
            held = self.increment.hold_back(
                open_, now, rule.hold, tables, rule.longest_wait, gone, replay
            )
            report.warnings += self.increment.verdict.warnings
            check_wait(self.increment.verdict.open, rule.longest_wait, now)
            survey = self.increment.survey()
        report.rows_in = survey.total - again - held.released + held.waiting + held.rolled_back
        report.waiting = held.waiting
        if replaced:
            report.rows_in += replaced
            report.skipped[REPLACED] = replaced
        if again:
            report.extra_in[REPLAYED] = again
        if held.released or held.dropped:
            report.extra_in[OF_EARLIER] = held.released + held.dropped
        if held.rolled_back or held.dropped:
            report.skipped["rolled back"] = held.rolled_back + held.dropped
        return survey, self.increment.verdict.open

    def _bring_back(self) -> int:
        """Changes that columns refused before, for another try."""
        places = self.ledger.replay(self.context.batch)
        if places is None:
            return 0
        self.report.details[TRIED_AGAIN] = True
        return self.increment.bring_back(places)

    def _merge_tables(self, plan: MergePlan) -> None:
        if self.spec.order.ambiguous == "fail":
            # Before any of them is written: it would be emptied of the wrong rows.
            for name, table in plan.tables.items():
                if table.state.columns:
                    refuse_unordered_truncates(name, table)
        kept = [name for name, table in plan.tables.items() if not table.counted]
        for name in sorted(plan.tables.keys() - set(kept)):
            self.context.progress("merging %s, which has no key", name)
            self._merge_bag(name, plan.tables[name])
        if not kept:
            return
        self._upsert([name for name in kept if plan.tables[name].survey.rows], plan)
        with_rows = [name for name, table in plan.tables.items() if table.survey.rows]

        @cache
        def plain() -> DataFrame:
            moving = any(table.survey.moves for table in plan.tables.values())
            rows = self.increment.rows(with_rows[0] if self.alone and len(with_rows) == 1 else None)
            return effects(rows.where("old_key IS NULL") if moving else rows)

        # Tables whose rows keep their keys are reduced together: one shuffle for all of them.
        still = [
            name
            for name in kept
            if name in with_rows
            and not plan.tables[name].survey.moves
            and name not in self.upserted
        ]
        shared = None
        if len(still) > 1:
            shared = newest(plain().where(F.col("qualified").isin(still))).persist()
        try:
            for name in sorted(kept):
                self.context.progress("merging %s", name)
                self._merge_table(name, plan.tables[name], plain, shared)
        finally:
            if shared is not None:
                shared.unpersist()

    def _upsert(self, names: list[str], plan: MergePlan) -> None:
        """Merge the plain ones of some tables."""
        if not self.increment.untouched:
            self.not_plain |= dict.fromkeys(names, "transactions, replays or source times decide")
            return
        candidates = []
        for name in names:
            reason = self._not_plain(plan.tables[name])
            if reason is None:
                candidates.append(name)
            else:
                self.not_plain[name] = reason
        with ThreadPoolExecutor(COMMITS_AT_ONCE) as pool:
            tables = list(pool.map(lambda name: self._plain(name, plan.tables[name]), candidates))
        plain = {table.name: table for table in tables if table is not None}
        for name in set(candidates) - set(plain):
            changed = self.made[name].becomes
            reason = "tasks cannot read or write its data files"
            self.not_plain[name] = "columns are rewritten" if changed else reason
        if not plain:
            return
        self.context.progress("merging %s", counted(len(plain), "plain table"))
        rows = sum(plan.tables[name].survey.rows for name in names)
        batch = self.context.batch
        written, left = upsert(self.lake, self.increment, [*plain.values()], batch, self.size, rows)
        self.not_plain |= left
        whole = [name for name, one in written.items() if one.doubtful is None]
        for name in whole:
            self._account(name, plan.tables[name], written[name].out, 0)
        commit_written(plain.values(), written, {name: self._stamp(name) for name in whole})
        for name in whole:
            branch = self.made[name]
            self.report.snapshots[branch.table] = branch.head
        self.upserted = written

    def _not_plain(self, table: TablePlan) -> str | None:
        """Why a table does not go from the log to data files in tasks; None if it does."""
        ids = table.survey.schema_ids
        if not ids <= self.schemas.keys():
            return "its schemas came with earlier batches"
        schemas = [self.schemas[id_] for id_ in ids]
        return not_plain(table, schemas, self.spec.order.ambiguous)

    def _plain(self, name: str, plan: TablePlan) -> Plain | None:
        state = plan.state
        branch = self._branch(name, plan)
        if branch.becomes:
            return None
        return plain_table(
            self.lake, name, plan.survey.rows, state.truncated, state.columns, branch
        )

    def _branch(self, name: str, plan: TablePlan) -> Branch:
        """The branch of a table, made when it is first needed."""
        branch = self.made.get(name)
        if branch is None:
            rebuilds = plan.was is not None
            clear_table(self.lake, self.lake.merged(name), self.began_ms)
            retyped = plan.state.names if rebuilds else plan.retyped
            table, becomes = prepare(
                *(self.lake, name, plan.state, retyped, plan.moved, rebuilds),
                text_images=self.spec.lake.text_images,
            )
            described = [s for s in self.schemas.values() if s.qualified_name == name]
            staged = staged_state(plan.state, becomes)
            if not plan.keys:
                # Changes of long ago describe the table as it was then.
                comment_columns(self.lake, table, comments(name, staged.columns, described))
            branch = self.made[name] = self.lake.branch(table, STAGE, self.context.batch, False)
            branch.becomes = becomes
            self.branches[table] = branch.name
            if rebuilds:
                branch.empty()
            else:
                set_aside(self.lake, branch)
        return branch

    def _staged(self, name: str, plan: TablePlan, branch: Branch) -> TableState:
        """What is known of a table as its branch has it; rewrites its rows if it has to be."""
        state = staged_state(plan.state, branch.becomes)
        if branch.becomes or plan.renamings:
            self.context.progress("rewriting %s", name)
            copied = rewrite(self.lake, branch, name, state.columns, plan.renamings)
            self.context.progress("rewrote %s of %s", counted(copied, "row"), name)
        return state

    def _merge_bag(self, name: str, plan: TablePlan) -> None:
        """A table without key: its rows are counted."""
        self.not_plain[name] = "it has no key"
        survey = plan.survey
        branch = self._branch(name, plan)
        staged = replace(plan, state=self._staged(name, plan, branch))
        given = (branch, name, staged, self.increment, self.context.batch)
        out, odd = BagMerge(*given, halves=self.spec.source.splits_updates).merge()
        refused = self.ledger.refuse(
            self.context.batch, refused_rows(self.context.batch, name, odd)
        )
        self._account(name, plan, out, refused)
        assert survey.moves == 0
        self._commit(name, branch.table, branch)

    def _merge_table(
        self,
        name: str,
        plan: TablePlan,
        plain: Callable[[], DataFrame],
        shared: DataFrame | None,
    ) -> None:
        batch = self.context.batch
        if not plan.state.columns:
            # Statements about a table that no row has come from yet, or has by now.
            self._account(name, plan, 0, 0)
            if plan.was is not None and plan.was.columns:
                branch = self._branch(name, plan)
                self._commit(name, branch.table, branch)
            return
        done = self.upserted.get(name)
        if done is not None and done.doubtful is None:
            return
        branch = self._branch(name, plan)
        table = branch.table
        state = self._staged(name, plan, branch)
        merge = TableMerge(
            branch, name, state, self.increment, batch, partial(self.ledger.refuse, batch)
        )
        if done is not None:
            outcome = merge.merge_doubtful(done.doubtful, plain())
            plan.state.open_rows = outcome.open_rows
            self._account(name, plan, done.out + outcome.out, outcome.refused)
        else:
            self._through_spark(name, plan, merge, plain, shared)
        self._commit(name, table, branch)

    def _through_spark(
        self,
        name: str,
        plan: TablePlan,
        merge: TableMerge,
        plain: Callable[[], DataFrame],
        shared: DataFrame | None,
    ) -> None:
        """Merge a table that is not plain."""
        survey, branch = plan.survey, merge.branch
        forgotten = merge.forget(plan.keys) if plan.keys else 0
        if plan.truncated:
            merge.truncate()
        for default in plan.defaults:
            merge.add_default(default)
        for column in plan.to_fill:
            merge.fill(column)
        refusals = 0
        if survey.rows or (plan.reached and plan.state.open_rows):
            own = plain().where(F.col("qualified") == name)
            if survey.moves:
                moved, refusals = moved_rows(self.increment, name, plan, merge)
                own = own.unionByName(moved)
            if self.spec.order.ambiguous == "fail":
                stored = None if branch.begins_empty else merge.settling.resolver.stored
                refuse_ambiguous(name, plan, own, stored)
            if shared is None or survey.moves or not survey.rows:
                reduced = newest(own)
            else:
                reduced = shared.where(F.col("qualified") == name)
            outcome = merge.merge(
                reduced,
                own,
                survey.rows <= FEW and self.size <= FEW_BYTES,
                plan.reached,
                plan.late_columns,
                bool(survey.moves),
            )
            plan.state.open_rows = outcome.open_rows
            self._account(name, plan, outcome.out, outcome.refused + refusals)
        else:
            self.not_plain[name] = changed_in_place(plan)
            self._account(name, plan, 0, 0)
        if plan.keys:
            self.report.details[name][KEYS_REBUILT] = forgotten
        if plan.reload is not None:
            gone = mark_gone(self.lake, branch, plan.reload, self.context.batch)
            self.report.details[name][GONE] = gone
            self.context.progress("the full reload of %s took %s away", name, counted(gone, "row"))

    def _commit(self, name: str, table: str, branch: Branch) -> None:
        details = self.report.details[name]
        cursor = {**self._cursor, BECOMES: branch.becomes} if branch.becomes else self._cursor
        self.report.snapshots[table] = branch.commit(cursor, details, self.context.batch, STAGE)

    @property
    def _cursor(self) -> dict[str, Any]:
        """What the commits of tables say was consumed."""
        return {key: self.report.cursor[key] for key in ("after", "changes")}

    def _stamp(self, name: str) -> dict[str, str]:
        return stamp_of(self._cursor, self.report.details[name], self.context.batch, STAGE)

    def _account(self, name: str, plan: TablePlan, out: int, refused: int) -> None:
        """Put a table's counts into the report."""
        survey, report = plan.survey, self.report
        second = survey.moves
        came = survey.rows + survey.truncates
        out += plan.counted_truncate
        superseded = came + second - out - refused
        report.rows_out += out
        report.superseded += superseded
        if second:
            report.extra_in["key change"] = report.extra_in.get("key change", 0) + second
        if refused:
            report.refused["column"] = report.refused.get("column", 0) + refused
        report.details[name] = {
            "in": came,
            "key changes": second,
            "out": out,
            "superseded": superseded,
            "refused": refused,
            "complete up to": self.watermarks[name],
        }
        there = self.lake.merged_tables().get(name) if plan.was is not None else None
        if there is not None:
            report.details[name][REBUILT_FROM] = self.lake.read(there).count()
        if plan.accepted:
            accepted = msgspec.to_builtins(plan.accepted[:NAMED])
            report.details[name][COLUMN_CHANGES] = accepted
        if columns := plan.column_sentences:
            report.details[name]["columns"] = columns
        if reason := self.not_plain.get(name):
            report.details[name][BY_SPARK] = reason
        done = self.upserted.get(name)
        if done is not None and done.doubtful is not None:
            report.details[name][KEYS_BY_SPARK] = done.doubtful.num_rows
