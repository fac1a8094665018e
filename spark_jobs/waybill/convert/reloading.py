"""Some tables once more, from the archive: what mode `reload` decodes, and what it replaces.

While the archive has every message, the batch of a reload has every change that its tables are made
of, so the merge makes them of nothing else (`waybill.lake.rebuilt_rows`). Where messages were
deleted, the changes come beside those of before, and older ones lose against what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from waybill.batches.kept_tables import KeptTables
from waybill.counting import counted
from waybill.lake.names import literal
from waybill.lake.newest_rows import newest_rows
from waybill.lake.rebuilt_rows import ADDED_TO, RebuiltTables, without
from waybill.lake.replaced_changes import Replaced
from waybill.lake.table_properties import kept_since
from waybill.lake_columns import CHANGES, MESSAGE_PLACE, REBUILT
from waybill.mapping.rules import fits
from waybill.spark_tasks.counters import Tally

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from waybill.lake import Branch
    from waybill.report import StageReport
    from waybill.spark_tasks.worker_startup import Make
    from waybill.stage_context import StageContext

RELOADED = "rows of tables that are loaded again"

_NAMES = ("database", "schema", "table")
_QUALIFIED = "concat_ws('.', `database`, `schema`, `table`)"
_OF_TABLES = "outcome IN ('ok', 'waiting', 'skipped') AND nullif(`table`, '') IS NOT NULL"


class Reload:
    """What a batch takes once more; of any other batch nothing.

    Args:
        context: of the stage.
        branch: of `changes`.
    """

    def __init__(self, context: StageContext, branch: Branch) -> None:
        self.context = context
        self.branch = branch
        self._before = RebuiltTables(context.lake, branch.base)
        self._replaced: list[Replaced] = []
        self._names: list[str] = []
        self._added_to: list[str] = []

    def counting(self, rows: DataFrame) -> DataFrame:
        """The rows of `changes` that count, as the batch leaves them."""
        if not self._before.batches and not self._replaced:
            return rows
        return without(rows, [*self._before.replaced, *self._replaced])

    def take(
        self,
        upto: int | None,
        settle: Callable[[Callable[[], None]], None],
        decode: Callable[[Tally], Make],
        columns: pa.Schema,
        report: StageReport,
    ) -> None:
        """Decode the archive once more, and keep the rows of the tables that are asked for.

        Args:
            upto: snapshot of the archive up to which everything was decoded before.
            settle: calls what decodes, perhaps twice (`ColumnHistories.settle`).
            decode: makes what decodes, in tasks.
            columns: what it reads of a message.
            report: gets the counts.
        """
        tables = self.context.options.tables
        if upto is None:
            return
        lake = self.context.lake
        archive = lake.log("archive")
        self.context.progress("convert: the archive is decoded again for %s", ", ".join(tables))
        # A full run brings a message again: one of them is taken, and if they differ, the last.
        every = newest_rows(lake.read(archive, upto), MESSAGE_PLACE, lake.commits(archive))
        tally, counts, met = (Tally(self.context.spark.sparkContext) for _ in range(3))

        def write() -> None:
            make = decode(tally)

            def chosen(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                kept = KeptTables(tables)
                yield from kept.of(make(batches))
                counts.add_of_task(kept=kept.rows)
                met.add(dict.fromkeys(kept.met, 1))

            self.branch.append_made(every.select(*columns.names), chosen, CHANGES)

        settle(write)
        report.extra_in[RELOADED] = counts.totals["kept"]
        since = kept_since(lake.properties(archive))
        if since is None:
            self._replace(sorted(met.counts))
        else:
            self._added_to = sorted(met.counts)
        self._say_what_stays({*met.counts}, since, report)

    def _replace(self, names: list[str]) -> None:
        """Let go of what earlier batches brought of tables."""
        if self.branch.base is None or not names:
            return
        log = self.context.lake.read(self.branch.table, self.branch.base)
        mine = log.where(_OF_TABLES).where(F.expr(_QUALIFIED).isin(names))
        found = mine.select(*_NAMES, "batch", (F.col("outcome") == "waiting").alias("half"))
        rows = found.distinct().collect()
        batch = self.context.batch
        brought = {tuple(row)[:-1] for row in rows if row.batch != batch}
        self._replaced = [
            Replaced(database, schema, table, name, batch)
            for database, schema, table, name in sorted(brought, key=str)
        ]
        self._names = sorted({_qualified(one) for one in self._replaced})
        if any(row.half for row in rows):
            # The batch has these halves again, and they are to meet as they are decoded now.
            listed = ", ".join(map(literal, names))
            self.branch.sql(
                "DELETE FROM {branch} WHERE outcome = 'waiting' AND batch <> {batch} "
                f"AND {_QUALIFIED} IN ({listed})",
                {"batch": batch},
            )
        if self._names:
            self.context.progress("convert: %s made anew", counted(len(self._names), "table is"))

    def _say_what_stays(self, met: set[str], since: str | None, report: StageReport) -> None:
        """Warn of tables of the lake that the batch does not make anew, though they are named."""
        lake, tables = self.context.lake, self.context.options.tables
        named = [name for name in lake.merged_tables() if fits(_spellings(name), tables)]
        unmet = sorted(set(named) - met)
        if unmet:
            report.warnings.append(
                f"no message of the archive is of {', '.join(unmet)} as the migration maps them "
                "now, so the lake keeps the rows that it has under that name"
            )
        if since is None:
            return
        sentence = (
            f"the archive has no published messages of batches that ended before {since} any "
            "more, so the tables are loaded again from what came later"
        )
        if met.intersection(named):
            sentence += (
                f", and {', '.join(sorted(met.intersection(named)))} cannot be made anew: rows "
                "that are there keep what older or the same changes gave them; a dump of the "
                "table with `as_of` under `full:` replaces them (docs/operating.md)"
            )
        report.warnings.append(sentence)

    def tell(self, report: StageReport) -> None:
        """Write down what the batch has replaced; call it when all its rows are counted."""
        batches = {**self._before.batches, **dict.fromkeys(self._names, self.context.batch)}
        if batches:
            report.details[REBUILT] = batches
        if self._added_to:
            report.details[ADDED_TO] = self._added_to
        rows = []
        for one in self._replaced:
            values = dict.fromkeys(CHANGES.names)
            names = {"database": one.database, "schema": one.schema, "table": one.table}
            values |= {**names, "batch": one.batch, "reason": one.by, "outcome": REBUILT}
            rows.append([*values.values()])
        self.branch.append_rows(rows, CHANGES)


def _qualified(one: Replaced) -> str:
    return ".".join(part for part in one[:3] if part is not None)


def _spellings(qualified: str) -> tuple[str, str]:
    """A table's name as a reload may have it: whole, or without its schema."""
    parts = qualified.split(".")
    return qualified, ".".join(dict.fromkeys((parts[0], parts[-1])))
