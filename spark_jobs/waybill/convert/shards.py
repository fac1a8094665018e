"""Tables that become one: deletes in the place of their TRUNCATEs, and keys that must not meet."""

from __future__ import annotations

import json
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F

from waybill.counting import counted
from waybill.errors import Code, ConfigurationError
from waybill.lake.names import literal
from waybill.lake_columns import CHANGE_PLACE as PLACE
from waybill.lake_columns import CHANGES, TABLE_PARTS
from waybill.mapping.shards import EMPTIED, EmptiedShards, Floor, read_emptied
from waybill.mapping.transaction_rows import OF_EMPTIED
from waybill.order import CHANGE
from waybill.records import ROW_OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from pyspark.sql import Column, DataFrame, Row

    from waybill.lake import Branch
    from waybill.mapping.rules import Join, Rules
    from waybill.report import StageReport
    from waybill.stage_context import StageContext

FLOORS = "emptied_tables"
"""The detail that tells where tables that became one with others were emptied last."""

MADE = "deletes of rows of emptied tables"

_OF_ROWS = f"operation IN ({', '.join(map(literal, sorted(ROW_OPERATIONS)))})"
_NO_SEQUENCE = f"order_key LIKE '{CHANGE}//%'"


class _EmptyingStatement(NamedTuple):
    """A statement that empties some of the joined tables.

    Attributes:
        row: its row of `changes`, the time in microseconds.
        emptied: which of them.
    """

    row: Row
    emptied: EmptiedShards


def known_floors(context: StageContext, table: str, stage: str) -> dict[str, Floor]:
    """Where joined tables were emptied in earlier batches, by the source's names.

    Args:
        context: of the stage.
        table: the full name of `changes`.
        stage: whose reports tell it.
    """
    last = context.lake.last(table, stage)
    floors = {} if last is None else last.report["details"].get(FLOORS, {})
    return {
        name: Floor(order, time, None if place is None else (place[0], place[1], place[2]))
        for name, (order, time, place) in floors.items()
    }


def tell_floors(floors: Mapping[str, Floor], report: StageReport) -> None:
    """Keep with a batch where joined tables were emptied, for those that come after it."""
    if floors:
        report.details[FLOORS] = {name: list(floor) for name, floor in floors.items()}


