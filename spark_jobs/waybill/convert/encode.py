"""`changes` to `outbox`: every accepted change in the envelope of each target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F

from waybill.batches.message_rows import CHANGE
from waybill.convert.decode import add, schemas_in, schemas_of
from waybill.counting import counted
from waybill.lake import Span
from waybill.lake.changed_targets import WRITTEN_AS, marks_of
from waybill.lake.names import literal
from waybill.lake.newest_rows import newest_rows
from waybill.lake.row_sizes import RowSizes
from waybill.lake_columns import BOOTSTRAP, CHANGE_PLACE, OUTBOX, SCHEMA_COLUMNS, columns_of
from waybill.made_ids import IDS_WRITTEN, MADE_IDS, WITHIN_PARTITION, MadeIds, lost_of
from waybill.report import TRIED_AGAIN, StageReport
from waybill.spark_tasks.counters import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from waybill.convert.plan import EncodePlan
    from waybill.lake import Branch
    from waybill.records import TableSchema
    from waybill.spark_tasks.worker_startup import Make
    from waybill.stage_context import StageContext

FURTHER_MESSAGES = "further messages of a change"
NO_WORD = "the target has no word for it"
WRITTEN = "written without the replay"
MADE_FROM = "made_ids_from"
"""The detail that tells, by topic, the only partition whose positions became ids, in this batch and
those before; null where there are several."""

NAMES = "target_names"
"""The detail that tells, by target, the lake's names of tables by those that it gives them, of this
batch and those before, where it gives tables other names."""


ACCEPTED = f"outcome IN ('ok', '{BOOTSTRAP}')"
"""SQL: rows of `changes` that messages are made from."""

COUNTED = columns_of(
    OUTBOX, "target", "outcome", "reason_kind", "losses", "topic", "message", "partition"
)
"""Columns of the outbox by which its rows are counted."""


class Again(NamedTuple):
    """What a target had refused when a replay began.

    Attributes:
        refused: how many changes.
        written: those of them that are not encoded again, because a later batch has written them,
            or this one does so anyway.
    """

    refused: int = 0
    written: int = 0


class Wrote(NamedTuple):
    """Rows of the outbox that one batch wrote and that have the same in some columns.

    Attributes:
        target: name of the target.
        outcome: as the outbox has it.
        reason_kind: as the outbox has it.
        losses: as the outbox has it.
        made_in: the topic, where positions became ids.
        rows: how many they are.
        further: how many of them are not the first message of their change.
        first: the lowest partition.
        last: the highest one.
    """

    target: str
    outcome: str
    reason_kind: str | None
    losses: list[str] | None
    made_in: str | None
    rows: int
    further: int
    first: int | None
    last: int | None


class Encoding:
    """One batch's way from `changes` to a branch of `outbox`.

    Args:
        context: of the stage.
        writings: the targets.
        branch: what is written.
        partitions: what the batch before reported as `MADE_FROM`.
        names: what it reported as `NAMES`.
        had: the tables of the lake that a target may have got in earlier batches, by its label.
    """

    def __init__(
        self,
        context: StageContext,
        writings: tuple[EncodePlan, ...],
        branch: Branch,
        partitions: dict[str, int | None],
        names: dict[str, dict[str, str]] | None = None,
        had: Callable[[str], Collection[str]] = lambda _label: (),
    ) -> None:
        self.context = context
        self.writings = writings
        self.branch = branch
        self.partitions = partitions
        self.names = names or {}
        self._had = had
        self.sizes = RowSizes(context.spark.sparkContext)

    def run(self, after: int | None, upto: int | None, changes: int, report: StageReport) -> None:
        """Write what `changes` brought between two snapshots, for every target.

        Args:
            after: snapshot up to which the outbox has everything.
            upto: newest snapshot to take.
            changes: how many accepted changes there are between the two.
            report: gets the counts of every target.

        Raises:
            ReconciliationError: the messages of a target do not account for every change.
            ConfigurationError: a target's mapping does not fit, or gives two tables one name.
        """
        self._prepare(report)
        if self.writings:
            span = Span(self.context.lake.log("changes"), after, upto)
            again = self._replay(span) if self.context.options.mode == "replay" else {}
            self._write(span, "ok", changes, again, report)
        if self.partitions:
            report.details[MADE_FROM] = self.partitions
        self._tell_names(report)
        self.sizes.tell(report, "outbox")

    def begin(self, span: Span, changes: int, report: StageReport) -> None:
        """Write the rows that a new target begins with.

        Args:
            span: of `changes`, what brought them.
            changes: how many they are.
            report: gets the counts of the target.

        Raises:
            ReconciliationError: the messages do not account for every row.
        """
        self._prepare(report)
        self._start_over()
        self._write(span, BOOTSTRAP, changes, {}, report)
        self._tell_names(report)
        self.sizes.tell(report, "outbox")

    def begin_with_every_change(
        self, changes: DataFrame, schemas: dict[str, TableSchema], report: StageReport
    ) -> None:
        """Write every change that there ever was for a new target.

        Each stands in a batch of its own batch's name with that of this one behind it.

        Args:
            changes: accepted changes in their order, in the columns of `CHANGE` and with `batch`.
            schemas: their schemas by id.
            report: gets the counts of the target, and how many changes there were.

        Raises:
            ReconciliationError: the messages do not account for every change.
        """
        self._prepare(report)
        self._start_over()
        (writing,) = self.writings
        self._check_names(schemas.values())
        tally = Tally(self.context.spark.sparkContext)
        suffix, sizes = self.context.batch, self.sizes

        def encode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            count, last = 0, None
            for rows in batches:
                count += rows.num_rows
                for batch, own in of_batches(rows):
                    if batch != last:
                        last, work = batch, writing.batches(f"{batch}-{suffix}", schemas)
                    yield from work.convert(iter([own.select(CHANGE.names)]))
            tally.add_of_task(changes=count)

        self.branch.append_made(changes, lambda found: sizes.of(encode(found)), OUTBOX)
        report.rows_in = report.rows_out = tally.totals["changes"]
        self._account_for(report.rows_in, {}, report)
        self._tell_names(report)
        self.sizes.tell(report, "outbox")

    def _start_over(self) -> None:
        """Forget what targets refused that begin now, having been taken out of the migration.

        What they begin with has those changes, or newer ones of the same rows: a replay must not
        send the older ones behind them.
        """
        base, lake = self.branch.base, self.context.lake
        labels = [writing.label for writing in self.writings]
        wanted = {"outcome": ["refused"], "target": labels}
        refused = lake.scan(self.branch.table, ("target",), wanted, base)
        if base is None or next(refused, None) is None:
            return
        self._take_out_of_quarantine(labels)

    def _take_out_of_quarantine(self, labels: Iterable[str]) -> None:
        self.branch.sql(
            "UPDATE {branch} SET outcome = 'replayed' WHERE outcome = 'refused' AND target IN "
            f"({', '.join(map(literal, labels))})"
        )

    def _tell_names(self, report: StageReport) -> None:
        if self.names:
            report.details[NAMES] = self.names

    def _prepare(self, report: StageReport) -> None:
        report.details["targets"] = {}
        labels = {writing.label for writing in self.writings}
        marks = marks_of(self.context.spec).items()
        report.details[WRITTEN_AS] = {label: mark for label, mark in marks if label in labels}
        for writing in self.writings:
            if writing.mapping.renames and writing.label not in self.names:
                at_first = writing.names_at_first(self._had(writing.label))
                self.names[writing.label] = at_first
        id_settings = {writing.label: writing.settings.of_ids() for writing in self.writings}
        if any(id_settings.values()):
            report.details[IDS_WRITTEN] = {label: ids for label, ids in id_settings.items() if ids}

    def _check_names(self, schemas: Iterable[TableSchema]) -> None:
        """See that no target gives two tables one name, of this batch or those before.

        Raises:
            ConfigurationError: one does.
        """
        for writing in self.writings:
            names = writing.check_names(schemas, self.names.get(writing.label))
            if names is not None:
                self.names[writing.label] = names

    def _write(
        self,
        span: Span,
        outcome: str,
        changes: int,
        again: dict[str, Again],
        report: StageReport,
    ) -> None:
        lake = self.context.lake
        if again:
            report.details[TRIED_AGAIN] = True
            report.details["encoded_again"] = {
                label: found.refused - found.written for label, found in again.items()
            }
        if not changes and not again:
            return
        self.context.progress(
            "convert: %s to encode for %s",
            counted(changes, "change"),
            ", ".join(writing.label for writing in self.writings),
        )
        known_schemas = lake.few_rows(span, SCHEMA_COLUMNS, {"outcome": ["schema"]})
        schemas = schemas_of((row["schema_id"], row["extra"]) for row in known_schemas)
        self._check_names(schemas.values())
        if changes:
            accepted = lake.task_rows(span, CHANGE, {"outcome": [outcome]})
            with lake.batches_by_rows(span):
                encode = accepted.through(self._encode(schemas, self.writings))
                self.branch.append_made(accepted.handed, encode, OUTBOX)
        self._account_for(changes, again, report)

    def _account_for(self, changes: int, again: dict[str, Again], report: StageReport) -> None:
        """Count what became of changes at every target."""
        targets = report.details["targets"]
        written = self._counted()
        made_ids = self._made_ids(written)
        for writing in self.writings:
            label = writing.label
            found = again.get(label, Again())
            came = changes + found.refused
            account, losses = _account(report, label, came, found.written, written.get(label, []))
            targets[label] = account
            if losses:
                report.losses[label] = losses
            made = made_ids[label].counts() if label in made_ids else {}
            if made:
                report.made_ids[label] = made
            refused = sum(account["refused"].values())
            if refused:
                # The change was accepted, and so stands among the rows that came out.
                report.extra_in[f"refused by target {label}"] = refused
                for kind, count in account["refused"].items():
                    add(report.refused, kind, count)

    def _replay(self, span: Span) -> dict[str, Again]:
        """Encode once more what targets refused.

        Args:
            span: of `changes`, what the batch encodes anyway.

        Returns:
            How many changes that were, by target.
        """
        if self.branch.base is None:
            return {}
        lake = self.context.lake
        labels = [writing.label for writing in self.writings]
        before = lake.read(self.branch.table, self.branch.base).where(F.col("target").isin(*labels))
        refused = (
            before.where("outcome = 'refused'").select("target", *CHANGE_PLACE).distinct().persist()
        )
        counts = _by_target(refused)
        if not counts:
            return {}
        wanted = self._still_refused(before, refused, span).persist()
        left = _by_target(wanted)
        log = lake.read(span.table)
        place = list(CHANGE_PLACE)
        found = log.where(ACCEPTED).join(wanted.select(*place), place, "left_semi")
        # A full run brings a change again: one of them is taken, and if they differ, the last.
        changes = newest_rows(found, CHANGE_PLACE, lake.commits(span.table)).select(*CHANGE.names)
        changes = changes.persist()
        ids = changes.select("schema_id").distinct()
        schemas = schemas_in(log.where("outcome = 'schema'").join(ids, "schema_id", "left_semi"))
        self.context.progress(
            "convert: %s to encode again", counted(sum(left.values()), "refused message")
        )
        self._take_out_of_quarantine(counts)
        for writing in self.writings:
            if writing.label in left:
                own = wanted.where(F.col("target") == writing.label).select(*place)
                mine = changes.join(own, place, "left_semi").select(*CHANGE.names)
                self.branch.append_made(mine, self._encode(schemas, (writing,)), OUTBOX)
        for frame in (changes, wanted, refused):
            frame.unpersist()
        return {label: Again(count, count - left.get(label, 0)) for label, count in counts.items()}

    def _still_refused(self, before: DataFrame, refused: DataFrame, span: Span) -> DataFrame:
        """Of changes that targets refused, those that a replay has to encode, by target and place.

        A later batch may have written one (a full run after the cause was fixed), and this batch
        may be about to.

        Args:
            before: rows of the outbox.
            refused: target and place of the changes.
            span: of `changes`, what the batch encodes anyway.
        """
        lake, key = self.context.lake, ["target", *CHANGE_PLACE]
        # One row of every batch that met the change: its first message, or what was instead of it.
        met = before.where("outcome <> 'replayed' AND message = 0").join(refused, key, "left_semi")
        last = newest_rows(met, key, lake.commits(self.branch.table))
        still = last.where("outcome = 'refused'").select(*key)
        if span.empty:
            return still
        here = lake.increment(*span).where("outcome = 'ok'").select(*CHANGE_PLACE)
        return still.join(here, list(CHANGE_PLACE), "left_anti").select(*key)

    def _encode(self, schemas: dict[str, TableSchema], writings: tuple[EncodePlan, ...]) -> Make:
        """From batches of `changes` to batches of `outbox`, in a task."""
        batch_id, sizes = self.context.batch, self.sizes

        def encode(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
            works = [writing.batches(batch_id, schemas) for writing in writings]
            written = (work.convert(iter([batch])) for batch in batches for work in works)
            return sizes.of(chain.from_iterable(written))

        return encode

    def _counted(self) -> dict[str, list[Wrote]]:
        """What was written, by target."""
        few = self.branch.few_written(COUNTED)
        by_target: dict[str, list[Wrote]] = {}
        for row in self._counted_by_query() if few is None else _counted_here(few):
            by_target.setdefault(row.target, []).append(row)
        return by_target

    def _counted_by_query(self) -> Iterator[Wrote]:
        # Where the position became an id, it matters from which topic and partitions it came.
        made_in = F.when(F.array_contains("losses", WITHIN_PARTITION), F.col("topic"))
        rows = self.branch.added().withColumn("made_in", made_in)
        counts = rows.groupBy("target", "outcome", "reason_kind", "losses", "made_in").agg(
            F.count("*").alias("rows"),
            F.count_if(F.col("message") > 0).alias("further"),
            F.min("partition").alias("first"),
            F.max("partition").alias("last"),
        )
        return (Wrote(**row.asDict()) for row in counts.collect())

    def _made_ids(self, written: dict[str, list[Wrote]]) -> dict[str, MadeIds]:
        """The ids that were made for each target."""
        made: dict[str, MadeIds] = {}
        for label, rows in written.items():
            ids = made[label] = MadeIds(dict(self.partitions))
            for row in rows:
                partition = row.first if row.first == row.last else None
                for name in MADE_IDS.intersection(row.losses or ()):
                    ids.count(name, row.made_in or "", partition, row.rows)
            self.partitions = ids.partitions
        return made


def of_batches(rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Rows by the batch that they name, one batch after the other."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column: Any = rows.column("batch")
    for batch in dict.fromkeys(column.to_pylist()):
        yield batch, rows.filter(pc.equal(column, pa.scalar(batch)))


def _counted_here(rows: pa.Table) -> Iterator[Wrote]:
    """What a query would count in rows with the columns of `COUNTED`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    joined: Any = pc.binary_join(rows.column("losses"), "\n")
    losses = joined.combine_chunks().dictionary_encode()
    lists = [text.split("\n") if text else [] for text in losses.dictionary.to_pylist()]
    within = pa.array([WITHIN_PARTITION in names for names in lists], pa.bool_())
    further: Any = pc.greater(rows.column("message"), pa.scalar(0, pa.int32()))
    columns: dict[str, Any] = {
        **{name: rows.column(name) for name in ("target", "outcome", "reason_kind", "partition")},
        "losses": losses.indices,
        "made_in": pc.if_else(within.take(losses.indices), rows.column("topic"), None),
        "further": further.cast(pa.int64()),
    }
    groups = pa.table(columns).group_by(["target", "outcome", "reason_kind", "losses", "made_in"])
    counts: list[Any] = [([], "count_all"), ("further", "sum")]
    counts += [("partition", "min"), ("partition", "max")]
    for row in groups.aggregate(counts).to_pylist():
        yield Wrote(
            *(row["target"], row["outcome"], row["reason_kind"]),
            None if row["losses"] is None else lists[row["losses"]],
            *(row["made_in"], row["count_all"], row["further_sum"] or 0),
            *(row["partition_min"], row["partition_max"]),
        )


