"""`changes` to `outbox`: every accepted change in the envelope of each target."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from waybill.convert.decode import add, schemas_in
from waybill.envelopes.batch import CHANGE, MessageBatches
from waybill.lake import Span
from waybill.lake.names import literal
from waybill.lake.row_sizes import RowSizes
from waybill.layout import OUTBOX
from waybill.report import StageReport

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Row

    from waybill.context import StageContext
    from waybill.convert.plan import Writing
    from waybill.lake import Branch
    from waybill.records import TableSchema
    from waybill.task_start import Make

FURTHER_MESSAGES = "further messages of a change"
NO_WORD = "the target has no word for it"


class Encoding:
    """One batch's way from `changes` to a branch of `outbox`."""

    def __init__(
        self, context: StageContext, writings: tuple[Writing, ...], branch: Branch
    ) -> None:
        self.context = context
        self.writings = writings
        self.branch = branch
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
        """
        targets = report.details["targets"] = {}
        if self.writings:
            self._write(after, upto, changes, targets, report)
        self.sizes.tell(report, "outbox")

    def _write(
        self,
        after: int | None,
        upto: int | None,
        changes: int,
        targets: dict[str, Any],
        report: StageReport,
    ) -> None:
        again = self._replay() if self.context.options.mode == "replay" else {}
        if again:
            report.details["encoded_again"] = again
        if not changes and not again:
            return
        lake = self.context.lake
        self.context.progress(
            "convert: %d changes to encode for %s",
            changes,
            ", ".join(writing.label for writing in self.writings),
        )
        log = lake.log("changes")
        span = Span(log, after, upto)
        schemas = schemas_in(lake.increment(*span).where("outcome = 'schema'"))
        if changes:
            accepted = lake.task_rows(span, CHANGE, {"outcome": ["ok"]})
            with lake.batches_by_rows(span):
                encode = accepted.through(self._encode(schemas, self.writings))
                self.branch.append_made(accepted.handed, encode, OUTBOX)
        counted = self._counted()
        for writing in self.writings:
            label = writing.label
            came = changes + again.get(label, 0)
            account, losses = _account(report, label, came, counted.get(label, []))
            targets[label] = account
            if losses:
                report.losses[label] = losses
            refused = sum(account["refused"].values())
            if refused:
                # The change was accepted, and so stands among the rows that came out.
                report.extra_in[f"refused by target {label}"] = refused
                for kind, count in account["refused"].items():
                    add(report.refused, kind, count)

    def _replay(self) -> dict[str, int]:
        """Encode once more what targets refused; how many changes that were, by target."""
        if self.branch.base is None:
            return {}
        lake = self.context.lake
        place = ["topic", "partition", "offset", "index"]
        labels = [writing.label for writing in self.writings]
        before = lake.read(self.branch.table, self.branch.base)
        refused = before.where("outcome = 'refused'").where(F.col("target").isin(*labels))
        counts = {row.target: row["count"] for row in refused.groupBy("target").count().collect()}
        if not counts:
            return {}
        log = lake.read(lake.log("changes"))
        places = refused.select("target", *place).persist()
        changes = log.where("outcome = 'ok'").join(places.select(*place), place, "left_semi")
        changes = changes.select(*CHANGE.names).persist()
        ids = changes.select("schema_id").distinct()
        schemas = schemas_in(log.where("outcome = 'schema'").join(ids, "schema_id", "left_semi"))
        self.context.progress("convert: %d refused messages to encode again", sum(counts.values()))
        self.branch.sql(
            "UPDATE {branch} SET outcome = 'replayed' WHERE outcome = 'refused' AND target IN "
            f"({', '.join(literal(label) for label in counts)})"
        )
        for writing in self.writings:
            if writing.label in counts:
                own = places.where(F.col("target") == writing.label).select(*place)
                mine = changes.join(own, place, "left_semi").select(*CHANGE.names)
                self.branch.append_made(mine, self._encode(schemas, (writing,)), OUTBOX)
        changes.unpersist()
        places.unpersist()
        return counts

    def _encode(self, schemas: dict[str, TableSchema], writings: tuple[Writing, ...]) -> Make:
        """From batches of `changes` to batches of `outbox`, in a task."""
        batch_id, sizes = self.context.batch, self.sizes

        def encode(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
            works = [
                MessageBatches(writing.encoder(), writing.label, batch_id, schemas)
                for writing in writings
            ]
            written = (work.convert(iter([batch])) for batch in batches for work in works)
            return sizes.of(chain.from_iterable(written))

        return encode

    def _counted(self) -> dict[str, list[Row]]:
        grouped = self.branch.added().groupBy("target", "outcome", "reason_kind", "losses")
        counted = grouped.agg(
            F.count("*").alias("rows"), F.count_if(F.col("message") > 0).alias("further")
        )
        by_target: dict[str, list[Row]] = {}
        for row in counted.collect():
            by_target.setdefault(row.target, []).append(row)
        return by_target


def _account(
    report: StageReport, label: str, changes: int, rows: list[Row]
) -> tuple[dict[str, Any], dict[str, int]]:
    """What became of the changes at one target, as plain data, and what it could not carry."""
    account = StageReport(f"{report.stage} for {label}", report.batch, rows_in=changes)
    losses: dict[str, int] = {}
    for row in rows:
        if row.outcome == "ok":
            account.rows_out += row.rows
        elif row.outcome == "refused":
            add(account.refused, row.reason_kind, row.rows)
        else:
            add(account.skipped, NO_WORD, row.rows)
        if row.further:
            add(account.extra_in, FURTHER_MESSAGES, row.further)
        for name in row.losses or ():
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
