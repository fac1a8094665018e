"""Keys whose newest image does not decide the row: how they are found and folded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from waybill.counting import counted
from waybill.errors import ReconciliationError
from waybill.lake.local_rows import local_rows
from waybill.lake_columns import CHANGE_PLACE
from waybill.merge import columns as own
from waybill.merge.exact_casts import misfit
from waybill.merge.key_chains import fold_chains
from waybill.merge.key_changes import Place, Resolver
from waybill.merge.position import REFUSED
from waybill.merge.short_images import full_image_sql, names_sql
from waybill.merge.spark_rows import Stored, json_text
from waybill.merge.typed_columns import typed, value_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from waybill.lake import Branch, Lake
    from waybill.merge.increment import Increment
    from waybill.merge.rules import Change
    from waybill.merge.state import TableState

FEW = 10_000
"""So many keys start over on the driver; of more of them only those that key changes touched."""

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


def stored_rows(lake: Lake, branch: Branch) -> DataFrame:
    """The rows of a merged table under the short names of `Stored`.

    Also `names`, JSON with the columns of their images, for which no other columns are read.
    """
    rows = branch.read()
    return rows.select(
        F.col(own.KEY).alias("key"),
        F.col(own.ORDER).alias("order"),
        (~F.col(own.DELETED)).alias("live"),
        F.expr(full_image_sql(lake, branch.table, rows)).alias("image"),
        F.col(own.SOURCES).alias("sources"),
        F.expr(names_sql(own.IMAGE)).alias("names"),
    )


def refused_rows(batch: str, qualified: str, frame: DataFrame) -> DataFrame:
    """Refused changes (key, order, image, place, reason) in the columns of `MERGES`."""
    return frame.select(
        F.lit(batch).alias("batch"),
        F.lit(REFUSED).alias("kind"),
        F.lit(qualified).alias("table"),
        "key",
        F.col("order").alias("order_key"),
        *CHANGE_PLACE,
        F.lit("column").alias("reason_kind"),
        "reason",
        F.col("image").alias("body"),
    )


class Settling:
    """Settles keys of one table that need more than their newest image.

    Args:
        branch: the branch that is written.
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
        self.increment = increment
        self.batch = batch
        self.spark = increment.lake.spark
        self.stored = partial(stored_rows, increment.lake, branch)
        self.resolver = Resolver(qualified, state, increment, self.stored)
        self._refuse = refuse
        # Rows of several keys may show one change that does not fit.
        self._refused_places: set[Place] = set()

    def keys_to_refold(
        self, reached: str | None, late_columns: Mapping[str, str], moves: bool
    ) -> DataFrame | None:
        """The keys that have to be folded again from the log, None if there are none.

        See `TableMerge.merge` for its arguments.
        """
        found = []
        if self.state.open_rows:
            found.append(self.resolver.late(reached))
        if late_columns and not self.branch.begins_empty:
            found.append(self.resolver.lacking(late_columns))
        if moves:
            found.append(self._keys(self.increment.crossing(self.qualified)))
            without = self.resolver.moved_without_default(reached)
            if without is not None:
                found.append(without)
        if not found:
            return None
        keys = reduce(DataFrame.union, found).distinct().persist()
        if not keys.isEmpty():
            return keys
        keys.unpersist()
        return None

    def part(self, frame: DataFrame, forced: bool = False) -> DataFrame:
        """Settled rows, typed, as they are written; forced ones whatever stands there."""
        values = [value_name(i) for i in range(len(self.state.columns))]
        return frame.select(*Stored._fields, *values, F.lit(forced).alias("forced"))

    def chained(self, keys: DataFrame, effects: DataFrame, outcome: Outcome) -> DataFrame:
        """Keys whose changes have to be folded key by key."""
        own_effects = effects.where(F.col("qualified") == self.qualified)
        result = fold_chains(
            own_effects.join(keys, "key", "left_semi"),
            self.stored().join(keys, "key", "left_semi"),
            self.state,
        ).persist()
        rows = self._settled(result, outcome)
        outcome.refused += self._refuse(self._refused(result.where("kind = 'refused'")))
        return self.part(rows)

    def _settled(self, result: DataFrame, outcome: Outcome) -> DataFrame:
        """The rows of keys that were folded, typed."""
        rows = typed(result.where("kind = 'row'"), self.state.columns)
        seen = rows.agg(
            F.count_if("misfit").alias("misfits"), F.count("sources").alias("open")
        ).collect()[0]
        if seen.misfits:
            message = (
                f"{counted(seen.misfits, 'row')} of {self.qualified} found to fit by one reading "
                "and not by the other; "
                "nothing was committed: please report this with the refused values"
            )
            raise ReconciliationError(message)
        outcome.open_rows = outcome.open_rows or seen.open > 0
        return rows

    def refolded(self, keys: DataFrame, outcome: Outcome) -> tuple[list[DataFrame], int]:
        """Keys that are folded again from the log; also how many of them got no newer change."""
        if keys.count() <= FEW:
            part, unchanged = self._replayed({row.key for row in keys.collect()}, outcome)
            return [part], unchanged
        moved = self.resolver.moved(keys)
        alone, unchanged = self._folded(keys.join(self._keys(moved), "key", "left_anti"), outcome)
        if not moved:
            return [alone], unchanged
        part, more = self._replayed(moved, outcome)
        return [alone, part], unchanged + more

    def _folded(self, keys: DataFrame, outcome: Outcome) -> tuple[DataFrame, int]:
        """Keys that no key change ever touched, any number of them."""
        history = self.resolver.every_effect(keys)
        nothing = local_rows(self.spark, [], STORED_DDL)
        result = fold_chains(history, nothing, self.state).persist()
        refused = self.resolver.came(result.where("kind = 'refused'"))
        outcome.refused += self._refuse(self._refused(refused))
        rows = self._settled(result, outcome)
        there = self.stored().select("key", "order")
        unchanged = rows.join(there, ["key", "order"], "left_semi").count()
        return self.part(rows, forced=True), unchanged

    def _replayed(self, keys: set[str], outcome: Outcome) -> tuple[DataFrame, int]:
        """Few keys, which key changes may have touched."""
        rows, odd = self.resolver.replay(keys)
        orders = self.resolver.orders(keys)
        unchanged = sum(orders.get(key) == row.order for key, row in rows.items())
        outcome.refused += self.refuse(odd)
        outcome.open_rows = outcome.open_rows or any(row.sources for row in rows.values())
        frame = local_rows(self.spark, rows.values(), STORED_DDL)
        return self.part(typed(frame, self.state.columns), forced=True), unchanged

    def refuse(self, refused: list[Change]) -> int:
        """Keep changes that do not fit, each once; returns how many they are."""
        rows = [
            (c.key, c.order, json_text(c.image or {}), *c.place, reason)
            for c in refused
            if c.place not in self._refused_places
            and (reason := misfit(c.image or {}, self.state.columns))
        ]
        self._refused_places |= {change.place for change in refused}
        if not rows:
            return 0
        ddl = (
            "key string, `order` string, image string, topic string, `partition` int, "
            "offset bigint, `index` int, reason string"
        )
        return self._refuse(self._refused(local_rows(self.spark, rows, ddl)))

    def _refused(self, frame: DataFrame) -> DataFrame:
        return refused_rows(self.batch, self.qualified, frame)

    def _keys(self, keys: set[str]) -> DataFrame:
        return local_rows(self.spark, [(key,) for key in sorted(keys)], "key string")
