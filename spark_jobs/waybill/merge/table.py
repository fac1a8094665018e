"""One source table: its columns, its branch, its statements, one MERGE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from waybill.errors import ReconciliationError, SchemaChangeError
from waybill.lake.names import literal, quoted
from waybill.merge import columns as own
from waybill.merge.chains import fold_chains
from waybill.merge.effects import PLACE
from waybill.merge.fits import fits, value_sql
from waybill.merge.ledger import REFUSED
from waybill.merge.moves import Resolver
from waybill.merge.texts import Stored, json_text
from waybill.merge.typed import typed, value_name
from waybill.merge.writing import merge_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    from waybill.lake import Branch
    from waybill.merge.columns import Column
    from waybill.merge.increment import Increment
    from waybill.merge.rules import Change
    from waybill.merge.state import Default, TableState

STORED_DDL = "key string, `order` string, live boolean, image string, sources string"


@dataclass
class Outcome:
    """What a merge did to one table.

    Attributes:
        out: keys whose newest effect the batch brought.
        refused: how many changes were refused.
        open_rows: whether rows were written that rest on several changes.
    """

    out: int = 0
    refused: int = 0
    open_rows: bool = False


def stored_rows(branch: Branch) -> DataFrame:
    """The rows of a merged table under the short names of `Stored`."""
    return branch.read().select(
        F.col(own.KEY).alias("key"),
        F.col(own.ORDER).alias("order"),
        (~F.col(own.DELETED)).alias("live"),
        F.col(own.IMAGE).alias("image"),
        F.col(own.SOURCES).alias("sources"),
    )


def refused_rows(batch: str, qualified: str, frame: DataFrame) -> DataFrame:
    """Refused changes (key, order, image, place, reason) in the columns of `MERGES`."""
    return frame.select(
        F.lit(batch).alias("batch"),
        F.lit(REFUSED).alias("kind"),
        F.lit(qualified).alias("table"),
        "key",
        F.col("order").alias("order_key"),
        *PLACE,
        F.lit("column").alias("reason_kind"),
        "reason",
        F.col("image").alias("body"),
    )


class TableMerge:
    """Merges the increment into one table.

    Args:
        branch: the branch to write.
        qualified: the source table.
        state: what is known of it, this batch included.
        increment: the batch.
        batch: its id.
        refuse: keeps refused changes, in the columns of `waybill.layout.MERGES`.
    """

    def __init__(
        self,
        branch: Branch,
        qualified: str,
        state: TableState,
        increment: Increment,
        batch: str,
        refuse: Callable[[DataFrame], int],
    ) -> None:
        self.branch = branch
        self.qualified = qualified
        self.state = state
        self.increment = increment
        self.batch = batch
        self.refuse = refuse
        self.spark = increment.lake.spark
        self.resolver = Resolver(qualified, state, increment, lambda: stored_rows(branch))

    # Statements.

    def truncate(self) -> None:
        """Take away every row and tombstone below the newest TRUNCATE."""
        if self.branch.base is not None:
            self.branch.sql(
                f"DELETE FROM {{branch}} WHERE {own.ORDER} < {{order}}",
                {"order": self.state.truncated},
            )

    def add_default(self, default: Default) -> None:
        """Give a new column's default to the rows that are older than the statement.

        Raises:
            SchemaChangeError: the column cannot hold it.
        """
        if self.branch.base is None:
            return
        image = own.IMAGE
        assignments = [
            f"{image} = CASE {image} WHEN '{{}}' THEN concat('{{', {{member}}, '}}') "
            f"ELSE concat(substr({image}, 1, length({image}) - 1), ',', {{member}}, '}}') END"
        ]
        column = self._column(default.column)
        if column is not None:
            if not fits(default.text, column.type):
                message = (
                    f"the default {default.text!r} of column {column.name} of {self.qualified} "
                    f"does not fit its type {column.type}: declare another type under tables:"
                )
                raise SchemaChangeError(message)
            assignments.append(f"{quoted(column.lake)} = {value_sql('{text}', column.type)}")
        self.branch.sql(
            f"UPDATE {{branch}} SET {', '.join(assignments)} WHERE NOT {own.DELETED} "
            f"AND {own.ORDER} < {{order}} "
            f"AND NOT array_contains(json_object_keys({image}), {{name}})",
            {
                "order": default.order,
                "name": default.column,
                "text": default.text,
                "member": json_text({default.column: default.text})[1:-1],
            },
        )

    def fill(self, column: Column) -> None:
        """Fill a column that is new in the lake from images that have it already."""
        text = f"from_json({own.IMAGE}, 'map<string,string>')[{{name}}]"
        self.branch.sql(
            f"UPDATE {{branch}} SET {quoted(column.lake)} = {value_sql(text, column.type)} "
            f"WHERE NOT {own.DELETED} AND array_contains(json_object_keys({own.IMAGE}), {{name}})",
            {"name": column.name},
        )

    def _column(self, name: str) -> Column | None:
        return next((column for column in self.state.columns if column.name == name), None)

    # Rows.

    def merge(
        self,
        newest: DataFrame,
        effects: DataFrame,
        reached: str | None,
        late_columns: Mapping[str, str],
        moves: bool,
    ) -> Outcome:
        """Settle every key that the increment touches and MERGE the result into the branch.

        Args:
            newest: the newest effect of each key.
            effects: all effects, for the keys that need more than the newest.
            reached: lowest order of the batch's new TRUNCATE or default, if it has one.
            late_columns: columns that the batch may bring to rows that lack them, with the order up
                to which rows may (`TablePlan.late_columns`).
            moves: whether rows got other keys.
        """
        outcome = Outcome(open_rows=self.state.open_rows)
        late = self.resolver.late(reached) if self.state.open_rows else set()
        if late_columns and self.branch.base is not None:
            late |= self.resolver.lacking(late_columns)
        if moves:
            late |= self.increment.crossing(self.qualified)
        if self.state.truncated:
            newest = newest.where(F.col("order") > self.state.truncated)
        candidates = typed(newest, self.state.columns)
        candidates = candidates.withColumn("unsettled", F.expr(self._unsettled()))
        if late:
            candidates = candidates.join(F.broadcast(self._keys(late)), "key", "left_anti")
        candidates = candidates.persist()
        parts = [self._part(candidates.where("NOT unsettled"))]
        try:
            unsettled = candidates.where("unsettled").select("key")
            if not unsettled.isEmpty():
                parts.append(self._chained(unsettled, effects, outcome))
            unchanged = 0
            if late:
                part, unchanged = self._replayed(late, outcome)
                parts.append(part)
            source = parts[0]
            for part in parts[1:]:
                source = source.unionByName(part)
            outcome.out = self._write(source) - unchanged
        finally:
            candidates.unpersist()
        return outcome

    def _unsettled(self) -> str:
        """SQL: the newest image alone does not decide the row."""
        older = max((default.order for default in self.state.defaults), default="")
        return f"misfit OR (lacks AND (NOT whole OR `order` < {literal(older)}))"

    def _part(self, frame: DataFrame, forced: bool = False) -> DataFrame:
        values = [value_name(i) for i in range(len(self.state.columns))]
        return frame.select(*Stored._fields, *values, F.lit(forced).alias("forced"))

    def _chained(self, keys: DataFrame, effects: DataFrame, outcome: Outcome) -> DataFrame:
        """Keys whose changes have to be folded one by one."""
        own_effects = effects.where(F.col("qualified") == self.qualified)
        result = fold_chains(
            own_effects.join(keys, "key", "left_semi"),
            stored_rows(self.branch).join(keys, "key", "left_semi"),
            self.state,
        ).persist()
        rows = typed(result.where("kind = 'row'"), self.state.columns)
        seen = rows.agg(
            F.count_if("misfit").alias("misfits"), F.count("sources").alias("open")
        ).collect()[0]
        if seen.misfits:
            message = (
                f"{seen.misfits} rows of {self.qualified} fit by one reading and not by the other; "
                "nothing was committed: please report this with the refused values"
            )
            raise ReconciliationError(message)
        refused = result.where("kind = 'refused'")
        outcome.refused += self.refuse(self._refused(refused))
        outcome.open_rows = outcome.open_rows or seen.open > 0
        return self._part(rows)

    def _replayed(self, keys: set[str], outcome: Outcome) -> tuple[DataFrame, int]:
        """Keys that start anew from the log; also how many of them got no newer change."""
        rows, misfits = self.resolver.replay(keys)
        orders = self.resolver.orders(keys)
        unchanged = sum(orders.get(key) == row.order for key, row in rows.items())
        newer = [
            (change, reason)
            for change, reason in misfits
            if change.key not in rows or change.order > rows[change.key].order
        ]
        if newer:
            outcome.refused += self.refuse(self.refused_changes(newer))
        outcome.open_rows = outcome.open_rows or any(row.sources for row in rows.values())
        frame = self.spark.createDataFrame(list(rows.values()), STORED_DDL)
        return self._part(typed(frame, self.state.columns), forced=True), unchanged

    def refused_changes(self, refused: list[tuple[Change, str]]) -> DataFrame:
        """Refused changes as rows of `merges`."""
        rows = [
            (c.key, c.order, json_text(c.image or {}), *c.place, reason) for c, reason in refused
        ]
        ddl = (
            "key string, `order` string, image string, topic string, `partition` int, "
            "offset bigint, `index` int, reason string"
        )
        return self._refused(self.spark.createDataFrame(rows, ddl))

    def _refused(self, frame: DataFrame) -> DataFrame:
        return refused_rows(self.batch, self.qualified, frame)

    def _keys(self, keys: set[str]) -> DataFrame:
        return self.spark.createDataFrame([(key,) for key in sorted(keys)], "key string")

    def _write(self, source: DataFrame) -> int:
        """Write rows; returns how many were new or newer than what was there (or forced)."""
        targets = {
            own.KEY: F.col("key"),
            own.ORDER: F.col("order"),
            own.DELETED: ~F.col("live"),
            own.IMAGE: F.col("image"),
            own.SOURCES: F.col("sources"),
            own.BATCH: F.lit(self.batch),
            own.GONE: F.when(~F.col("live"), F.lit(own.BY_CHANGE)),
            **{c.lake: F.col(value_name(i)) for i, c in enumerate(self.state.columns)},
        }
        if self.branch.base is None:
            return self.branch.append(source.select(*(v.alias(n) for n, v in targets.items())))
        assignments = ", ".join(f"t.{quoted(name)} = s.c{i}" for i, name in enumerate(targets))
        newer = f"(s.c1 > t.{own.ORDER} OR s.forced)"
        summary = merge_rows(
            self.branch, source, targets, "forced", f"{newer} THEN UPDATE SET {assignments}"
        )
        return sum(
            int(summary.get(f"spark.merge-into.num-target-rows-{effect}", 0))
            for effect in ("inserted", "updated")
        )
