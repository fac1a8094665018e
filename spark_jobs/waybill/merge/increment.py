"""The increment: what `changes` brought since the last merge."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql import functions as F

from waybill.lake import Span
from waybill.lake.names import literal
from waybill.lake.rebuilt_rows import RebuiltTables
from waybill.lake.source_times import calendar_sql
from waybill.lake_columns import CHANGE_PLACE, SCHEMA_COLUMNS, TABLE_PARTS
from waybill.merge.increment_counts import HeldRows, Survey, TableSurvey, count
from waybill.merge.open_transactions import (
    CAME,
    arrived,
    brought_by,
    in_transactions,
    rows_since_begin,
    transaction_events,
)
from waybill.merge.position import REFUSED
from waybill.merge.renamed_texts import present_rows
from waybill.merge.transactions import (
    NAME_SQL,
    Came,
    Open,
    RolledBack,
    TransactionBoundary,
    TransactionVerdict,
    judge,
    name_of,
)
from waybill.merge.watermark import Reached, further
from waybill.order import order_number
from waybill.records import ROW_OPERATIONS, TableSchema
from waybill.spark_tasks.errors import unwrapped

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from pyspark.sql import DataFrame, Row

    from waybill.lake import Lake
    from waybill.merge.renamings import Renamings

QUALIFIED = "coalesce(nullif(concat_ws('.', `database`, `schema`, nullif(`table`, '')), ''), topic)"
"""SQL of the source table's name; a topic whose messages name no table is a table of its own."""

NO_SEQUENCE = "order_key LIKE '1//%'"
"""SQL: a change whose only order is its position. (See `waybill.order`.)"""


def order_sql(by_source_time: bool) -> str:
    """SQL of the order that the merge goes by.

    Args:
        by_source_time: changes without a sequence id take their source time for one.
    """
    if not by_source_time:
        return "order_key"
    digits = f"cast(greatest(unix_micros({calendar_sql('source_time')}), 0) AS string)"
    length = f"cast(length({digits}) AS string)"
    number = f"concat(length({length}), {length}, {digits})"
    none = order_number(0)
    return (
        f"CASE WHEN {NO_SEQUENCE} THEN concat('1/', coalesce({number}, '{none}'), "
        "substr(order_key, 3)) ELSE order_key END"
    )


