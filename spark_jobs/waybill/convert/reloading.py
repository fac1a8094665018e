"""Some tables once more, from the archive: what mode `reload` decodes, and what it replaces.

While the archive has every message, the batch of a reload has every change that its tables are made
of, so the merge makes them of nothing else (`waybill.lake.rebuilt_rows`). Where messages or changes
were deleted, or a message that a table has rows of is none of its changes any more
(`waybill.convert.brought_again`), the changes come beside those of before, and older ones lose
against what is there. Of single keys see `waybill.convert.reloading_keys`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from waybill.batches.kept_tables import KeptTables
from waybill.convert.brought_again import (
    NAME,
    NOT_THERE,
    QUALIFIED,
    ambiguous,
    not_brought,
    now_read_as,
)
from waybill.convert.reloading_keys import KeysReload
from waybill.counting import counted
from waybill.lake.local_rows import local_rows
from waybill.lake.names import literal
from waybill.lake.newest_rows import newest_rows
from waybill.lake.rebuilt_rows import ADDED_TO, RebuiltTables, without
from waybill.lake.replaced_changes import Replaced
from waybill.lake_columns import (
    CHANGES,
    MESSAGE_PLACE,
    REBUILT,
    REBUILT_KEYS,
    TABLE_PARTS,
    dotted_name,
)
from waybill.mapping.rules import fits, spellings
from waybill.spark_tasks.counters import Tally
from waybill.spark_tasks.errors import unwrapped
from waybill.spark_tasks.worker_startup import light

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from waybill.lake import Branch
    from waybill.report import StageReport
    from waybill.spark_tasks.worker_startup import Make
    from waybill.stage_context import StageContext

RELOADED = "rows of reloaded tables"

_TAKEN = "outcome IN ('ok', 'waiting')"
_OF_TABLES = "outcome IN ('ok', 'waiting', 'skipped') AND nullif(`table`, '') IS NOT NULL"
_REPLACE_ALL = (
    "to replace them, load a dump of the table with `as_of` under `full:`, or continue under a "
    "new migration name"
)


class BatchReload:
    """What a batch takes once more; of any other batch nothing.

    Args:
        context: of the stage.
        branch: of `changes`.
    """

    def __init__(self, context: StageContext, branch: Branch) -> None:
        self.context = context
        self.branch = branch
        self._before = RebuiltTables(context.lake, branch.base)
        self._keys = KeysReload(context, branch, self._before.counting)
        self._replaced: list[Replaced] = []
        self._names: list[str] = []
        self._added_to: list[str] = []
        self.rebuilt: list[str] = []
        """The tables that the batch rebuilds, from nothing that earlier batches brought."""

    def counting(self, rows: DataFrame) -> DataFrame:
        """The rows of `changes` that count, as the batch leaves them."""
        return without(rows, [*self._before.replaced, *self._replaced, *self._keys.replaced])

    def take(
        self,
        upto: int | None,
        settle: Callable[[Callable[[], None]], None],
        decode: Callable[[Tally], Make],
        columns: pa.Schema,
        report: StageReport,
        pairs: bool,
    ) -> None:
        """Decode the archive once more, and keep the rows of the tables that are asked for.

        Args:
            upto: snapshot of the archive up to which everything was decoded before.
            settle: calls what decodes, perhaps twice (`ColumnHistories.settle`).
            decode: makes what decodes, in tasks.
            columns: what it reads of a message.
            report: gets the counts.
            pairs: whether updates may come in two halves.
        """
        tables = self.context.options.tables
        if upto is None:
            return
        if self.context.keys is not None:
            given = (upto, settle, decode, columns, report, pairs)
            report.extra_in[RELOADED] = self._keys.take(*given)
            return
        lake = self.context.lake
        archive = lake.log("archive")
        self.context.progress("convert: the archive is decoded again for %s", ", ".join(tables))
        there = lake.read(archive, upto)
        # A full run brings a message again: one of them is taken, and if they differ, the last.
        every = newest_rows(there, MESSAGE_PLACE, lake.commits(archive)).select(*columns.names)
        tally, counts, met = (Tally(self.context.spark.sparkContext) for _ in range(3))

        def write() -> None:
            make = decode(tally)

            def chosen(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                kept = KeptTables(tables)
                yield from kept.of(make(batches))
                counts.add_of_task(kept=kept.rows)
                met.add(dict.fromkeys(kept.met, 1))

            self.branch.append_made(every, chosen, CHANGES)

        settle(write)
        report.extra_in[RELOADED] = counts.totals["kept"]
        names, since = sorted(met.counts), lake.kept_since(archive)
        if since is None:
            cut = self._without_all_changes(names, report)
            whole = [name for name in names if name not in cut]
            self._added_to = sorted(
                {*cut, *self._not_whole(whole, there, every, decode, pairs, report)}
            )
            self.rebuilt = [name for name in names if name not in self._added_to]
            self._replace(self.rebuilt)
        else:
            self._added_to = names
        self._say_what_stays({*names}, since, report)

    def _without_all_changes(self, names: list[str], report: StageReport) -> list[str]:
        """The tables of which nothing shows whether the batch brings all that they came from.

        Args:
            names: the tables that it brings.
            report: gets a warning of each.
        """
        found = []
        for name in names:
            since = self.context.lake.changes_since(name)
            if since is not None:
                found.append(name)
                report.warnings.append(
                    f"{name} cannot be rebuilt: retention has deleted changes of batches that "
                    f"ended before {since}, so the archive may lack messages that its rows came "
                    "from; they stay, and older or repeated changes do not alter them: "
                    f"{_REPLACE_ALL}"
                )
        return found

    def _not_whole(
        self,
        names: list[str],
        there: DataFrame,
        every: DataFrame,
        decode: Callable[[Tally], Make],
        pairs: bool,
        report: StageReport,
    ) -> list[str]:
        """The tables that have rows of messages that the batch does not bring as their changes.

        Args:
            names: the tables that it brings.
            there: the archive.
            every: its messages as the batch has decoded them, one for each place.
            decode: as for `take`.
            pairs: as for `take`.
            report: gets a warning of each.
        """
        if self.branch.base is None or not names:
            return []
        is_one = F.expr(QUALIFIED).isin(names)
        log = self.context.lake.read(self.branch.table, self.branch.base)
        # What was replaced before is not in the tables.
        old = self.counting(log.where(_TAKEN).where(is_one))
        new = self.branch.added().where("outcome <> 'schema'").where(is_one)
        missing, several = (
            not_brought(old, new, pairs),
            ambiguous(old.withColumn(NAME, F.expr(QUALIFIED)), there, NAME),
        )
        reasons = self._read_as([one.first for one in missing.values()], every, decode)
        for name in sorted({*missing, *several}):
            if name in missing:
                one = missing[name]
                why = (
                    f"{counted(one.number, 'message')} that its rows came from no "
                    f"longer {'decodes' if one.number == 1 else 'decode'} to a change of it, the "
                    f"first at {one.place}, which {reasons.get(one.first, NOT_THERE)}"
                )
                way_out = (
                    "find out what changed in the migration's file or its schemas, revert it "
                    f"and reload again, or, {_REPLACE_ALL}"
                )
            else:
                why = (
                    f"the archive has several different messages at "
                    f"{counted(several[name].number, 'place')} that its rows came from, the first "
                    f"{several[name].place}, and it is unknown which of them counts"
                )
                way_out = _REPLACE_ALL
            report.warnings.append(
                f"{name} cannot be rebuilt: {why}; its rows stay, and older or repeated changes do "
                f"not alter them: {way_out}"
            )
        return sorted({*missing, *several})

    def _read_as(
        self,
        places: list[tuple[str, int, int]],
        every: DataFrame,
        decode: Callable[[Tally], Make],
    ) -> Mapping[tuple[str, int, int], str]:
        """What a few messages of the archive are now."""
        if not places:
            return {}
        spark = self.context.spark
        few = local_rows(spark, places, "topic string, partition int, offset long")
        messages = every.join(F.broadcast(few), [*MESSAGE_PLACE], "left_semi").select(
            *every.columns
        )
        made = light(decode(Tally(spark.sparkContext)))
        rows = messages.mapInArrow(made, from_arrow_schema(CHANGES)).where("outcome <> 'schema'")
        shown = (*MESSAGE_PLACE, F.expr(QUALIFIED).alias(NAME), "outcome", "reason_kind", "reason")
        with unwrapped():
            found = rows.select(*shown).collect()
        for row in found:
            if row.outcome == "refused" and row.reason:
                # The log alone: its readers may see refused messages, those of reports may not.
                place = "/".join(map(str, (row.topic, row.partition, row.offset)))
                self.context.progress("convert: %s is refused now: %s", place, row.reason)
        return now_read_as(found)

    def _replace(self, names: list[str]) -> None:
        """Forget what earlier batches brought of tables."""
        if self.branch.base is None or not names:
            return
        log = self.context.lake.read(self.branch.table, self.branch.base)
        mine = log.where(_OF_TABLES).where(F.expr(QUALIFIED).isin(names))
        found = mine.select(*TABLE_PARTS, "batch", (F.col("outcome") == "waiting").alias("half"))
        rows = found.distinct().collect()
        batch = self.context.batch
        known = {one[:4] for one in self._before.replaced if one.key is None}
        brought = {tuple(row)[:-1] for row in rows}
        self._replaced = [
            Replaced(database, schema, table, name, batch)
            for database, schema, table, name in sorted(brought - known, key=str)
        ]
        self._names = sorted({dotted_name(one[:3]) for one in brought})
        if any(row.half for row in rows):
            # The batch has these halves again, and they are to meet as they are decoded now.
            listed = ", ".join(map(literal, names))
            self.branch.sql(
                "DELETE FROM {branch} WHERE outcome = 'waiting' AND batch <> {batch} "
                f"AND {QUALIFIED} IN ({listed})",
                {"batch": batch},
            )
        if self._names:
            self.context.progress("convert: rebuilding %s", counted(len(self._names), "table"))

    def _say_what_stays(self, met: set[str], since: str | None, report: StageReport) -> None:
        """Warn of tables of the lake that the batch does not rebuild, though they are named."""
        lake, tables = self.context.lake, self.context.options.tables
        named = [name for name in lake.merged_tables() if fits(spellings(name), tables)]
        unmet = sorted(set(named) - met)
        if unmet:
            report.warnings.append(
                f"no message of the archive is of {', '.join(unmet)} as the migration maps them "
                "now, so the lake keeps the existing rows under that name"
            )
        if since is None:
            return
        sentence = (
            f"the archive no longer has published messages of batches that ended before {since}, "
            "so the reload has only later messages"
        )
        if met.intersection(named):
            sentence += (
                f", and {', '.join(sorted(met.intersection(named)))} cannot be rebuilt: "
                "existing rows stay, and older or repeated changes do not alter them; a dump of "
                "the table with `as_of` under `full:` replaces them (docs/operating.md)"
            )
        report.warnings.append(sentence)

    def tell(self, report: StageReport) -> None:
        """Write down what the batch has replaced; call it when all its rows are counted."""
        batches = {**self._before.batches, **dict.fromkeys(self._names, self.context.batch)}
        if batches:
            report.details[REBUILT] = batches
        of_keys = {**self._before.of_keys, **dict.fromkeys(self._keys.names, self.context.batch)}
        if of_keys:
            report.details[REBUILT_KEYS] = of_keys
        # One that is rebuilt has no other changes any more.
        added_to = {*self._before.added_to, *self._added_to}.difference(self._names)
        if added_to:
            report.details[ADDED_TO] = sorted(added_to)
        rows = []
        for one in [*self._replaced, *self._keys.replaced]:
            values = dict.fromkeys(CHANGES.names)
            names = {"database": one.database, "schema": one.schema, "table": one.table}
            values |= {**names, "batch": one.batch, "reason": one.by, "outcome": REBUILT}
            values["key"] = one.key
            rows.append([*values.values()])
        self.branch.append_rows(rows, CHANGES)
