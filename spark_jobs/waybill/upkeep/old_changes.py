"""Which rows of `changes` nobody needs any more, once their batches are merged and published.

The log is more than a record: what comes later is decided by what came before. Of tables with a key
whose rows have rested on their newest change alone, a change may go that a newer one of its row
has hidden. Whatever comes, however late, the rest makes the same rows of it, or the merge says that
it cannot (`waybill.merge.key_changes`). So these stay:

- of each row the newest change, and its last DELETE, unless its table was emptied since. Of what
  came then every INSERT and row that was read, as these hide what older changes may bring yet. Rows
  that ever had another key keep all changes;
- all changes of tables without a key, which are counted, of tables that several became, of which
  statements empty one, of tables whose rows rest on several changes or whose columns have other
  names now, and of those that wait for a decision;
- updates, if the source sends them in two halves: a half that comes again is known by its update;
- statements, begins and ends of transactions, schemas, halves that wait, what reloads replaced;
- all of messages of which anything was refused, by the decoder, a target or a merged table: a
  replay takes it up, or looks at what was taken of the message before;
- of each table the lowest and the highest change with each schema, and of full rows the last one in
  each partition: statements that rename columns ask which names had come, and new targets how the
  newest changes describe their table;
- of each table and partition the highest sequence id at the end, and in front of every refused
  message and of every statement without an id: such a statement takes its place from it;
- everything since a transaction began that is open, or since a table began to wait.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from waybill.envelopes import registry
from waybill.lake.local_rows import local_rows
from waybill.lake.names import literal
from waybill.lake.rebuilt_rows import RebuiltTables
from waybill.lake_columns import BATCHES, BOOTSTRAP, CHANGE_PLACE, MESSAGE_PLACE
from waybill.merge.increment import NO_SEQUENCE, QUALIFIED, Increment
from waybill.merge.position import REFUSED, TRIED, position_of
from waybill.merge.transactions import TransactionVerdict
from waybill.order import CHANGE, FULL_ROW
from waybill.records import ROW_OPERATIONS
from waybill.report import STAGES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from waybill.lake import Branch, Lake
    from waybill.spec.migration import Migration

VALIDATE = STAGES[3]

ROW_PLACE = ("batch", "outcome", *CHANGE_PLACE)
"""What tells rows of `changes` apart."""

FROM_THE_BEGINNING = "something waits that goes on from the first batch"
OTHER_ORDER = "order.ambiguous is not what changes were merged by"
PLACED_FILES = "a file of the source may come late, with messages from in front of old ones"

MOST_CUTS = 1_000
"""Of more refused messages and statements without an id, no change with a sequence id goes."""

_OF_ROWS = f"operation IN ({', '.join(map(literal, sorted(ROW_OPERATIONS)))})"
_NUMBERED = f"order_key LIKE '{CHANGE}/%' AND NOT {NO_SEQUENCE}"


def why_all_stay(spec: Migration, lake: Lake) -> str | None:
    """Why no row of `changes` may go at all; None if some may."""
    files = spec.source.files
    if files is not None and files.layout in ("kcat", "parquet"):
        # Their messages have offsets of their own: those of a later file may be lower.
        return PLACED_FILES
    position = position_of(lake)
    if position.state.ordered_by_time not in (None, _by_time(spec)):
        return OTHER_ORDER
    return FROM_THE_BEGINNING if None in position.begins else None


def _by_time(spec: Migration) -> bool:
    return spec.order.ambiguous == "source_time"


def is_read(lake: Lake) -> bool:
    """Whether a new target begins with every change, so that the gate compares all of them."""
    changes, outbox = lake.log("changes"), lake.log("outbox")
    if lake.waiting(changes, BOOTSTRAP) or lake.waiting(outbox, BOOTSTRAP):
        return True
    judged = lake.last(lake.log("runs"), VALIDATE)
    after = None if judged is None else judged.cursor.get("outbox")
    return any(BATCHES in one.cursor for one in lake.between(outbox, after, None))


class OldChanges:
    """What may go of the changes of some batches.

    Args:
        spec: the migration.
        lake: its lake, of which some changes may go (`why_all_stay`).
        branch: of `changes`.
    """

    def __init__(self, spec: Migration, lake: Lake, branch: Branch) -> None:
        self.spec, self.lake = spec, lake
        self.position = position_of(lake)
        by_time = _by_time(spec)
        increment = Increment(lake, self.position.changes, self.position.changes, by_time)
        increment.verdict = TransactionVerdict(
            self.position.state.open, gone=self.position.state.rolled_back
        )
        self.by_time = by_time
        self.rows = branch.read()
        own = {"qualified": F.expr(QUALIFIED), "_order": F.expr(increment.order)}
        of_rows = f"outcome = 'ok' AND {_OF_ROWS}"
        counting = RebuiltTables(lake, lake.newest(branch.table)).counting(self.rows)
        self.taken = counting.where(of_rows).withColumns(own)
        # Less what transactions hold back, and what no visible merge has taken yet.
        self.merged = increment.merged_before().where(of_rows).withColumns(own)

    def needed_batches(self) -> frozenset[str]:
        """The batches of which everything stays, because merges go on from there."""
        table = self.lake.log("changes")
        return frozenset(
            commit.batch
            for begin in self.position.begins
            for commit in self.lake.between(table, begin, None)
        )

    def unneeded(self, batches: Collection[str]) -> DataFrame:
        """The rows of batches that may go.

        What hides a change is of these batches, too, so that all of it is old.

        Returns:
            `ROW_PLACE`; of changes of rows also `qualified`, and `newest`, the order of the newest
            change of the row.
        """
        spark, names = self.rows.sparkSession, self._tables()
        old = F.broadcast(local_rows(spark, [(batch,) for batch in batches], "batch string"))
        others = self.rows.where(F.col("outcome").isin("skipped", BOOTSTRAP))
        nothing = F.lit(None).cast("string")
        others = others.join(old, "batch", "left_semi").select(
            *ROW_PLACE, nothing.alias("qualified"), nothing.alias("newest")
        )
        if not names:
            return others.where("false")
        hidden = self._hidden(self.merged.join(old, "batch", "left_semi"), names)
        places, cuts = self._kept_places(), self._cuts()
        if not self.by_time:
            if cuts.limit(MOST_CUTS + 1).count() > MOST_CUTS:
                hidden = hidden.where(f"NOT ({_NUMBERED})")
            else:
                places.append(self._ahead_of(cuts))
        kept = reduce(DataFrame.unionByName, places).distinct()
        found = others.unionByName(hidden.select(*others.columns))
        return found.join(kept, list(MESSAGE_PLACE), "left_anti").distinct()

    def _tables(self) -> dict[str, str]:
        """The tables of whose rows the newest change has hidden all others so far.

        Each with the order of the statement that emptied it last.
        """
        joined_by = self.spec.mapping().joined_by
        state = self.position.state
        return {
            name: table.truncated
            for name, table in sorted(state.tables.items())
            if table.key
            and not (table.open_rows or table.renamed or name in state.held)
            and not set(joined_by).intersection(table.names)
        }

    def _hidden(self, rows: DataFrame, names: Mapping[str, str]) -> DataFrame:
        """Those of changes that others of their rows hide, whatever comes yet.

        Args:
            rows: the changes.
            names: as `_tables`.
        """
        key = ["qualified", "key"]
        moves = self.taken.where("old_key IS NOT NULL")
        moved = moves.select("qualified", F.explode(F.array("key", "old_key")).alias("key"))
        tables = local_rows(rows.sparkSession, names.items(), "qualified string, _emptied string")
        rows = rows.join(F.broadcast(tables), "qualified").where("key IS NOT NULL")
        rows = rows.join(self._refused_changes(), ["qualified", *CHANGE_PLACE], "left_anti")
        rows = rows.join(moved.distinct(), key, "left_anti")
        deleted = F.max(F.expr("CASE WHEN operation = 'delete' THEN _order ELSE _emptied END"))
        ends = rows.groupBy(*key).agg(F.max("_order").alias("newest"), deleted.alias("_ended"))
        rows = rows.join(ends, key)
        stays = (
            "_order IN (newest, _ended) OR (_order > _ended AND operation IN ('insert', 'read'))"
        )
        if registry.get(self.spec.source.envelope).pairs:
            stays += " OR operation = 'update'"
        return rows.where(f"NOT ({stays})")

    def _refused_changes(self) -> DataFrame:
        """Changes that merged tables have refused, which they have nothing of.

        A replay may have found that newer changes hide them by now.
        """
        merges = self.lake.read(self.lake.log("merges")).where(F.col("kind").isin(*TRIED))
        return merges.select(F.col("table").alias("qualified"), *CHANGE_PLACE).distinct()

    def _kept_places(self) -> list[DataFrame]:
        """Places of messages of which all changes stay."""
        outbox, merges = (self.lake.read(self.lake.log(name)) for name in ("outbox", "merges"))
        refused = [frame.where(F.col("outcome").isin(*TRIED)) for frame in (self.rows, outbox)]
        refused.append(merges.where(F.col("kind").isin(*TRIED)))
        schema = ("qualified", "schema_id")
        full = self.taken.where(f"order_key LIKE '{FULL_ROW}/%'")
        return [
            *(found.select(*MESSAGE_PLACE) for found in refused),
            _ends(self.merged, schema, "_order", lowest=True),
            _ends(self.taken, schema, "_order"),
            _ends(full, ("topic", "partition", *schema), "offset"),
        ]

    def _cuts(self) -> DataFrame:
        """Places of statements that are ordered by what is in front of them, now or later.

        A message that was refused may turn out to be one.
        """
        alone = f"outcome = 'ok' AND operation IN ('truncate', 'ddl') AND {NO_SEQUENCE}"
        cuts = self.rows.where(f"outcome = '{REFUSED}' OR ({alone})")
        return cuts.select(*MESSAGE_PLACE).distinct()

    def _ahead_of(self, cuts: DataFrame) -> DataFrame:
        """Places of the changes with the highest ids in front of cuts, and at the end."""
        place = ["topic", "partition"]
        own = cuts.groupBy(*place).agg(F.collect_set("offset").alias("cuts"))
        number = F.expr("if(cuts IS NULL, 0, size(filter(cuts, at -> at <= `offset`)))")
        rows = self.taken.where(_NUMBERED).join(F.broadcast(own), place, "left")
        return _ends(rows.withColumn("cut", number), (*place, "qualified", "cut"), "order_key")


def _ends(rows: DataFrame, by: Sequence[str], order: str, lowest: bool = False) -> DataFrame:
    """The places of the last rows of groups, and of the first ones where these are asked for.

    Args:
        rows: of `changes`.
        by: the columns that the rows of a group share.
        order: the column that they are ordered by.
        lowest: whether the first ones are asked for, too.
    """
    place = F.struct(F.col(order).alias("at"), *(F.col(name) for name in MESSAGE_PLACE))
    ends = [F.max(place), F.min(place)] if lowest else [F.max(place)]
    found = rows.groupBy(*by).agg(F.array(*ends).alias("ends"))
    places = found.select(F.explode("ends").alias("end"))
    return places.select(*(F.col(f"end.{name}").alias(name) for name in MESSAGE_PLACE))