class JoinedTables:
    """What a batch has to do for tables that become one, when its changes are written.

    Args:
        context: of the stage.
        branch: of `changes`, with what the batch brought.
        mapping: of the migration.
        floors: as `known_floors`.
        counting: the rows of `changes` that count, of some.
    """

    def __init__(
        self,
        context: StageContext,
        branch: Branch,
        mapping: Rules,
        floors: dict[str, Floor],
        counting: Callable[[DataFrame], DataFrame],
    ) -> None:
        self.context = context
        self.branch = branch
        self.joins = [rule.join for rule in mapping.of_tables if rule.join is not None]
        self.floors = floors
        self._counting = counting
        self.by_source_time = context.spec.order.ambiguous == "source_time"

    def empty(self, report: StageReport) -> None:
        """Write a delete of every row of the tables that statements of the batch empty.

        Raises:
            ConfigurationError: the order of a statement among the rows cannot be determined.
        """
        # One that is about other tables, too, is taken as a statement of those.
        wanted = f"reason_kind = {literal(EMPTIED)} OR (outcome = 'ok' AND operation = 'ddl')"
        micros = F.unix_micros("source_time").alias("source_time")
        columns = (*PLACE, "order_key", micros, "extra", "transaction")
        rows = self.branch.added().where(wanted).select(*columns).collect()
        newest: dict[str, tuple[_EmptyingStatement, Floor]] = {}
        for row in rows:
            statements = [_EmptyingStatement(row, emptied) for emptied in read_emptied(row.extra)]
            for statement, name in ((s, name) for s in statements for name in s.emptied.tables):
                floor = self._floor(statement, name)
                known = newest[name][1] if name in newest else self.floors.get(name)
                if known is None or known.order < floor.order:
                    newest[name] = statement, floor
        made: dict[tuple[str, int, int, int], int] = {}
        for name, (statement, floor) in sorted(newest.items()):
            place = tuple(statement.row[part] for part in PLACE)
            added = self._delete(statement, floor, name, made.get(place, 0))
            made[place] = made.get(place, 0) + added
            self.floors[name] = floor
            self._count(statement.emptied, added, report)

    def tell(self, report: StageReport) -> None:
        """Keep where tables were emptied with the batch."""
        tell_floors(self.floors, report)

    def check_keys(self, names: Collection[str]) -> None:
        """See that no key of the batch is in two of the tables that say that theirs are distinct.

        Args:
            names: what joined tables are called; other tables may have such a column of their own.

        Raises:
            ConfigurationError: one is; names both places, in the log the key as well.
        """
        for join in self.joins:
            if names and not join.in_key:
                self._check_keys(join, names)

    def _check_keys(self, join: Join, names: Collection[str]) -> None:
        mine = F.concat_ws(".", *TABLE_PARTS).isin(list(names))
        new = _with_shards(self._rows(self.branch.added()).where(mine), join.column)
        new = new.select(*TABLE_PARTS, "key").distinct().persist()
        try:
            self._look_up(join, new)
        finally:
            new.unpersist()

    def _look_up(self, join: Join, new: DataFrame) -> None:
        """See that the tables of a batch's keys have no such key of another shard."""
        spans = new.groupBy(*TABLE_PARTS).agg(F.min("key").alias("low"), F.max("key").alias("high"))
        near = [_near(span) for span in spans.collect()]
        if not near:
            return
        # Data files without these tables, or without keys in their range, are not opened.
        rows = self._rows().where(reduce(or_, near))
        keyed = _with_shards(rows, join.column)
        same = [keyed[name].eqNullSafe(new[name]) for name in TABLE_PARTS]
        keyed = keyed.join(new, [*same, keyed["key"] == new["key"]], "left_semi")
        by_key = keyed.groupBy(*TABLE_PARTS, "key").agg(
            F.min("shard").alias("low"),
            F.max("shard").alias("high"),
            F.min_by("place", "shard").alias("one"),
            F.max_by("place", "shard").alias("other"),
        )
        by_table = by_key.where("low <> high").groupBy(*TABLE_PARTS)
        first = F.min(F.struct("key", "one", "other")).alias("first")
        met = by_table.agg(F.count("*").alias("number"), first).orderBy(*TABLE_PARTS).first()
        if met is None:
            return
        name = ".".join(met[part] for part in TABLE_PARTS if met[part])
        places = f"{met.first.one} and {met.first.other}"
        of_one = f"is in two of its tables, {places}"
        each = of_one if met.number == 1 else f"are in two of its tables, the first in {places}"
        way_out = (
            "and map.join.keys says that keys are distinct: set it to by_shard under a new name of "
            "the migration, or choose tables whose keys are"
        )
        raise ConfigurationError(
            f"{counted(met.number, 'key')} of {name} {each}, {way_out}",
            code=Code.MAPPING,
            logged=f"the key {met.first.key} of {name} {of_one}, {way_out}",
        )

    def _rows(self, log: DataFrame | None = None, taken: str = "outcome = 'ok'") -> DataFrame:
        """The changes of rows that were taken: of some, or all that ever were."""
        if log is None:
            log = self._counting(self.context.lake.read(self.branch.table, self.branch.head))
        return log.where(taken).where(_OF_ROWS)

    def _of(self, statement: _EmptyingStatement, name: str) -> DataFrame:
        """The changes of rows of one of the joined tables, halves of updates among them."""
        shard = _shard_in("coalesce(after, before)", statement.emptied.column)
        mine = F.coalesce(shard == name, F.lit(False))
        for part, text in zip(TABLE_PARTS, statement.emptied.of, strict=True):
            mine &= F.col(part).eqNullSafe(F.lit(text))
        return self._rows(taken="outcome IN ('ok', 'waiting')").where(mine)

    def _floor(self, statement: _EmptyingStatement, name: str) -> Floor:
        """Where a statement stands that empties a table.

        Raises:
            ConfigurationError: it has no sequence id, and the rows are in several partitions.
        """
        row = statement.row
        floor = Floor(row.order_key, row.source_time)
        if not floor.by_position or self.by_source_time:
            return floor
        floor = floor._replace(place=(row.topic, row.partition, row.offset))
        rows = self._of(statement, name)
        ahead = f"topic = {literal(row.topic)} AND `partition` = {row.partition}"
        numbered = rows.where(f"order_key LIKE '{CHANGE}/%' AND NOT {_NO_SEQUENCE}")
        in_front = numbered.where(f"{ahead} AND `offset` < {row.offset}")
        newest = in_front.agg(F.max("order_key")).first()
        apart = rows.where(f"{_NO_SEQUENCE} AND NOT ({ahead})")
        if self.context.spec.order.ambiguous == "fail" and not apart.isEmpty():
            message = (
                f"changes of {name} without a sequence id include a TRUNCATE or DROP that has no "
                "order against other partitions, so their order is unknown: publish them by key "
                "into one partition, or set order.ambiguous to source_time or partition"
            )
            raise ConfigurationError(message, code=Code.ORDER_AMBIGUOUS)
        return floor.behind(None if newest is None else newest[0])

    def _delete(self, statement: _EmptyingStatement, floor: Floor, name: str, after: int) -> int:
        """Write the deletes of a table's rows; returns how many.

        Every key gets one that was ever seen below its place; newer changes win against it. Where
        times order the changes, all keys do.

        Args:
            statement: what empties it.
            floor: where that stands.
            name: what the source calls the table.
            after: how many deletes the statement has become so far.
        """
        row, emptied = statement
        below = F.lit(True) if self.by_source_time else F.col("order_key") < floor.order
        keyed = self._of(statement, name).select(
            F.explode(F.array_compact(F.array("key", "old_key"))).alias("key"),
            "schema_id",
            "order_key",
        )
        newest = F.max_by("schema_id", "order_key").alias("schema_id")
        keys = keyed.groupBy("key").agg(newest, F.max(below).alias("below")).where("below")
        own = "}" if emptied.in_key else f",{json.dumps(emptied.column)}:{json.dumps(name)}}}"
        number = F.row_number().over(Window.orderBy("key"))
        made: dict[str, Column] = {
            **{part: F.lit(row[part]) for part in PLACE},
            **{part: F.lit(text) for part, text in zip(TABLE_PARTS, emptied.of, strict=True)},
            "index": number + (after + row["index"]),
            "batch": F.lit(self.context.batch),
            "operation": F.lit("delete"),
            "key": F.col("key"),
            "before": F.concat(F.expr("substr(key, 1, length(key) - 1)"), F.lit(own)),
            "order_key": F.lit(floor.order),
            "source_time": F.timestamp_micros(F.lit(row.source_time).cast("long")),
            "schema_id": F.col("schema_id"),
            "outcome": F.lit("ok"),
        }
        if row.transaction is not None:
            # They wait with the statement for its end, which has counted none of them.
            made["transaction"] = F.lit(row.transaction)
            made["extra"] = F.lit(json.dumps({OF_EMPTIED: True}))
        types = self.branch.read().schema
        deletes = keys.select(
            *(
                made.get(column, F.lit(None)).cast(types[column].dataType).alias(column)
                for column in CHANGES.names
            )
        ).persist()
        try:
            used = [found.schema_id for found in deletes.select("schema_id").distinct().collect()]
            if not used:
                return 0
            self._tell_schemas(used)
            return self.branch.append(deletes)
        finally:
            deletes.unpersist()

    def _tell_schemas(self, ids: Iterable[str]) -> None:
        """Write the schemas of rows of earlier batches once more: a batch tells its own."""
        every = self.context.lake.read(self.branch.table, self.branch.head)
        schemas = every.where("outcome = 'schema'").where(F.col("schema_id").isin(list(ids)))
        mine = schemas.where(F.col("batch") == self.context.batch).select("schema_id")
        missing = schemas.join(mine, "schema_id", "left_anti").dropDuplicates(["schema_id"])
        self.branch.append(
            missing.select(*CHANGES.names).withColumn("batch", F.lit(self.context.batch))
        )

    def _count(self, emptied: EmptiedShards, made: int, report: StageReport) -> None:
        report.extra_in[MADE] = report.extra_in.get(MADE, 0) + made
        report.rows_out += made
        name = ".".join(part for part in emptied.of if part)
        tables = report.details.setdefault("tables", {})
        operations = tables.setdefault(name, {})
        operations["delete"] = operations.get("delete", 0) + made
        self.context.progress("convert: %s of %s", counted(made, "delete"), name)


def _with_shards(rows: DataFrame, column: str) -> DataFrame:
    """The keys that changes of joined tables touch, with the shard and where that is stated."""
    shard = _shard_in("coalesce(after, before)", column)
    place = F.concat_ws("/", "topic", "partition", "offset")
    return rows.where(shard.isNotNull()).select(
        *TABLE_PARTS,
        F.explode(F.array_compact(F.array("key", "old_key"))).alias("key"),
        shard.alias("shard"),
        F.concat(shard, F.lit(" at "), place).alias("place"),
    )


def _near(span: Row) -> Column:
    """Whether a change touches a key of a table between two."""
    between = [F.col(name).between(span.low, span.high) for name in ("key", "old_key")]
    mine = [
        F.col(part).isNull() if span[part] is None else F.col(part) == span[part]
        for part in TABLE_PARTS
    ]
    return reduce(and_, mine) & (between[0] | between[1])


def _shard_in(image: str, column: str) -> Column:
    """The value of a column in the text of a row."""
    return F.get_json_object(F.expr(image), f"$['{column}']")
