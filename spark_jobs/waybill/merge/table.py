"""One source table: its columns, its branch, its statements, one MERGE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from waybill.errors import Code, SchemaChangeError
from waybill.lake.local_rows import local_rows
from waybill.lake.names import literal, quoted
from waybill.merge import columns as own
from waybill.merge import writing
from waybill.merge.exact_casts import fits
from waybill.merge.key_changes import leaves_out
from waybill.merge.multi_change_keys import Outcome, Settling
from waybill.merge.rewriting import without_old
from waybill.merge.short_images import (
    MAP_OF_TEXTS,
    MARK,
    STATED,
    full_image_sql,
    may_be_short,
    names_sql,
    written_image,
)
from waybill.merge.spark_rows import json_text
from waybill.merge.typed_columns import typed, value_name
from waybill.values.lake_values import value_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from waybill.lake import Branch
    from waybill.merge.columns import MergedColumn
    from waybill.merge.increment import Increment
    from waybill.merge.state import Default, TableState


WIDE = 100
"""A table of more columns is typed twice: to judge its rows, and to write them. Spark compiles no
plan of more fields (`spark.sql.codegen.maxFields`), and to keep that many typed values between the
two costs more time and memory than to make them again."""


class TableMerge:
    """Merges the increment into one table.

    Args:
        branch: the branch to write.
        qualified: the source table.
        state: what is known of it, this batch included.
        increment: the batch.
        batch: its id.
        refuse: keeps refused changes, in the columns of `waybill.lake_columns.MERGES`.
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
        self.batch = batch
        self.lake = increment.lake
        self.settling = Settling(branch, qualified, state, increment, batch, refuse)

    # What goes.

    def forget(self, keys: Collection[str]) -> int:
        """Take away the rows and tombstones of keys that are rebuilt; returns how many there were.

        As if none of their changes had come yet: those that count are in the increment.
        """
        if self.branch.begins_empty:
            return 0
        rows = [(key,) for key in sorted(keys)]
        return writing.delete_rows(self.branch, local_rows(self.lake.spark, rows, "key string"))

    # Statements.

    def truncate(self) -> None:
        """Take away every row and tombstone below the newest TRUNCATE."""
        if not self.branch.begins_empty:
            self.branch.sql(
                f"DELETE FROM {{branch}} WHERE {own.ORDER} < {{order}}",
                {"order": self.state.truncated},
            )

    def add_default(self, default: Default) -> None:
        """Give a new column's default to the rows that are older than the statement.

        Raises:
            SchemaChangeError: the column cannot hold it.
        """
        if self.branch.begins_empty:
            return
        image, columns, member = own.IMAGE, own.IMAGE, "{member}"
        if may_be_short(self.lake.metadata(self.branch.table).properties):
            columns = names_sql(image)
            member = f"if(startswith({image}, '{MARK}'), {{stated}}, {{member}})"
        assignments = [
            f"{image} = concat(substr({image}, 1, length({image}) - 1), "
            f"if({columns} = '{{}}', '', ','), {member}, '}}')"
        ]
        column = self._column(default.column)
        if column is not None:
            if not fits(default.text, column.type):
                message = (
                    f"the default {default.text!r} of column {column.name} of {self.qualified} "
                    f"does not fit its type {column.type}: declare another type under tables:"
                )
                raise SchemaChangeError(message, code=Code.COLUMN_DEFAULT)
            assignments.append(f"{quoted(column.lake)} = {value_sql('{text}', column.type)}")
        self.branch.sql(
            f"UPDATE {{branch}} SET {', '.join(assignments)} WHERE NOT {own.DELETED} "
            f"AND {own.ORDER} < {{order}} "
            f"AND NOT array_contains(json_object_keys({columns}), {{name}})",
            {
                "order": default.order,
                "name": default.column,
                "text": default.text,
                "member": json_text({default.column: default.text})[1:-1],
                "stated": json_text({default.column: f"{STATED}{default.text}"})[1:-1],
            },
        )

    def fill(self, column: MergedColumn) -> None:
        """Fill a column that is new in the lake from images that have it already."""
        image = full_image_sql(self.lake, self.branch.table, self.branch.read())
        text = f"from_json({image}, {MAP_OF_TEXTS})[{{name}}]"
        self.branch.sql(
            f"UPDATE {{branch}} SET {quoted(column.lake)} = {value_sql(text, column.type)} "
            f"WHERE NOT {own.DELETED} AND "
            f"array_contains(json_object_keys({names_sql(own.IMAGE)}), {{name}})",
            {"name": column.name},
        )

    def _column(self, name: str) -> MergedColumn | None:
        return next((column for column in self.state.columns if column.name == name), None)

    # Rows.

    def merge(
        self,
        newest: DataFrame,
        effects: DataFrame,
        few: bool,
        reached: str | None,
        late_columns: Mapping[str, str],
        moves: bool,
    ) -> Outcome:
        """Settle every key that the increment touches and MERGE the result into the branch.

        Args:
            newest: the newest effect of each key.
            effects: all effects, for the keys that need more than the newest.
            few: whether they are few, see `writing.FEW`.
            reached: lowest order of the batch's new TRUNCATE or default, if it has one.
            late_columns: columns that the batch may bring to rows that lack them, with the order up
                to which rows may (`TablePlan.late_columns`).
            moves: whether rows got other keys.
        """
        outcome = Outcome(open_rows=self.state.open_rows)
        refolded = self.settling.keys_to_refold(reached, late_columns, moves)
        if self.state.truncated:
            newest = newest.where(F.col("order") > self.state.truncated)
        candidates = typed(newest, self.state.columns)
        candidates = candidates.withColumn("unsettled", F.expr(self._unsettled()))
        wide = len(self.state.columns) > WIDE
        if wide:
            candidates = candidates.select(*newest.columns, "unsettled")
        if refolded is not None:
            candidates = candidates.join(refolded, "key", "left_anti")
        candidates = candidates.persist()
        settled = candidates.where("NOT unsettled")
        parts = [self.settling.part(typed(settled, self.state.columns) if wide else settled)]
        try:
            unsettled = candidates.where("unsettled").select("key")
            if not unsettled.isEmpty():
                parts.append(self.settling.chained(unsettled, effects, outcome))
            unchanged = 0
            if refolded is not None:
                more, unchanged = self.settling.refolded(refolded, outcome)
                parts += more
            source = parts[0]
            for part in parts[1:]:
                source = source.unionByName(part)
            outcome.out = self._write(source, few and refolded is None) - unchanged
        finally:
            candidates.unpersist()
            if refolded is not None:
                refolded.unpersist()
        return outcome

    def merge_doubtful(self, winners: pa.Table | None, effects: DataFrame) -> Outcome:
        """Settle what tasks left out when they merged the table.

        Args:
            winners: the newest effects of some keys (`upsert.winners.WINNERS`).
            effects: all effects of the batch that keep their row's key.
        """
        if winners is None:
            return Outcome(open_rows=self.state.open_rows)
        names = ["key", "order", "live", "image", "whole"]
        newest = self.lake.spark.createDataFrame(winners.select(names))
        newest = newest.withColumn("qualified", F.lit(self.qualified))
        newest = newest.withColumn("sources", F.lit(None).cast("string"))
        own_effects = effects.where(F.col("qualified") == self.qualified)
        mine = own_effects.join(F.broadcast(newest.select("key")), "key", "left_semi")
        return self.merge(newest, mine, True, None, {}, False)

    def _unsettled(self) -> str:
        """SQL: the newest image alone does not decide the row."""
        defaults = self.state.defaults
        older = max((default.order for default in defaults), default="")
        reasons = ["misfit", f"(lacks AND (NOT whole OR `order` < {literal(older)}))"]
        # No row has brought the column yet, so it is not missed: its default goes to rows before
        # the statement, and shows through images of later changes that leave the column out.
        reasons += [
            f"(live AND (NOT whole OR `order` < {literal(default.order)}) "
            f"AND {leaves_out(default)})"
            for default in defaults
            if default.column not in self.state.names
        ]
        return " OR ".join(reasons)

    def _rows_before(self) -> int:
        """How many rows and tombstones the table had before the batch, about."""
        return self.lake.added_rows(self.branch.table, None, self.branch.base)

    def _write(self, source: DataFrame, few: bool) -> int:
        """Write rows; returns how many were new or newer than what was there (or forced)."""
        names = [value_name(i) for i in range(len(self.state.columns))]
        image = written_image(self.lake, self.branch, self.state.columns, names)
        targets = {
            own.KEY: F.col("key"),
            own.ORDER: F.col("order"),
            own.DELETED: ~F.col("live"),
            own.IMAGE: F.expr(image),
            own.SOURCES: F.col("sources"),
            own.BATCH: F.lit(self.batch),
            own.GONE: F.when(~F.col("live"), F.lit(own.BY_CHANGE)),
            **{c.lake: F.col(value_name(i)) for i, c in enumerate(self.state.columns)},
            **without_old(self.branch),
        }
        if self.branch.begins_empty:
            return self.branch.append(source.select(*(v.alias(n) for n, v in targets.items())))
        assignments = ", ".join(f"t.{quoted(name)} = s.c{i}" for i, name in enumerate(targets))
        newer = f"(s.c1 > t.{own.ORDER} OR s.forced) THEN UPDATE SET {assignments}"
        if few and self._rows_before() >= writing.MANY:
            return writing.merge_few(self.branch, source, targets, "forced", newer)
        summary = writing.merge_rows(self.branch, source, targets, "forced", newer)
        return sum(
            int(summary.get(f"spark.merge-into.num-target-rows-{effect}", 0))
            for effect in ("inserted", "updated")
        )
