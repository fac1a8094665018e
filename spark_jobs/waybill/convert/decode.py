"""Archive to `changes`: decoded in tasks, halves joined, counted on what was written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from waybill.batches.decoding import ChangeBatches
from waybill.batches.emptied_rows import skip_void
from waybill.batches.mapped_decoding import MappedDecoding
from waybill.convert.column_history import ColumnHistories
from waybill.convert.full_loads import has_full_loads
from waybill.convert.halves import SPENT, settle
from waybill.convert.mapped_names import NAMES, EarlierTables, Met, keep_names
from waybill.convert.registry_schemas import RegistrySchemas
from waybill.convert.reloading import RELOADED, BatchReload
from waybill.convert.shards import JoinedTables, known_floors, tell_floors
from waybill.convert.waiting import end_waiting
from waybill.counting import counted
from waybill.envelopes.pairs import PairJoiner
from waybill.errors import MissingColumnError, ReconciliationError
from waybill.lake import Span
from waybill.lake.decisions import drop_is_next
from waybill.lake.names import literal
from waybill.lake.newest_rows import newest_rows
from waybill.lake.row_sizes import RowSizes
from waybill.lake.source_times import calendar_column, calendar_sql
from waybill.lake_columns import ARCHIVE, CHANGES, MESSAGE_PLACE, TABLE_PARTS, columns_of
from waybill.mapping.changes import joined_tables
from waybill.mapping.shadows import SHADOW, shadows_sentence
from waybill.order import CHANGE
from waybill.records import TableSchema
from waybill.report import NEWEST, TRIED_AGAIN
from waybill.spark_tasks.counters import Tally
from waybill.spark_tasks.errors import unwrapped
from waybill.spark_tasks.worker_startup import light

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from waybill.convert.plan import DecodePlan
    from waybill.lake import Branch
    from waybill.report import StageReport
    from waybill.spark_tasks.worker_startup import Make
    from waybill.stage_context import StageContext

MESSAGE = columns_of(
    ARCHIVE, "topic", "partition", "offset", "timestamp", "key", "value", "headers"
)
"""What a decoder reads of a message."""

COUNTED = columns_of(CHANGES, "outcome", "reason_kind", "operation", *TABLE_PARTS)
"""Columns of `changes` by which its rows are counted."""

TIMED = columns_of(CHANGES, *COUNTED.names, "source_time")

FURTHER_ROWS = "further rows of a message"
CARRIED = "halves of earlier batches"
REPLAYED = "rows of refused messages"
SHOWN_TABLES = 200
"""Of how many tables a report has the changes by operation."""

_UPDATE = (*TABLE_PARTS, "sequence")
"""What the halves of one update share."""

_SEQUENCE = "split_part(order_key, '/', 2)"

BESIDE = ("skipped", "refused", "schema")
"""Outcomes of what is written where halves are settled, beside the updates."""


class Decoding:
    """One batch's way from the archive to a branch of `changes`."""

    def __init__(self, context: StageContext, reading: DecodePlan, branch: Branch) -> None:
        self.context = context
        self.reading = reading
        self.branch = branch
        self.schemas = RegistrySchemas(context, reading)
        self.columns = ColumnHistories(context, reading, branch.table, self.schemas)
        self.reload = BatchReload(context, branch)
        self.sizes = RowSizes(context.spark.sparkContext)
        self.renamed = Tally(context.spark.sparkContext)
        """What tables are called that tasks have met: new and old names, the old ones."""
        self.sources = Tally(context.spark.sparkContext)
        """What tables are called now that tasks have met, by the source's names."""
        self.emptied = Tally(context.spark.sparkContext)
        """How many statements tasks have met that empty joined tables."""
        known = known_floors(context, branch.table, "convert")
        self.floors = known if reading.mapping.joins else {}
        self._known_floors = known

    def run(self, after: int | None, upto: int | None, report: StageReport) -> None:
        """Write what the archive brought between two snapshots, and fill the report.

        Raises:
            ReconciliationError: the tasks did not see every message of the archive.
        """
        lake = self.context.lake
        span = Span(lake.log("archive"), after, upto)
        report.rows_in = lake.added_rows(*span)
        self.context.progress("convert: %s to decode", counted(report.rows_in, "message"))
        if report.rows_in:
            tally = Tally(self.context.spark.sparkContext)
            messages = lake.task_rows(span, MESSAGE, {})
            with lake.batches_by_rows(span):
                self.columns.settle(
                    lambda: self.branch.append_made(
                        messages.handed, messages.through(self._decode(tally)), CHANGES
                    )
                )
            self._count_tasks(tally, report)
        if self.context.options.mode == "reload":
            given = (after, self.columns.settle, self._decode, MESSAGE, report)
            self.reload.take(*given, pairs=self.reading.envelope.pairs)
        again = self._again()
        replayed = again is None or bool(again)
        replayed = replayed and self._replay(span, again, report)
        any_came = report.rows_in or replayed or RELOADED in report.extra_in
        self._keep_names(self._count_rows(report) if any_came else set(), report)
        self.schemas.keep()
        if self.reading.envelope.pairs:
            self._settle_halves(report)
        if report.waiting:
            end_waiting(self.context, self.branch, self.sizes, report)
        if self.reading.mapping.joins:
            self._join_tables(report)
        else:
            # The file may join tables again, and what comes late then is void as before.
            tell_floors(self._known_floors, report)
        self.reload.tell(report)
        self.sizes.tell(report, "changes")

    def _join_tables(self, report: StageReport) -> None:
        """Do what tables that become one need, when all changes of the batch are written."""
        joined = JoinedTables(
            *(self.context, self.branch, self.reading.mapping, self.floors), self.reload.counting
        )
        if self.emptied.counts:
            joined.empty(report)
        joined.tell(report)
        if report.rows_out:
            joined.check_keys(joined_tables(report.details.get(NAMES, {})))

    def _decode(self, tally: Tally) -> Make:
        """From batches of the archive to batches of `changes`, in a task."""
        reading, batch_id, renamed = self.reading, self.context.batch, self.renamed
        sources = self.sources
        schemas, sizes = self.schemas.of_tasks(), self.sizes
        emptied, floors = self.emptied, dict(self.floors)
        by_source_time = self.context.spec.order.ambiguous == "source_time"
        history = self.columns.history

        def decode(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
            schemas.begin()
            joiner = PairJoiner() if reading.envelope.pairs else None
            decoder, reader = reading.decoder(), reading.bulk_reader()
            work = ChangeBatches(decoder, batch_id, joiner, reader, has_full_loads)
            mapping = None
            if reading.mapping:
                given = (reading.mapping, reading.rules, floors, by_source_time, reading.bags)
                mapping = MappedDecoding(*given, history)
            rows = work.convert(iter(batches))
            yield from sizes.of(rows if mapping is None else mapping.of(rows))
            joined = 0 if joiner is None else joiner.joined
            tally.add_of_task(messages=work.messages, changes=work.decoded, joined=joined)
            if mapping is not None and reading.mapping.renames:
                renamed.add({f"{now}\n{old}": old for now, old in mapping.names.items()})
            if mapping is not None and mapping.sources:
                sources.add(mapping.sources)
            if mapping is not None and mapping.emptied:
                emptied.add({"statements": mapping.emptied})
            schemas.end()

        return decode

    def _again(self) -> list[str] | None:
        """Batches whose refused messages are decoded once more, None for all of them.

        A run that drops what the gate holds, or that follows a decision to drop it, starts over
        with all of it, so it gives another try to what was refused since the gate last let
        something through. If it did not, those messages would be counted against it although their
        cause is fixed.
        """
        options, lake = self.context.options, self.context.lake
        if options.mode == "replay":
            return None
        if not (options.drop_held or drop_is_next(lake)):
            return []
        passed = lake.last(lake.log("runs"), "validate")
        after = None if passed is None else passed.cursor["changes"]
        table = self.branch.table
        return [c.batch for c in lake.between(table, after, self.branch.base)]

    def _replay(self, span: Span, batches: list[str] | None, report: StageReport) -> bool:
        """Decode refused messages once more; rows of theirs that were taken stay.

        What was refused before is no longer in quarantine, what is refused again is there again.

        Args:
            span: of the archive, what the batch decodes anyway.
            batches: which batches refused the messages, None for any.
            report: gets the counts.

        Returns:
            Whether there was one.
        """
        if self.branch.base is None:
            return False
        lake = self.context.lake
        before = lake.read(self.branch.table, self.branch.base)
        place = list(MESSAGE_PLACE)
        own = F.lit(True) if batches is None else F.col("batch").isin(batches)
        refused = before.where("outcome = 'refused'").where(own).select(*place).distinct()
        if refused.isEmpty():
            return False
        if report.rows_in:
            here = lake.increment(*span).select(*place)
            refused = refused.join(here, place, "left_anti")
        refused = refused.persist()
        self.context.progress(
            "convert: %s to decode again", counted(refused.count(), "refused message")
        )
        found = lake.read(span.table).join(F.broadcast(refused), place, "left_semi")
        # A full run brings a message again: one of them is taken, and if they differ, the last.
        messages = newest_rows(found, MESSAGE_PLACE, lake.commits(span.table)).select(
            *MESSAGE.names
        )
        rows_before = self.reload.counting(before)
        taken = rows_before.where("outcome NOT IN ('refused', 'schema', 'replayed')")
        # A reload has brought rows of the same messages, which are written once.
        brought = self.branch.added().where("outcome <> 'schema'")
        taken = taken.unionByName(brought.where("outcome <> 'refused'")).select(*place, "index")
        brought = brought.where("outcome = 'refused'").select(*place, "index")
        taken = taken.join(F.broadcast(refused), place, "left_semi")
        brought = brought.join(F.broadcast(refused), place, "left_semi")
        tally = Tally(self.context.spark.sparkContext)

        def decode() -> tuple[DataFrame, DataFrame, int]:
            made = messages.mapInArrow(light(self._decode(tally)), from_arrow_schema(CHANGES))
            decoded = made.persist()
            rows = decoded.where("outcome <> 'schema'")
            # A refusal may be of the whole message, also where some rows of it were taken before.
            own = [*place, "index"]
            again = rows.where("outcome = 'refused'").join(brought, own, "left_anti")
            others = rows.where("outcome <> 'refused'").join(taken, own, "left_anti")
            fresh = others.unionByName(again).persist()
            try:
                with unwrapped():
                    return decoded, fresh, fresh.count()
            except MissingColumnError:
                for frame in (fresh, decoded):
                    frame.unpersist()
                raise

        decoded, fresh, count = self.columns.settle(decode)
        joined = tally.totals["joined"]
        # What this batch itself has refused by now stays so.
        named = "" if batches is None else f" AND batch IN ({', '.join(map(literal, batches))})"
        self.branch.sql(
            "UPDATE {branch} SET outcome = 'replayed' WHERE outcome = 'refused' "
            f"AND batch <> {{batch}}{named}",
            {"batch": self.context.batch},
        )
        report.details[TRIED_AGAIN] = True
        schemas = decoded.where("outcome = 'schema'")
        self.branch.append(schemas.unionByName(fresh.select(*schemas.columns)))
        if count:
            add(report.extra_in, REPLAYED, count + joined)
            report.superseded += joined
        for frame in (fresh, decoded, refused):
            frame.unpersist()
        return True

    def _count_tasks(self, tally: Tally, report: StageReport) -> None:
        counts = tally.totals
        messages = counts["messages"]
        if messages != report.rows_in:
            message = (
                f"the archive has {counted(report.rows_in, 'message')} for batch {report.batch} "
                f"and {counted(messages, 'was', 'were')} decoded; nothing was committed: run the "
                "batch again"
            )
            raise ReconciliationError(message)
        further = counts["changes"] - messages
        if further:
            report.extra_in[FURTHER_ROWS] = further
        report.superseded += counts["joined"]

    def _keep_names(self, came: set[str], report: StageReport) -> None:
        last = self.context.lake.last(self.branch.table, report.stage)
        before = {} if last is None else last.report["details"]
        met = Met(self.renamed.counts, self.sources.counts, came, self.reload.rebuilt)
        earlier = EarlierTables(self.context.lake)
        keep_names(before, self.reading.mapping, met, earlier, report)
        self.columns.tell(report)

    def _count_rows(self, report: StageReport) -> set[str]:
        """Count what was written; returns the names of the tables that changes came of."""
        came: set[str] = set()
        tables: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        newest: dict[str, int] = {}
        for rows, time, outcome, reason_kind, operation, *names in self._counted():
            name = ".".join(part for part in names if part)
            if name and outcome in ("ok", "waiting"):
                came.add(name)
            if outcome == "ok":
                report.rows_out += rows
                tables[name][operation] += rows
                if time is not None:
                    newest[name] = max(time, newest.get(name, time))
            elif outcome == "refused":
                add(report.refused, reason_kind, rows)
            elif outcome == "skipped":
                add(report.skipped, reason_kind or operation, rows)
            else:
                report.waiting += rows
        if SHADOW in report.skipped:
            report.warnings.append(shadows_sentence(report.skipped[SHADOW]))
        shown = sorted(tables)[:SHOWN_TABLES]
        report.details["tables"] = {name: dict(tables[name]) for name in shown}
        # Of every table: the gate and the pages go by it, and it is short.
        report.details[NEWEST] = dict(sorted(newest.items()))
        return came

    def _counted(self) -> list[tuple[Any, ...]]:
        """How many rows were written, their newest source time, and their columns of `COUNTED`.

        Times are microseconds since 1970; those that are on no calendar do not count.
        """
        names = COUNTED.names
        few = self.branch.few_written(TIMED)
        if few is not None:
            time = calendar_column(few.column("source_time")).cast(pa.int64())
            few = few.set_column(few.num_columns - 1, "time", time)
            found = few.group_by(names).aggregate([([], "count_all"), ("time", "max")])
            counts = found.select(["count_all", "time_max", *names]).to_pylist()
            return [tuple(row.values()) for row in counts if row["outcome"] != "schema"]
        rows = self.branch.added().where("outcome <> 'schema'").groupBy(*names)
        newest = F.max(F.expr(calendar_sql("source_time")))
        sums = rows.agg(F.count("*").alias("rows"), F.unix_micros(newest).alias("time"))
        return [tuple(row) for row in sums.select("rows", "time", *names).collect()]

    def _settle_halves(self, report: StageReport) -> None:
        """Join halves that met in no task, with those of earlier batches."""
        lake = self.context.lake
        here = lake.read(self.branch.table, self.branch.head).where("outcome = 'waiting'")
        found = (
            here.groupBy("half", (F.col("batch") == report.batch).alias("new")).count().collect()
        )
        if not found:
            return
        carried = sum(row["count"] for row in found if not row.new)
        if carried:
            report.extra_in[CARRIED] = carried
            report.waiting += carried
        if report.rows_in == 0 and not {REPLAYED, RELOADED}.intersection(report.extra_in):
            return
        with_joined = here.unionByName(self._joined_before(here, report.batch))
        settled = self._settled(with_joined).persist()
        try:
            self._write_settled(settled, report)
        finally:
            settled.unpersist()
        if carried and report.waiting:
            report.warnings.append(
                counted(report.waiting, "half of an update waits", "halves of updates wait")
                + " for the other half, of this batch or earlier ones"
            )

    def _joined_before(self, waiting: DataFrame, batch: str) -> DataFrame:
        """Updates that were joined in tasks or batches before, of halves that have no partner.

        Such a half came a second time. A new one may be a copy of anything; one of an earlier
        batch was looked for then, so only what this batch has joined since can be its update.
        """
        both = F.min("half") != F.max("half")
        alone = (
            waiting.withColumn("sequence", F.expr(_SEQUENCE))
            .groupBy(*_UPDATE)
            .agg(both.alias("both"), F.max(F.col("batch") == batch).alias("new"))
            .where("NOT both")
        )
        log = self.reload.counting(self.context.lake.read(self.branch.table, self.branch.head))
        return _updates_of(alone.where("new"), log).unionByName(
            _updates_of(alone.where("NOT new"), log.where(F.col("batch") == batch))
        )

    def _settled(self, waiting: DataFrame) -> DataFrame:
        ids = [row.schema_id for row in waiting.select("schema_id").distinct().collect()]
        schemas = self._schemas(ids)
        batch_id, sizes, floors = self.context.batch, self.sizes, dict(self.floors)
        columns = self.reading.mapping.joined_by
        by_source_time = self.context.spec.order.ambiguous == "source_time"

        def join(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            rows: Iterable[pa.RecordBatch] = settle(batches, batch_id, schemas.__getitem__)
            if floors:
                rows = skip_void(rows, floors, columns, by_source_time)
            return sizes.of(rows)

        return (
            waiting.withColumn("sequence", F.expr(_SEQUENCE))
            .repartition(*_UPDATE)
            .sortWithinPartitions(*_UPDATE, "order_key")
            .drop("sequence")
            .mapInArrow(light(join), from_arrow_schema(CHANGES))
        )

    def _schemas(self, ids: list[str]) -> dict[str, TableSchema]:
        lake = self.context.lake
        rows = lake.read(self.branch.table, self.branch.head).where("outcome = 'schema'")
        return schemas_in(rows.where(F.col("schema_id").isin(ids)))

    def _write_settled(self, settled: DataFrame, report: StageReport) -> None:
        counted = settled.groupBy("outcome", "reason_kind").count().collect()
        counts = {row.outcome: 0 for row in counted}
        for row in counted:
            counts[row.outcome] += row["count"]
        still = counts.get("waiting", 0)
        if still == sum(counts.values()):
            return
        written = self.branch.append(settled.where(F.col("outcome").isin("ok", *BESIDE)))
        if still:
            rest = settled.where("outcome = 'waiting'")
            self.branch.overwrite(rest, F.col("outcome") == "waiting")
        else:
            self.branch.delete_partition("outcome", "waiting")
        report.waiting = still
        report.superseded += counts.get(SPENT, 0)
        for row in counted:
            if row.outcome == "skipped":
                add(report.skipped, row.reason_kind, row["count"])
            elif row.outcome == "refused":
                add(report.refused, row.reason_kind, row["count"])
        report.rows_out += written - sum(counts.get(outcome, 0) for outcome in BESIDE)
        report.details["halves_joined_across_tasks"] = counts.get(SPENT, 0)


def _updates_of(halves: DataFrame, changes: DataFrame) -> DataFrame:
    """The joined updates among some changes that halves share table and sequence id with."""
    joined = changes.where("outcome = 'ok' AND operation = 'update' AND before IS NOT NULL")
    span = halves.agg(F.min("sequence"), F.max("sequence")).first()
    if span is None or span[0] is None:
        return joined.where("false")
    # An order key begins with the sequence, so files that hold only others are not read.
    near = F.col("order_key").between(f"{CHANGE}/{span[0]}/", f"{CHANGE}/{span[1]}0")
    found = joined.where(near).withColumn("sequence", F.expr(_SEQUENCE)).alias("joined")
    same = [F.col(f"joined.{name}").eqNullSafe(F.col(f"halves.{name}")) for name in _UPDATE]
    return found.join(halves.alias("halves"), same, "left_semi").drop("sequence")


def schemas_in(rows: DataFrame) -> dict[str, TableSchema]:
    """The schemas that `schema` rows of `changes` hold, by their id."""
    # A few rows a task: telling equal ones apart here costs less than a shuffle.
    return schemas_of(map(tuple, rows.select("schema_id", "extra").collect()))


def schemas_of(rows: Iterable[tuple[str, str]]) -> dict[str, TableSchema]:
    """Schemas by their id, from ids and texts."""
    return {id_: TableSchema.from_json(text.encode()) for id_, text in dict(rows).items()}


def add(counts: dict[str, Any], name: str | None, rows: int) -> None:
    """Add to a count by name."""
    key = name or "no reason given"
    counts[key] = counts.get(key, 0) + rows
