"""Tables that wait for a decision of a person, while the others go on.

A table whose columns or key changed in a way that a person decides about is left out of the batch
with all of its changes. They stay in the log, behind the snapshot up to which the table was merged.
Later batches leave it out, too. When the migration's file has changed, a reload has brought all
changes of the table as the file makes them now, or a statement may have emptied it, it is tried
once more: its changes since then, of
all batches, are an increment of their own. Changes have their place in the order whichever batch
brings them, so this is as if they had come at once.

Rows of marked transactions belong to several tables at a time, and refused changes that a replay
brings back may be older than the hold. So no table begins to wait with a batch that leaves out rows
of transactions, brings such rows in, or is a replay: it stops. Such a batch stops behind tables
that wait, too, until the migration decides about all of them.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from waybill.counting import counted
from waybill.errors import Code, SchemaChangeError
from waybill.merge.increment import Increment
from waybill.merge.names_in_log import NamesInLog
from waybill.merge.plan import make_plan
from waybill.merge.state import HeldTable, MergeState
from waybill.merge.statements import Statements
from waybill.spec.decisions import TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from waybill.merge.increment_counts import Survey, TableSurvey
    from waybill.merge.plan import MergePlan
    from waybill.merge.transactions import TransactionVerdict
    from waybill.records import TableSchema
    from waybill.spec.migration import Migration


class IncrementPart(NamedTuple):
    """Tables that are merged from one increment.

    Attributes:
        increment: the changes.
        schemas: their schemas, by id.
        plan: what they mean for the tables.
        alone: whether the increment has changes of no other table.
    """

    increment: Increment
    schemas: dict[str, TableSchema]
    plan: MergePlan
    alone: bool


class Parts:
    """Plans a batch, and leaves out tables that have to wait.

    Args:
        spec: the migration.
        batch: id of the batch.
        before: what was known of the tables.

    Attributes:
        held: tables that wait, after the batch.
        began: those that wait since this batch.
        earlier: changes of earlier batches that are merged now, as their tables wait no more.
        waiting: changes of this batch that wait.
    """

    def __init__(self, spec: Migration, batch: str, before: MergeState) -> None:
        self.spec = spec
        self.batch = batch
        self.before = before
        self.held = dict(before.held)
        self.began: list[str] = []
        self.earlier = 0
        self.waiting = 0
        self._reloaded: Collection[str] = ()

    def of(self, increment: Increment, survey: Survey, replay: bool) -> list[IncrementPart]:
        """The batch as parts, the first of which has the state after all of them.

        Args:
            increment: the batch.
            survey: it in numbers.
            replay: whether it brings back what was refused.

        Raises:
            ConfigurationError: see `make_plan`.
            SchemaChangeError: a person has to decide about a table, and it cannot wait alone.
        """
        across = _across_batches(increment.verdict)
        self._reloaded = increment.rebuilt.since(increment.after)
        self._check_stops(across, replay)
        again: dict[int | None, set[str]] = defaultdict(set)
        for name, held in self.held.items():
            if self._is_tried(name, held) or _may_be_emptied(name, survey):
                again[held.after].add(name)
        left: dict[str, SchemaChangeError] = {}
        statements = Statements(increment, self.before.unnumbered)
        self.before.unnumbered = statements.offsets
        first = self._part(
            increment,
            survey,
            statements,
            self.before,
            lambda name: name not in self.held and name not in left,
            left,
            across or replay,
        )
        for name, error in left.items():
            self._hold(name, increment.after, error)
        parts = [first]
        for after, names in again.items():
            parts += self._released(increment, after, names, first.plan.state, across)
        for name, held in self.held.items():
            came = _changes(survey.tables.get(name))
            self.waiting += came
            # A reload has brought those that waited before, too.
            before = 0 if name in self._reloaded else held.changes
            self.held[name] = HeldTable(
                *(held.after, held.batch, held.time, held.why, held.reached),
                before + came,
                self.spec.digest,
            )
        for part in parts[1:]:
            for name in part.plan.tables:
                self.earlier -= _changes(survey.tables.get(name))
        first.plan.state.held = self.held
        return parts

    def warnings(self) -> list[str]:
        """A sentence on each table that waits."""
        run = self.spec.command("run", "FILE")
        return [
            f"{name} waits since batch {held.batch} with {counted(held.changes, 'change')}, and "
            f"all other tables continue: {held.why} (`{run}`)"
            for name, held in sorted(self.held.items())
        ]

    def _is_tried(self, name: str, held: HeldTable) -> bool:
        """Whether the migration may have decided about a table since it was tried."""
        return not held.file or held.file != self.spec.digest or name in self._reloaded

    def _check_stops(self, across: bool, replay: bool) -> None:
        """Stop a batch that cannot be merged while tables wait.

        Args:
            across: whether rows of transactions are not merged with the batch that brought them.
            replay: whether it brings back what was refused.

        Raises:
            SchemaChangeError: names a table that waits.
        """
        for name, held in self.before.held.items():
            since = f"{name} waits since batch {held.batch}"
            if replay:
                again = self.spec.command("run", "FILE")
                message = (
                    f"{since}, and this batch replays refused changes: decide first, run once "
                    f"without a replay (`{again}`), then replay: {held.why}"
                )
                raise SchemaChangeError(message, code=Code.COLUMN_DECISION)
            if across and not self._is_tried(name, held):
                message = (
                    f"{since}, and transactions, which belong to several tables, are open in this "
                    f"batch, end in it or were rolled back: decide first: {held.why}"
                )
                raise SchemaChangeError(message, code=Code.COLUMN_DECISION)

    def _hold(self, name: str, after: int | None, error: SchemaChangeError) -> None:
        """Let a table wait that this batch has left out for the first time."""
        reached = self.before.watermark(name)
        why = f"{error.code}: {error.sentence}"
        self.held[name] = HeldTable(after, self.batch, int(time.time()), why, reached)
        self.began.append(name)

    def _released(
        self,
        increment: Increment,
        after: int | None,
        names: set[str],
        state: MergeState,
        across: bool,
    ) -> list[IncrementPart]:
        """The changes of tables that waited, if they need not wait any more."""
        own = Increment(increment.lake, after, increment.upto, increment.by_source_time)
        if across:
            # All of these transactions began behind the hold, so their rows are in here.
            own.settle(increment.verdict)
        survey = own.survey()
        left: dict[str, SchemaChangeError] = {}
        statements = Statements(own, state.unnumbered)
        part = self._part(
            own,
            survey,
            statements,
            state,
            lambda name: name in names and name not in left,
            left,
            across,
        )
        for name, error in left.items():
            held = self.held[name]
            why = f"{error.code}: {error.sentence}"
            values = (held.after, held.batch, held.time, why, held.reached, held.changes)
            self.held[name] = HeldTable(*values)
        for name in names - left.keys():
            del self.held[name]
            self.earlier += _changes(survey.tables.get(name))
            state.tables[name] = part.plan.state.table(name)
        state.unnumbered = part.plan.state.unnumbered
        return [part] if part.plan.tables else []

    def _part(
        self,
        increment: Increment,
        survey: Survey,
        statements: Statements,
        before: MergeState,
        takes: Callable[[str], bool],
        left: dict[str, SchemaChangeError],
        whole: bool,
    ) -> IncrementPart:
        """Plan tables; those that have to wait are put into `left`, unless the batch is one."""
        schemas = increment.schemas()
        truncates = any(table.truncates for table in survey.tables.values())
        values = (
            statements.of("truncate", truncates),
            statements.of("ddl", survey.skipped["ddl"] > 0),
        )
        rebuilt = increment.rebuilt.since(increment.after)
        elsewhere = statements.elsewhere() if any(map(takes, rebuilt)) else []
        while True:
            try:
                plan = make_plan(
                    survey,
                    schemas,
                    *values,
                    before,
                    self.spec.rules,
                    increment.schemas_above,
                    self.spec.decisions,
                    self.batch,
                    takes,
                    NamesInLog(increment),
                    rebuilt,
                    elsewhere,
                    increment.rebuilt.keys_since(increment.after),
                )
            except SchemaChangeError as error:
                alone = self.spec.decisions.find(error.table).stops_what == TABLE
                if whole or not error.table or not alone:
                    raise
                left[error.table] = error
                continue
            increment.renamed = {
                n: t.state.renamed for n, t in plan.tables.items() if t.state.renamed
            }
            rows = {name for name, table in survey.tables.items() if table.rows}
            return IncrementPart(increment, schemas, plan, rows <= plan.tables.keys())


def _may_be_emptied(name: str, survey: Survey) -> bool:
    """Whether a batch may take away the rows that a table waits because of."""
    found = survey.tables.get(name)
    return survey.skipped["ddl"] > 0 or (found is not None and found.truncates > 0)


def _across_batches(verdict: TransactionVerdict) -> bool:
    """Whether rows of transactions are not merged with the batch that brought them, or never."""
    return bool(verdict.open or verdict.gone or verdict.released)


def _changes(survey: TableSurvey | None) -> int:
    return 0 if survey is None else survey.rows + survey.truncates
