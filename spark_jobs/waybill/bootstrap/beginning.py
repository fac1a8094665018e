"""Lets new targets begin with the merged tables, before the batch that is to be written for them.

Two commits for each target: the rows into `changes`, under an outcome that neither the merge nor
another target takes, and their messages into the outbox, as a batch of their own before that of
the run. From the second one on the target gets what all others get. A run that is killed between
the two goes on with the rows that are there, unless anything was written for other targets since,
or the file makes something else of the target by now.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from waybill.batches.change_rows import schema_row
from waybill.bootstrap.every_change import begin_with_changes
from waybill.bootstrap.table_definitions import (
    dates_in,
    described,
    extra_of_connector,
    not_in_all,
    whole_schema,
)
from waybill.bootstrap.table_rows import NUMBER, READ, RowsOfTable
from waybill.convert.beginning import STAGE, last_encoded, to_begin, why_waits
from waybill.convert.encode import Encoding
from waybill.convert.plan import make_plan
from waybill.counting import counted
from waybill.full_load import BOOTSTRAP_TOPIC
from waybill.lake import Span
from waybill.lake.changed_targets import mark_of
from waybill.lake.row_sizes import RowSizes
from waybill.lake.stage_commit import land
from waybill.lake_columns import BEFORE_BATCH, BOOTSTRAP, CHANGES
from waybill.merge import columns as own
from waybill.merge.position import position_of
from waybill.merge.short_images import with_full_images
from waybill.report import StageReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from waybill.bootstrap.table_definitions import Described
    from waybill.convert.plan import EncodePlan
    from waybill.lake import Branch, Commit
    from waybill.merge.state import TableState
    from waybill.records import TableSchema
    from waybill.spec.endpoints import Target
    from waybill.spec.migration import Migration
    from waybill.stage_context import StageContext

REFUSED = "refused_by_tables"
"""The detail that tells how many changes the tables could not hold: no target begins with them."""


def begin_targets(spec: Migration, context: StageContext) -> None:
    """Write what new targets begin with, where that can be determined now.

    Raises:
        ConfigurationError: see `waybill.convert.plan.make_plan`.
        ConflictError: another run moved a table first.
    """
    lake = context.lake
    if lake.find(lake.log("outbox"), STAGE, context.batch) is not None:
        return
    targets = to_begin(spec, lake)
    if not targets:
        return
    plan = make_plan(spec)
    for target in targets:
        why = why_waits(lake, target)
        if why is not None:
            context.progress("convert: the target %s has not begun: %s", target.label, why)
            continue
        (writing,) = (one for one in plan.writings if one.label == target.label)
        if target.bootstrap == "archive":
            begin_with_changes(context, writing)
            continue
        connectors = any(layout.connector for layout in plan.reading.envelope.layouts)
        _TargetBeginning(context, target, writing, connectors).run()


class _TargetBeginning:
    """One target that begins.

    Args:
        context: of the stage.
        target: the target.
        writing: how it is written.
        connectors: whether ids depend on the product that made them.
    """

    def __init__(
        self, context: StageContext, target: Target, writing: EncodePlan, connectors: bool
    ) -> None:
        self.context, self.writing, self.connectors = context, writing, connectors
        self.lake = context.lake
        self.label = writing.label
        self.batch = f"{context.batch}{BEFORE_BATCH}"
        encoded = last_encoded(self.lake)
        assert encoded is not None
        made_for = json.dumps([mark_of(target), writing.settings.of_ids()])
        self.cursor: dict[str, Any] = {
            "target": self.label,
            "outbox": encoded.snapshot,
            "made_for": made_for,
        }

    def run(self) -> None:
        """Both commits."""
        there = self._rows_there()
        if there is None:
            self._write_rows()
            there = self._rows_there()
            assert there is not None
        self._write_messages(there)

    def _rows_there(self) -> Commit | None:
        """The commit of the rows, if they were written since the last batch was encoded."""
        for commit in self.lake.commits(self.lake.log("changes")):
            if commit.stage == BOOTSTRAP and self.cursor.items() <= commit.cursor.items():
                return commit
        return None

    def topic_of(self, table: str) -> str:
        """The topic of a table's rows, in which nothing stands that was given up."""
        return f"{BOOTSTRAP_TOPIC}{self.label}@{self.batch}{self._given_up}:{table}"

    @cached_property
    def _given_up(self) -> str:
        """Tells apart what this batch writes once more because the file has another target now."""
        every = self.lake.commits(self.lake.log("changes"))
        own = [one for one in every if one.stage == BOOTSTRAP and one.batch == self.batch]
        before = sum(one.cursor["target"] == self.label for one in own)
        return f".{before}" if before else ""

    def _write_rows(self) -> None:
        started, lake = time.monotonic(), self.lake
        merged = lake.last(lake.log("merges"), "merge")
        assert merged is not None, "why_waits has found it"
        position = position_of(lake)
        assert position.changes is not None
        changes = described(lake, position.changes, position.state)
        report = StageReport(BOOTSTRAP, self.batch, file=self.context.spec.digest)
        branch = lake.branch(lake.log("changes"), BOOTSTRAP, self.batch)
        sizes = RowSizes(self.context.spark.sparkContext)
        tables: dict[str, dict[str, int]] = {}
        report.details = {"as_of": merged.batch, "tables": tables}
        by_time = bool(position.state.by_source_time)
        for name, table in lake.merged_tables().items():
            state, head = position.state.table(name), lake.head(table)
            found = changes.get(name)
            schema = None if found is None else whole_schema(state, found.schemas)
            if head is None or state.key is None or schema is None or found is None:
                continue
            if self.writing.mapping and not self.writing.mapping.selects(schema):
                continue
            lake.cut_shuffles(table, None, head)
            rows = _MergedTable(self, name, state, schema, found, by_time)
            images = with_full_images(lake, table, lake.read(table, head))
            tables[name] = rows.write(branch, images, sizes)
            first = {
                "topic": f"{BOOTSTRAP_TOPIC}{self.label}",
                "partition": 0,
                "offset": 0,
                "index": 0,
            }
            schema_rows = [[*schema_row(schema, {**first, "batch": self.batch}).values()]]
            branch.append_rows(schema_rows, CHANGES)
            self.context.progress(
                "convert: the target %s begins with %s of %s%s",
                *(self.label, counted(tables[name]["rows"], "row"), name),
                f" and {counted(n, 'deleted key')}" if (n := tables[name].get("deleted")) else "",
            )
        report.rows_in = report.rows_out = sum(sum(found.values()) for found in tables.values())
        self._warn(report)
        sizes.tell(report, "changes")
        report.cursor = {**self.cursor, "merges": merged.snapshot, "changes": position.changes}
        land(branch, report, "changes", started)

    def _warn(self, report: StageReport) -> None:
        """Count what other targets got and the tables do not show."""
        record = self.lake.log("merges")
        refused = sum(1 for _ in self.lake.scan(record, ("kind",), {"kind": ["refused"]}))
        if refused:
            report.details[REFUSED] = refused
            report.warnings.append(
                f"the target {self.label} begins without "
                + counted(refused, "change that its table refuses", "changes that tables refuse")
                + ": it does not get them when they are accepted later (bootstrap: archive does); "
                "see `waybill quarantine list`"
            )

    def _write_messages(self, rows: Commit) -> None:
        started, lake = time.monotonic(), self.lake
        count = rows.report["rows_out"]
        self.context.progress(
            "convert: the target %s begins as of batch %s, with %s",
            *(self.label, rows.report["details"]["as_of"], counted(count, "row")),
        )
        report = StageReport(BOOTSTRAP, rows.batch, rows_in=count, rows_out=count)
        report.file = self.context.spec.digest
        names = ("as_of", "tables", REFUSED)
        details = rows.report["details"]
        report.details = {name: details[name] for name in names if name in details}
        report.warnings = list(rows.report["warnings"])
        branch = lake.branch(lake.log("outbox"), BOOTSTRAP, rows.batch)
        context = replace(self.context, batch=rows.batch)
        span = Span(lake.log("changes"), rows.parent, rows.snapshot)
        Encoding(context, (self.writing,), branch, {}).begin(span, count, report)
        report.cursor = {**self.cursor, "changes": rows.snapshot}
        land(branch, report, "outbox", started)


