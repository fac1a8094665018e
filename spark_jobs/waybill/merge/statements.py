"""The statements of a batch, and the place in the order of those that have no sequence id.

A TRUNCATE or DDL without a sequence id, about a table whose changes have them, comes after those
that stand before it in its partition: it takes the number of the newest one, and stays behind it by
its position. So its number rises when more of them come later: a damaged message that was repaired,
or a file that was late. Then it is merged once more, as if they had come in time.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F

from waybill.lake.names import literal
from waybill.lake.rebuilt_rows import RebuiltTables
from waybill.merge.increment import NO_SEQUENCE, QUALIFIED
from waybill.order import placed_after

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, Row

    from waybill.merge.increment import Increment

Offsets = dict[str, dict[int, int]]
"""Offsets by topic and partition."""

_Place = tuple[str, int, int, str]

_COUNTS = "(outcome = 'ok' OR (outcome = 'waiting' AND half = 'after'))"
"""SQL: a row of `changes` that statements behind it take their number from, whenever it is merged:
also one whose transaction is open, and a row after, which is where its update will stand."""

_NUMBERED = f"order_key LIKE '1/%' AND NOT {NO_SEQUENCE}"


class Statement(NamedTuple):
    """A TRUNCATE or DDL change.

    Attributes:
        qualified: its table, or what it names of one.
        has_table: whether its message names a table.
        order: its place in the order of the merge.
        text: its SQL, if known.
        dialect: the source's SQL, if known.
        topic: where it came from.
        partition: the topic's partition.
        offset: the partition's offset.
        unordered: whether nothing but its position gives it an order.
        behind: whether its sequence id is that of the change that it came after.
        again: whether it was merged before, with a lower order.
        elsewhere: whether it was merged before, and is looked at for other tables than its own.
    """

    qualified: str
    has_table: bool
    order: str
    text: str | None
    dialect: str
    topic: str
    partition: int
    offset: int
    unordered: bool
    behind: bool = False
    again: bool = False
    elsewhere: bool = False


class Statements:
    """The statements that a batch has to look at.

    Args:
        increment: the batch.
        offsets: of the furthest statement without a sequence id in each partition, None where
            that is not known.

    Attributes:
        offsets: as given, or found in the log.
        late: whether the batch brings changes that stand before one that was merged.
    """

    def __init__(self, increment: Increment, offsets: Offsets | None) -> None:
        self.increment = increment
        self._table = increment.lake.log("changes")
        self.offsets, self.late = offsets, False
        if increment.by_source_time:
            return
        self.offsets = self._found() if offsets is None else offsets
        self.late = self._is_late(self.offsets)

    def _found(self) -> Offsets:
        """What states did not remember at first."""
        found: Offsets = defaultdict(dict)
        if self.increment.after is not None:
            alone = self.increment.merged_before().where(
                f"outcome = 'ok' AND operation IN ('truncate', 'ddl') AND {NO_SEQUENCE}"
            )
            for row in (
                alone.groupBy("topic", "partition").agg(F.max("offset").alias("at")).collect()
            ):
                found[row.topic][row.partition] = row["at"]
        return dict(found)

    def _is_late(self, offsets: Offsets) -> bool:
        before = " OR ".join(
            f"(topic = {literal(topic)} AND `partition` = {partition} AND `offset` < {offset})"
            for topic, partitions in offsets.items()
            for partition, offset in partitions.items()
        )
        if not before or self.increment.upto is None:
            return False
        # All that came, whether or not it can be merged by now.
        came = self.increment.lake.increment(self._table, self.increment.after, self.increment.upto)
        return not came.where(f"{_COUNTS} AND {_NUMBERED} AND ({before})").isEmpty()

    def of(self, operation: str, came: bool) -> list[Statement]:
        """The `truncate` or `ddl` changes, oldest first; also those whose number rises.

        Args:
            operation: `truncate` or `ddl`.
            came: whether the batch has any.
        """
        found = []
        if came:
            found += self._of_batch(
                self.increment.accepted().where(F.col("operation") == operation)
            )
        if self.late:
            found += self._risen(operation)
        return sorted(found, key=lambda statement: statement.order)

    def elsewhere(self) -> list[Statement]:
        """The DDL of before the batch, for tables that a reload rebuilds.

        What names such a table itself comes with the batch once more; the message of a statement
        about several tables may name another one, or none.
        """
        before = self.increment.merged_before().where("outcome = 'ok' AND operation = 'ddl'")
        return [statement._replace(elsewhere=True) for statement in self._of_batch(before)]

    def _of_batch(self, asked: DataFrame) -> list[Statement]:
        rows = self._rows(asked)
        dialects = self._dialects(rows)
        newest: Mapping[_Place, str] = {}
        if any(row.unordered for row in rows) and not self.increment.by_source_time:
            newest = self._newest_before(asked, self.increment.upto)
        return [
            _statement(row, dialects, newest.get(_place(row)) if row.unordered else None)
            for row in rows
        ]

    def _risen(self, operation: str) -> list[Statement]:
        """Statements of before that get a higher number by what the batch brings."""
        before = self.increment.merged_before().where("outcome = 'ok'")
        asked = before.where(F.col("operation") == operation).where(NO_SEQUENCE)
        newest = self._newest_before(asked, self.increment.upto)
        # What a reload of the batch brings again counted then: it has not come late.
        counted = RebuiltTables(self.increment.lake, self.increment.after)
        was = self._newest_before(asked, self.increment.after, counted)
        rows = [row for row in self._rows(asked) if newest.get(_place(row)) is not None]
        dialects = self._dialects(rows)
        found = []
        for row in rows:
            statement = _statement(row, dialects, newest[_place(row)])
            old = _statement(row, dialects, was.get(_place(row)))
            if old.order < statement.order:
                found.append(statement._replace(again=True))
        return found

    def _rows(self, asked: DataFrame) -> list[Row]:
        return asked.select(
            F.expr(QUALIFIED).alias("qualified"),
            F.expr("nullif(`table`, '') IS NOT NULL").alias("named"),
            F.expr(self.increment.order).alias("order"),
            "order_key",
            "ddl_text",
            "schema_id",
            *("topic", "partition", "offset"),
            F.expr(NO_SEQUENCE).alias("unordered"),
        ).collect()

    def _dialects(self, rows: list[Row]) -> dict[str, str]:
        """The source's SQL by id of a schema."""
        ids = {row.schema_id for row in rows if row.ddl_text is not None and row.schema_id}
        return {id_: schema.dialect for id_, schema in self.increment.schemas_of(ids).items()}

    def _newest_before(
        self, statements: DataFrame, upto: int | None, rebuilt: RebuiltTables | None = None
    ) -> dict[_Place, str]:
        """Of each statement without a sequence id, the highest one of its table in front of it.

        Changes of earlier batches count, and so do those that are merged later.

        Args:
            statements: rows of `changes`.
            upto: newest snapshot of `changes` whose rows are looked at.
            rebuilt: which of them count; those that do with the batch where it is None.
        """
        log = self.increment.lake.read(self._table, upto)
        every = (rebuilt or self.increment.rebuilt).counting(log).where(_COUNTS)
        table = F.expr(QUALIFIED).alias("qualified")
        alone = statements.where(NO_SEQUENCE).select(
            "topic", "partition", F.col("offset").alias("at"), table
        )
        changes = every.where(_NUMBERED).select("topic", "partition", table, "offset", "order_key")
        found = (
            changes.join(F.broadcast(alone), ["topic", "partition", "qualified"])
            .where("offset < at")
            .groupBy("topic", "partition", "at", "qualified")
            .agg(F.max("order_key").alias("newest"))
        )
        return {tuple(row)[:-1]: row.newest for row in found.collect()}


def _place(row: Row) -> Any:
    return row.topic, row.partition, row.offset, row.qualified


def _statement(row: Row, dialects: Mapping[str, str], ahead: str | None) -> Statement:
    """A statement, behind the change with an order if there is one."""
    return Statement(
        row.qualified,
        row.named,
        row.order if ahead is None else placed_after(row.order_key, ahead),
        row.ddl_text,
        dialects.get(row.schema_id or "", ""),
        row.topic,
        row.partition,
        row.offset,
        row.unordered and ahead is None,
        ahead is not None,
    )