def _by_target(rows: DataFrame) -> dict[str, int]:
    """How many rows each target has."""
    return {row.target: row["count"] for row in rows.groupBy("target").count().collect()}


def _account(
    report: StageReport, label: str, changes: int, written: int, rows: list[Wrote]
) -> tuple[dict[str, Any], dict[str, int]]:
    """What became of the changes at one target, as plain data, and what it could not carry.

    Args:
        report: of the stage.
        label: the target's name.
        changes: how many there were for it.
        written: those of them that a replay left out.
        rows: what the batch wrote for it, counted.
    """
    account = StageReport(f"{report.stage} for {label}", report.batch, rows_in=changes)
    if written:
        account.skipped[WRITTEN] = written
    losses: dict[str, int] = {}
    for row in rows:
        if row.outcome == "ok":
            account.rows_out += row.rows
        elif row.outcome == "refused":
            add(account.refused, row.reason_kind, row.rows)
        else:
            add(account.skipped, row.reason_kind or NO_WORD, row.rows)
        if row.further:
            add(account.extra_in, FURTHER_MESSAGES, row.further)
        for name in lost_of(row.losses or ()):
            add(losses, name, row.rows)
    account.reconcile()
    data = {
        "changes": changes,
        "messages": account.rows_out,
        "extra_in": account.extra_in,
        "refused": account.refused,
        "skipped": account.skipped,
    }
    return data, losses