class Increment:
    """The accepted changes between two snapshots of `changes`, and what waited until now.

    Args:
        lake: the lake.
        after: snapshot that was merged before, None at the beginning.
        upto: newest snapshot to take, None if there is none.
        by_source_time: see `order_sql`.

    Attributes:
        by_source_time: as given.
        order: SQL of the order that the merge goes by.
        verdict: which transactions are open, and what became of those that were.
        renamed: what statements renamed in tables; see `waybill.merge.renamings`.
        rebuilt: the tables that reloads have rebuilt.
    """

    def __init__(
        self, lake: Lake, after: int | None, upto: int | None, by_source_time: bool = False
    ) -> None:
        self.lake = lake
        self.after, self.upto = after, upto
        self.by_source_time = by_source_time
        self.order = order_sql(by_source_time)
        self._table = lake.log("changes")
        self.rebuilt = RebuiltTables(lake, upto)
        self._frame: DataFrame | None = None
        self.verdict = TransactionVerdict()
        self.renamed: dict[str, Renamings] = {}
        self._held_back = False
        self._returned: DataFrame | None = None
        self._replaying = False

    @property
    def untouched(self) -> bool:
        """Whether it is all of what `changes` brought and nothing else, in the log's own order."""
        return (
            self.upto is not None
            and self._returned is None
            and not self._held_back
            and not self.by_source_time
            and not self._has_replaced
        )

    @cached_property
    def _has_replaced(self) -> bool:
        """Whether some of what `changes` brought may count no more."""
        return self.rebuilt.has_both(self.after)

    @property
    def frame(self) -> DataFrame:
        """Its rows of `changes`; most batches need no query of them, and to plan one takes long."""
        if self._frame is None:
            came = self.lake.increment(self._table, self.after, self.upto)
            self._frame = self.rebuilt.counting(came) if self._has_replaced else came
        return self._frame

    def _log(self, after: int | None, upto: int | None) -> DataFrame:
        """The rows of `changes` that count, of some of its snapshots."""
        return self.rebuilt.counting(self.lake.increment(self._table, after, upto))

    def accepted(self) -> DataFrame:
        """Rows of `changes` that the merge takes."""
        assert self.upto is not None
        return self.frame.where("outcome = 'ok'")

    # Transactions.

    def hold_back(
        self,
        before: tuple[Open, ...],
        now: int,
        hold: bool = True,
        tables: Iterable[str] = (),
        longest: str | None = None,
        gone: tuple[RolledBack, ...] = (),
        replay: bool = False,
    ) -> HeldRows:
        """Leave out the rows of transactions that are open or rolled back, and bring in others.

        Args:
            before: transactions that were open before.
            now: seconds since 1970.
            hold: False lets go of everything that is open.
            tables: the source's names of the tables that are read; see `announced`.
            longest: how long a transaction may wait.
            gone: transactions that were rolled back before.
            replay: whether the batch brings messages that were refused when they were new.

        Returns:
            How many rows that concerns.
        """
        if self.upto is None:
            self.verdict = TransactionVerdict(before, gone=gone)
            return HeldRows()
        rows = self.accepted()
        events = transaction_events(rows, tables)
        if not hold:
            events = [e._replace(rows=None) for e in events if e.operation != "begin"]
            before = tuple(msgspec.structs.replace(t, count=None) for t in before)
            ended = {name_of(event.transaction) for event in events}
            events += [
                TransactionBoundary("", "commit", t.id)
                for t in before
                if name_of(t.id) not in ended
            ]
        self.verdict = verdict = judge(
            before,
            events,
            self.after,
            now,
            self._look,
            longest,
            gone,
            self._ends if replay else lambda _: (),
        )
        held, batches = HeldRows(), Counter[tuple[str, str]]()
        if verdict.hidden:
            mine = f"({self._held(verdict.open)} OR {in_transactions(verdict.rolled_back)})"
            found = self._by_name_and_batch(rows.where(mine))
            rolled_back = {members.name for members in verdict.rolled_back}
            batches.update({at: n for at, n in found.items() if at[0] in rolled_back})
            gone_rows = batches.total()
            held = HeldRows(found.total() - gone_rows, gone_rows)
            if found:
                self._held_back = True
                self._frame = self.frame.where(f"NOT coalesce({mine}, false)")
        if verdict.released or verdict.dropped:
            back = self._earlier(verdict.released)
            self._returned = back if self._returned is None else self._returned.unionByName(back)
            self._frame = self.frame.unionByName(back)
            dropped = Counter[tuple[str, str]]()
            if verdict.dropped:
                dropped = self._by_name_and_batch(self._earlier(verdict.dropped))
            batches += dropped
            held = held._replace(released=back.count(), dropped=dropped.total())
        self.verdict = verdict.not_merged(batches)
        return held

    def settle(self, verdict: TransactionVerdict) -> None:
        """Leave out the rows that a verdict about a later part of the same changes leaves out.

        Args:
            verdict: of transactions that all began in this increment.
        """
        self.verdict = verdict
        self._held_back = bool(verdict.open or verdict.gone)
        if self._held_back:
            self._frame = self._settled(self.frame)

    @staticmethod
    def _by_name_and_batch(rows: DataFrame) -> Counter[tuple[str, str]]:
        """How many rows each transaction has in each batch."""
        counted = rows.groupBy(F.expr(NAME_SQL).alias("name"), "batch").count().collect()
        return Counter({(row["name"], row["batch"]): row["count"] for row in counted})

    def _ends(self, transactions: tuple[Open, ...]) -> list[TransactionBoundary]:
        """The ends in earlier batches; without their counts where retention has deleted rows."""
        log = self.lake.increment(self._table, None, self.after).where("outcome = 'ok'")
        names = [name_of(transaction.id) for transaction in transactions]
        mine = log.where("operation <> 'begin'").where(F.expr(NAME_SQL).isin(names))
        ends, cut = transaction_events(mine, ()), self.lake.changes_since()
        return ends if cut is None else [end._replace(rows=None) for end in ends]

    def _look(self, transactions: tuple[Open, ...]) -> dict[str, Came]:
        """What has come of transactions; the older batches are read only where they have to be."""
        frames = self._more_and_more(transactions)
        return arrived(transactions, self.frame.where(CAME), (f.where(CAME) for f in frames))

    def _more_and_more(self, transactions: tuple[Open, ...]) -> Iterator[DataFrame]:
        """The changes of this batch, of those since a transaction began, and all."""
        yield self.frame
        for after in [*(t.after for t in transactions if t.after != self.after)][:1]:
            yield self._log(after, self.upto)
        yield self._log(None, self.upto)

    def bring_back(self, places: DataFrame) -> int:
        """Take changes that were refused once more.

        Args:
            places: topic, partition, offset and index of each.

        Returns:
            How many they are.
        """
        assert self.upto is not None
        log = self._log(None, self.after).where("outcome = 'ok'")
        self._replaying = True
        back = log.join(F.broadcast(places), list(CHANGE_PLACE), "left_semi").select(
            *self.frame.columns
        )
        self._returned = back if self._returned is None else self._returned.unionByName(back)
        self._frame = self.frame.unionByName(back)
        return back.count()

    def _earlier(self, transactions: tuple[Open, ...]) -> DataFrame:
        """The rows of transactions that came in earlier batches."""
        found = self.lake.increment(self._table, None, None)
        for after in {transaction.after for transaction in transactions}:
            mine = in_transactions(t.members for t in transactions if t.after == after)
            frame = self._log(after, self.after)
            found = found.unionByName(frame.where(mine))
        return found.where("outcome = 'ok'")

    def _held(self, transactions: Iterable[Open]) -> str:
        """SQL: see `rows_since_begin`."""

        def since(after: int) -> list[str]:
            commits = self.lake.between(self._table, after, self.upto)
            return sorted({commit.batch for commit in commits})

        return rows_since_begin(transactions, since)

    def _settled(self, frame: DataFrame) -> DataFrame:
        """Rows of the whole log without those of transactions that are open or rolled back."""
        # One that was merged before its begin was read stays.
        gone = [(one.members, one.batches) for one in self.verdict.gone]
        hidden = f"{self._held(self.verdict.open)} OR {brought_by(gone)}"
        return frame.where(f"NOT coalesce({hidden}, false)")

    def merged_before(self) -> DataFrame:
        """Rows of `changes` that were merged before this increment."""
        released = self._held(self.verdict.released)
        frame = self._settled(self._log(None, self.after))
        return frame.where(f"NOT coalesce({released}, false)")

    # Numbers.

    def survey(self) -> Survey:
        """Count the increment; reads only small columns."""
        survey = Survey(0, defaultdict(TableSurvey), Counter(), {})
        if self.upto is None:
            return survey
        rows = self._counted_in_tasks() if self.untouched else self._counted()
        for row in rows:
            place = (row.topic, row.partition)
            survey.reached[place] = further(survey.reached.get(place), row.order, row.micros)
            if row.operation in ROW_OPERATIONS or row.operation == "truncate":
                count(survey.tables[row.qualified], row)
            else:
                survey.skipped[row.operation] += row.n
        return survey._replace(total=sum(row.n for row in rows))

    def _counted_in_tasks(self) -> list[Row]:
        """Accepted changes by their names, as each task of several counts them."""
        from waybill.merge.task_counts import SURVEY_DDL, SURVEYED, named, surveyed

        span = Span(self._table, self.after, self.upto)
        rows = self.lake.task_rows(span, SURVEYED, {"outcome": ["ok"]})
        here = rows.here(surveyed)
        if here is not None:
            return named(here)
        with unwrapped():
            return self._named(rows.map(surveyed, SURVEY_DDL))

    def _counted(self) -> list[Row]:
        """Accepted changes by their names."""
        names = [*TABLE_PARTS, "operation", "topic", "partition"]
        counted = (
            self.accepted()
            .select(
                *(*names, "schema_id", "key", "old_key", "order_key", "source_time"),
                F.expr(NO_SEQUENCE).alias("unordered"),
                F.expr(self.order).alias("merged_by"),
            )
            .groupBy(*names, "unordered")
            .agg(
                F.count("*").alias("n"),
                F.count("key").alias("k"),
                F.count("old_key").alias("m"),
                F.max("order_key").alias("order"),
                F.min("merged_by").alias("lowest"),
                F.max("merged_by").alias("highest"),
                F.max(F.expr(calendar_sql("source_time"))).alias("time"),
                # With a set among its results Spark keeps the groups, which are few, in a map;
                # without one it would sort every change, as it does where the highest of texts
                # is asked for.
                F.collect_set("schema_id").alias("schema_ids"),
            )
        )
        return self._named(counted)

    @staticmethod
    def _named(counted: DataFrame) -> list[Row]:
        named = counted.select(
            F.expr(QUALIFIED).alias("qualified"),
            "*",
            F.unix_micros("time").alias("micros"),
        )
        # The time itself may be none of Python's.
        return named.drop("time").collect()

    def halves(self) -> dict[str, Reached]:
        """The oldest half of an update that waits for the other one, by table."""
        decoded = self.lake.last(self._table, "convert") if self.upto is not None else None
        if decoded is None or not decoded.report.get("waiting"):
            return {}
        found = (
            self.lake.read(self._table, self.upto)
            .where("outcome = 'waiting'")
            .groupBy(F.expr(QUALIFIED).alias("qualified"))
            .agg(
                F.min("order_key").alias("order"), F.min(F.unix_micros("source_time")).alias("time")
            )
        )
        return {row.qualified: Reached(row.order, row.time) for row in found.collect()}

    def schemas(self) -> dict[str, TableSchema]:
        """The schemas that the increment's changes refer to, by id."""
        if self.upto is None:
            return {}
        # No transaction hides a schema, and what is brought back brings none.
        span = Span(self._table, self.after, self.upto)
        known = self.lake.few_rows(span, SCHEMA_COLUMNS, {"outcome": ["schema"]})
        found = _schemas(row["extra"] for row in known)
        if self._returned is not None:
            # What waited may refer to schemas that came with it.
            ids = self._returned.select("schema_id").distinct().collect()
            found |= self.schemas_of({row.schema_id for row in ids if row.schema_id})
        return dict(sorted(found.items()))

    def schemas_of(self, ids: Collection[str]) -> dict[str, TableSchema]:
        """Schemas that came with any batch so far."""
        if not ids:
            return {}
        log = self.lake.read(self._table, self.upto).where("outcome = 'schema'")
        rows = log.where(F.col("schema_id").isin(*ids)).select("extra").collect()
        return _schemas(row.extra for row in rows)

    def crossing(self, qualified: str) -> set[str]:
        """Keys that a transaction moved one row to and another away from."""
        moves = (F.col("qualified") == qualified) & F.col("old_key").isNotNull()
        new = self.rows().where(moves).where("transaction IS NOT NULL")
        if new.isEmpty():
            return set()
        every = (
            self.history(qualified)
            .where(moves)
            .join(F.broadcast(new.select("transaction").distinct()), "transaction", "left_semi")
        )
        arrived = every.select("transaction", "key").distinct()
        left = every.select("transaction", F.col("old_key").alias("key")).distinct()
        both = arrived.join(left, ["transaction", "key"], "left_semi")
        return {row.key for row in both.select("key").distinct().collect()}

    def schemas_above(self, qualified: str, order: str) -> set[str]:
        """Ids of the schemas of a table's rows above an order."""
        rows = self.accepted().where(F.col("operation").isin(*ROW_OPERATIONS))
        mine = rows.where(f"{QUALIFIED} = {literal(qualified)} AND {self.order} > '{order}'")
        return {row.schema_id for row in mine.select("schema_id").distinct().collect()}

    def rows(self, only: str | None = None) -> DataFrame:
        """The changes of rows: table, key, order, operation, image, and where they came from.

        Args:
            only: the one table that they all belong to, where that is known: it is then not worked
                out row by row.
        """
        return self._rows_of(self.accepted(), only)

    def history(self, qualified: str) -> DataFrame:
        """The changes of one table's rows since the beginning of the log."""
        frame = self._settled(self._log(None, self.upto).where("outcome = 'ok'"))
        return self._rows_of(frame).where(F.col("qualified") == qualified)

    def pairs(self, qualified: str, history: bool = False, before: bool = False) -> DataFrame:
        """The changes of one table's rows with both images, `image` after and `before`, and more.

        Those that stand as refused are left out: the table has none of them, and a replay takes
        them once more, as a part of the increment.

        Args:
            qualified: the source table.
            history: all since the beginning of the log.
            before: all that were merged before this increment.
        """
        if history:
            frame = self._settled(self._log(None, self.upto))
        elif before:
            frame = self.merged_before()
        else:
            frame = self.accepted()
        found = self._rows_of(frame.where("outcome = 'ok'"), None, "batch", "schema_id")
        found = found.where(F.col("qualified") == qualified)
        # A replay takes up all of them; what was counted before is without them all the same. A
        # reload has brought them once more.
        again = (self._replaying and not before) or qualified in self.rebuilt.since(self.after)
        return found if again else self._not_refused(found, qualified)

    def _not_refused(self, rows: DataFrame, qualified: str) -> DataFrame:
        """Changes of a table less those that batches before this one refused."""
        merges = self.lake.read(self.lake.log("merges"))
        refused = merges.where((F.col("kind") == REFUSED) & (F.col("table") == qualified)).select(
            *(F.col(name).alias(f"refused_{name}") for name in (*CHANGE_PLACE, "order_key"))
        )
        same = [F.col(name) == F.col(f"refused_{name}") for name in CHANGE_PLACE]
        # A topic that was made again has other changes at the same places. Without a sequence id
        # the place is the order, and what the merge makes of it is the migration's choice.
        same.append(F.expr(f"{NO_SEQUENCE} OR order_key = refused_order_key"))
        return rows.join(refused, same, "left_anti")

    def _rows_of(self, frame: DataFrame, only: str | None = None, *more: str) -> DataFrame:
        rows = frame.where(F.col("operation").isin(*ROW_OPERATIONS)).select(
            (F.expr(QUALIFIED) if only is None else F.lit(only)).alias("qualified"),
            "key",
            "old_key",
            F.expr(self.order).alias("order"),
            "order_key",
            "operation",
            F.expr("CASE WHEN operation != 'delete' THEN coalesce(after, '{}') END").alias("image"),
            "before",
            F.expr(NAME_SQL).alias("transaction"),
            *CHANGE_PLACE,
            *more,
        )
        return present_rows(rows, self.renamed)


def _schemas(texts: Iterable[str]) -> dict[str, TableSchema]:
    found = [TableSchema.from_json(text) for text in {*texts}]
    return {schema.id: schema for schema in found}