class _MergedTable:
    """The rows of one merged table, for one target."""

    def __init__(
        self,
        beginning: _TargetBeginning,
        name: str,
        state: TableState,
        schema: TableSchema,
        changes: Described,
        by_source_time: bool,
    ) -> None:
        settings = beginning.writing.settings
        envelope = beginning.writing.envelope
        extra = extra_of_connector(changes.extra) if beginning.connectors else None
        is_joined = _is_joined(beginning.context.spec, schema)
        lacking = not_in_all(changes.schemas) if is_joined else frozenset[str]()
        self.rows = RowsOfTable(
            beginning.topic_of(name),
            beginning.batch,
            (schema.database, schema.schema, schema.table),
            schema.id,
            schema.names,
            schema.key or (),
            "read",
            extra,
            dict(state.came_up),
            not schema.key,
            by_source_time and bool(state.places),
            bool(settings.of_ids()),
            dates_in(schema, changes.schemas),
            lacking,
        )
        ids = {"sequence_id"} & (envelope.carries | envelope.partly.keys())
        # Without an id a reader takes what comes last, so that there is nothing to remember.
        self.remembers = bool(ids) and bool(schema.key) and not self.rows.timed

    def write(self, branch: Branch, table: DataFrame, sizes: RowSizes) -> dict[str, int]:
        """Append the rows, and the deleted keys that the table remembers; returns the counts."""
        rows, made = table.where(f"NOT {own.DELETED}"), self.rows
        rows = _numbered(rows) if made.bag else _placed(rows)
        found = {"rows": _append(branch, rows, made, sizes)}
        if self.remembers:
            gone = table.where(f"{own.DELETED} AND {own.ORDER} NOT LIKE '1//%'")
            own_place = f"{own.GONE} = '{own.BY_CHANGE}'"
            deletes = replace(made, operation="delete", topic=f"{made.topic}:deleted")
            # All that one reload deleted have its place.
            reloaded = replace(deletes, topic=f"{made.topic}:reloaded")
            count = _append(branch, _placed(gone.where(own_place)), deletes, sizes)
            others = gone.where(f"NOT coalesce({own_place}, false)")
            count += _append(branch, _numbered(others), reloaded, sizes)
            if count:
                found["deleted"] = count
        return found


def _is_joined(spec: Migration, schema: TableSchema) -> bool:
    """Whether several tables of the source became this one."""
    joins = [rule.join for rule in spec.map if rule.join is not None]
    return any(join.column in schema.index for join in joins)


def _placed(rows: DataFrame) -> DataFrame:
    """Rows in the order of their positions, those with one position in one task."""
    position = F.substring_index(own.ORDER, "/", -1)
    sorted_ = rows.repartitionByRange(position).sortWithinPartitions(position, own.KEY)
    return sorted_.withColumn(NUMBER, F.lit(None).cast("bigint"))


def _numbered(rows: DataFrame) -> DataFrame:
    return rows.withColumn(NUMBER, F.monotonically_increasing_id())


def _append(branch: Branch, rows: DataFrame, made: RowsOfTable, sizes: RowSizes) -> int:
    return branch.append_made(rows.select(*READ), lambda found: sizes.of(made.of(found)), CHANGES)
