"""Tables without a key: every row as often as it was put there and not taken away again.

Which row of several equal ones a change meant cannot be known and does not matter: an image counts
up, a row before counts down, in any order, so a delete that arrives before its insert is owed.
A change counts once: it is known by its sequence id, or by its position where it has none. So is a
row of a snapshot or a reload, because all rows of one may share a sequence id.

In the lake the n-th of equal rows has the key `{"row": <hash of its values>, "n": n}`; what is
owed stands there as tombstones with n below zero. The log tells which changes were counted before:
all but those that stand as refused in `merges`. Where a reload has brought changes beside those of
before, one message may have become two changes, and the first counts. So the work of a batch grows
with the increment and the log of the table, and with nothing else; a TRUNCATE, a new column with
a default or a dropped column recounts the log of the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from waybill.full_load import TOPIC
from waybill.lake.names import literal
from waybill.lake.newest_rows import first_rows
from waybill.lake_columns import CHANGE_PLACE
from waybill.merge import columns as own
from waybill.merge.rewriting import without_old
from waybill.merge.short_images import MAP_OF_TEXTS, written_image
from waybill.merge.typed_columns import typed, value_name
from waybill.merge.writing import merge_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from waybill.lake import Branch
    from waybill.merge.increment import Increment
    from waybill.merge.table_plans import TablePlan

IDENTITY = (
    "CASE WHEN operation != 'read' AND split_part(order_key, '/', 2) != '' "
    "THEN concat(substring_index(order_key, '/', 3), '|', coalesce(before, ''), '|', "
    "coalesce(image, '')) ELSE concat(topic, '|', substring_index(order_key, '/', -1)) END"
)
"""SQL: what two deliveries of one change share. A sequence id that several rows of a transaction
have in common tells them apart no further than their images do. Rows that were read have one for
the whole table, so equal ones would be one: only their place tells them apart."""

_AS_MESSAGE = [*CHANGE_PLACE, "order_key"]
"""What tells a change, whatever a mapping has made of its values."""

NO_BEFORE = "a table without key needs the row before to change or delete one, and it is not there"
PART_OF_BEFORE = (
    "a table without key needs the whole row before to change or delete one, and the message "
    "leaves out a column of it"
)

_TAKES = "operation IN ('update', 'upsert', 'delete')"
"""SQL: a change that takes a row away."""


def _values(image: str) -> str:
    """SQL: the texts of an image by column."""
    return f"from_json({image}, {MAP_OF_TEXTS})"


_OLDER = f"map_filter({_values('before')}, (k, v) -> NOT map_contains_key({_values('image')}, k))"
_COMPLETED = (
    f"CASE WHEN {_TAKES} AND stated > 0 AND size({_values('image')}) < stated "
    f"THEN to_json(map_concat({_OLDER}, {_values('image')})) ELSE image END"
)
"""SQL: the row after, with what an update leaves as it was (`Change.columns` of the rules)."""


class BagMerge:
    """Merges the increment into one table without key.

    Args:
        branch: the branch to write.
        qualified: the source table.
        plan: what the batch means for it.
        increment: the batch.
        batch: its id.
        halves: whether updates may be of two messages, each with columns of its own.
    """

    def __init__(
        self,
        branch: Branch,
        qualified: str,
        plan: TablePlan,
        increment: Increment,
        batch: str,
        halves: bool = False,
    ) -> None:
        self.branch = branch
        self.qualified = qualified
        self.plan = plan
        self.state = plan.state
        self.increment = increment
        self.batch = batch
        self.spark = increment.lake.spark
        self.halves = halves
        # Another mapping may have made other values of the same change then.
        self._again = qualified in increment.rebuilt.added_to

    def merge(self) -> tuple[int, DataFrame]:
        """Count the increment into the table.

        Returns:
            How many changes counted, and those that were refused: key, order, image, place, reason
            (for `waybill.lake_columns.MERGES`).
        """
        came = self._judged(self.increment.pairs(self.qualified))
        new = self._new(came.where("reason IS NULL")).persist()
        out = new.count()
        plan = self.plan
        drops = self.state.dropped_below != plan.before.dropped_below
        reached = plan.reached is not None or bool(plan.to_fill or plan.renamings) or drops
        recounts = reached and not self.branch.begins_empty
        if recounts:
            self.branch.sql("DELETE FROM {branch}")
            every = self._judged(self.increment.pairs(self.qualified, history=True))
            counted = self._once(every.where("reason IS NULL"))
        else:
            counted = new
        self._write(self._balances(counted), empty=recounts or self.branch.begins_empty)
        new.unpersist()
        # Every delivery of a change: the log says that one was counted if it is not kept.
        refused = came.where("reason IS NOT NULL")
        return out, refused.select(
            F.lit("").alias("key"), "order", F.coalesce("image", "before").alias("image"),
            *CHANGE_PLACE, "reason",
        )  # fmt: skip

    def _newer(self, changes: DataFrame) -> DataFrame:
        """Changes that the newest TRUNCATE did not take away, and that no dump has."""
        newer = changes.where(F.col("order") > self.state.truncated)
        as_of = self.state.reloaded_at
        if as_of is None:
            return newer
        # In a table with a key the row of the dump and that of the change are one; here they count.
        there = (
            f"split_part(`order`, '/', 2) = {literal(as_of)} AND NOT startswith(topic, '{TOPIC}')"
        )
        return newer.where(f"NOT ({there})")

    def _judged(self, changes: DataFrame) -> DataFrame:
        """Changes with their identity, and why one cannot be counted."""
        frame = self._newer(changes).withColumn("identity", F.expr(IDENTITY))
        # Where none are stated there is nothing to hold the row against.
        frame = self._with_stated(frame).withColumn(
            "reason",
            F.expr(
                f"CASE WHEN {_TAKES} AND before IS NULL THEN '{NO_BEFORE}' "
                f"WHEN {_TAKES} AND stated > 0 AND size({_values('before')}) < stated "
                f"THEN '{PART_OF_BEFORE}' END"
            ),
        )
        for side in ("image", "before"):
            judged = frame.withColumnRenamed("image", "kept").withColumn(
                "image", F.col("kept" if side == "image" else side)
            )
            parsed = typed(judged.withColumn("live", F.lit(True)), self.state.columns)
            misfits = parsed.withColumn(
                "reason",
                F.expr(f"coalesce(reason, CASE WHEN misfit THEN '{_misfit(side)}' END)"),
            )
            frame = misfits.drop("image").withColumnRenamed("kept", "image").select(*frame.columns)
        return frame

    def _with_stated(self, changes: DataFrame) -> DataFrame:
        """Changes with `stated`: how many columns their messages state, and so their rows have.

        0 where that is not known, and of an update that may be of two messages: a column may have
        come or gone between them.
        """
        names = "size(from_json(extra, 'columns array<array<string>>').columns)"
        lake = self.increment.lake
        log = lake.read(lake.log("changes"), self.increment.upto).where("outcome = 'schema'")
        schemas = log.select("schema_id", F.expr(names).alias("n")).dropDuplicates(["schema_id"])
        both = "operation = 'update'" if self.halves else "false"
        return (
            changes.join(F.broadcast(schemas), "schema_id", "left")
            .withColumn("stated", F.expr(f"if({both}, 0, coalesce(n, 0))"))
            .drop("n")
        )

    def _new(self, changes: DataFrame) -> DataFrame:
        """Changes that no batch has counted, each once."""
        once = self._once(changes)
        if self.branch.begins_empty:
            return once
        log = self.increment.pairs(self.qualified, before=True)
        counted = log.select(F.expr(IDENTITY).alias("identity")).distinct()
        new = once.join(counted, "identity", "left_anti")
        return new.join(log.select(_AS_MESSAGE), _AS_MESSAGE, "left_anti") if self._again else new

    def _once(self, changes: DataFrame) -> DataFrame:
        """Changes, each once: where a mapping has made two of one message, the first."""
        if not self._again:
            return changes.dropDuplicates(["identity"])
        log = self.increment.lake.log("changes")
        commits = self.increment.lake.commits(log)
        return first_rows(changes, (["identity"], _AS_MESSAGE), commits)

    def _balances(self, changes: DataFrame) -> DataFrame:
        """By row: how often it was put there less how often it was taken away, if not equal."""
        put = changes.where("image IS NOT NULL").select(
            "order", F.expr(_COMPLETED).alias("image"), F.lit(1).alias("n")
        )
        taken = changes.where("before IS NOT NULL").select(
            "order", F.expr(self._taken()).alias("image"), F.lit(-1).alias("n")
        )
        frame = put.unionByName(taken).withColumn("row", F.expr(self._row()))
        counted = frame.groupBy(F.sha2("row", 256).alias("hash"), "row").agg(
            F.sum("n").alias("delta"), F.max("order").alias("order")
        )
        return counted.where("delta != 0")

    def _taken(self) -> str:
        """SQL: the row before, without what was dropped between the two messages of an update."""
        drops = ", ".join(map(literal, self.state.dropped_below))
        if not self.halves or not drops:
            return "before"
        there = f"NOT (k IN ({drops}) AND NOT map_contains_key({_values('image')}, k))"
        return (
            f"CASE WHEN operation = 'update' AND image IS NOT NULL "
            f"THEN to_json(map_filter({_values('before')}, (k, v) -> {there})) ELSE before END"
        )

    def _row(self) -> str:
        """SQL: the values of an image, those of one row always as the same text.

        A null and a column that is not there are the same; a new column's default is there, and no
        column that was dropped since.
        """
        values, drops = _values("image"), self.state.dropped_below
        if drops:
            gone = (
                f"(k = {literal(name)} AND `order` < {literal(order)})"
                for name, order in drops.items()
            )
            values = f"map_filter({values}, (k, v) -> NOT ({' OR '.join(gone)}))"
        for default in self.state.defaults:
            if default.order < drops.get(default.column, ""):
                continue
            name, text = literal(default.column), literal(default.text)
            values = (
                f"if(`order` < {literal(default.order)} AND NOT map_contains_key({values}, {name}),"
                f" map_concat({values}, map({name}, {text})), {values})"
            )
        return (
            "to_json(map_from_entries(array_sort(map_entries("
            f"map_filter({values}, (k, v) -> v IS NOT NULL)))))"
        )

    def _write(self, balances: DataFrame, empty: bool) -> None:
        frame = balances
        if empty:
            frame = frame.withColumn("have", F.lit(0))
        else:
            row = F.get_json_object(own.KEY, "$.row").alias("hash")
            there = self.branch.read().select(row, F.expr(f"if({own.DELETED}, -1, 1)").alias("n"))
            wanted = balances.select("hash")
            have = (
                there.join(wanted, "hash", "left_semi")
                .groupBy("hash")
                .agg(F.sum("n").alias("have"))
            )
            frame = frame.join(have, "hash", "left").fillna(0, ["have"])
        numbered = frame.withColumn("want", F.expr("have + delta")).select(
            "order",
            "row",
            "hash",
            F.explode(
                F.expr(
                    "concat("
                    + ", ".join(
                        (
                            _steps("greatest(have, 0) + 1", "want", "true"),
                            _steps("greatest(want, 0) + 1", "have", "false"),
                            _steps("want", "least(have, 0) - 1", "true"),
                            _steps("have", "least(want, 0) - 1", "false"),
                        )
                    )
                    + ")"
                )
            ).alias("step"),
        )
        rows = numbered.select(
            F.expr("to_json(named_struct('row', hash, 'n', cast(step.n AS string)))").alias("key"),
            "order",
            F.expr("step.n > 0").alias("live"),
            F.expr("step.there").alias("there"),
            F.col("row").alias("image"),
        )
        source = typed(rows, self.state.columns)
        names = [value_name(i) for i in range(len(self.state.columns))]
        image = written_image(self.increment.lake, self.branch, self.state.columns, names)
        values = {
            own.KEY: F.col("key"),
            own.ORDER: F.col("order"),
            own.DELETED: ~F.col("live"),
            # As every tombstone, what is owed shows no row.
            own.IMAGE: F.when(F.col("live"), F.expr(image)),
            own.SOURCES: F.lit(None).cast("string"),
            own.BATCH: F.lit(self.batch),
            own.GONE: F.lit(None).cast("string"),
            **{
                c.lake: F.when(F.col("live"), F.col(value_name(i)))
                for i, c in enumerate(self.state.columns)
            },
            **without_old(self.branch),
        }
        if empty:
            self.branch.append(source.select(*(v.alias(n) for n, v in values.items())))
            return
        merge_rows(self.branch, source, values, "there", "NOT s.there THEN DELETE", "s.there")


def _steps(first: str, last: str, there: str) -> str:
    """SQL: the numbers from one to another as steps; none where the first is the larger."""
    return (
        f"if({first} <= {last}, transform(sequence({first}, {last}), "
        f"n -> named_struct('n', n, 'there', {there})), array())"
    )


def _misfit(side: str) -> str:
    which = "the row before" if side == "before" else "the row"
    return f"{which} has a value that its column in the lake cannot hold"
