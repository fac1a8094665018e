"""What suites on rows see: rows of merged tables, changes, messages to publish.

Columns have the types of the merged table. What only Waybill knows (its own columns, tombstones) is
not there; `NAME` tells a row to people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql import types as T

from waybill.errors import Code, ConfigurationError
from waybill.lake.source_times import calendar_sql
from waybill.lake_columns import CHANGE_PLACE, lake_name
from waybill.records import ROW_OPERATIONS
from waybill.suggestions import did_you_mean, unknown
from waybill.validate.row_suites import NAME
from waybill.validate.suites import BATCH, CHANGES, PUBLISHED
from waybill.values.lake_values import value_sql

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from waybill.records import TableSchema
    from waybill.validate.suites import Over, Suite
    from waybill.validate.table_profiles import Staged

KEPT = 1_000_000
"""A table of so many rows is kept in memory for a suite that reads it often; of a larger one the
columns that are needed are read again."""

_TEXTS = {"maxStringLen": str(2**31 - 1)}


class SuiteRows(NamedTuple):
    """What a suite runs over.

    Attributes:
        rows: the columns that it sees, and `NAME`; None if there is nothing.
        kept: whether the rows are few enough to be kept in memory.
        note: why there is nothing.
    """

    rows: DataFrame | None
    kept: bool = True
    note: str = ""


class RowSources(NamedTuple):
    """Where suites find their rows.

    Attributes:
        batch: id of the batch.
        staged: the merged tables that it changed.
        tables: gives the names of all merged tables that are there; each is looked at for that.
        changes: the rows of `changes` that are judged.
        schemas: the schemas of their tables.
        messages: the rows of `outbox` that are judged.
        targets: the labels of the migration's targets.
    """

    batch: str
    staged: Sequence[Staged]
    tables: Callable[[], Iterable[str]]
    changes: DataFrame
    schemas: Iterable[TableSchema]
    messages: DataFrame
    targets: Sequence[str]

    def seen_by(self, suite: Suite) -> SuiteRows:
        """What a suite runs over.

        Raises:
            ConfigurationError: it runs over messages to a target that the migration has not.
        """
        over = suite.over
        if over.kind == PUBLISHED:
            check_target(suite, self.targets)
            return SuiteRows(published(self.messages, over.name))
        table = next((table for table in self.staged if table.name == over.name), None)
        if table is None:
            return SuiteRows(None, note=_nothing_of(over, set(self.tables())))
        if over.kind == CHANGES:
            return SuiteRows(self._changes(table))
        rows = live_rows(table.rows)
        if over.of == BATCH:
            return SuiteRows(seen_columns(rows.where(F.col("_waybill_batch") == self.batch)))
        return SuiteRows(seen_columns(rows), kept=table.size <= KEPT)

    def _changes(self, table: Staged) -> DataFrame:
        name = F.concat_ws(".", "database", "schema", "table")
        rows = self.changes.where(F.col("outcome") == "ok").where(name == table.name)
        schemas = [s for s in self.schemas if s.qualified_name == table.name]
        types = {f.name: f.dataType.simpleString() for f in typed_columns(table.rows)}
        return changes_of(rows, source_names(schemas, types), types)


def check_target(suite: Suite, targets: Sequence[str]) -> None:
    """See to it that the target is there whose messages a suite runs over.

    Raises:
        ConfigurationError: it is not; names the suite and the nearest target.
    """
    if suite.over.name not in targets:
        message = f"suite {suite.name}: {unknown('target', suite.over.name, targets)}"
        raise ConfigurationError(message, code=Code.SUITE)


def _nothing_of(over: Over, tables: set[str]) -> str:
    if over.name in tables:
        return f"the batch changes nothing in {over.name}"
    hint = did_you_mean(over.name, tables) if tables else ""
    return f"no batch has changes of {over.name} yet{hint}"


def typed_columns(rows: DataFrame) -> list[T.StructField]:
    """The source's columns of a merged table."""
    return [field for field in rows.schema.fields if not field.name.startswith("_waybill_")]


def live_rows(rows: DataFrame) -> DataFrame:
    """The rows of a merged table without its tombstones."""
    return rows.where(~F.coalesce(F.col("_waybill_deleted"), F.lit(False)))


def seen_columns(rows: DataFrame) -> DataFrame:
    """The columns of a merged table that suites see, and the key as `NAME`."""
    names = [field.name for field in typed_columns(rows)]
    return rows.select(*(_column(name) for name in names), F.col("_waybill_key").alias(NAME))


def source_names(schemas: Iterable[TableSchema], columns: Iterable[str]) -> dict[str, str]:
    """Names of columns in the source, by their names in the lake.

    Args:
        schemas: how the source describes the table.
        columns: the columns of the merged table.
    """
    there = set(columns)
    found = {name: name for name in there}
    for schema in schemas:
        for name in schema.names:
            # A name that cannot stand in the lake, or that another one took, is written otherwise.
            written = name if name in there else lake_name(name, there)
            if written in there:
                found[written] = name
    return found


def changes_of(changes: DataFrame, names: Mapping[str, str], types: Mapping[str, str]) -> DataFrame:
    """Changes of a table as suites see them, with the key as `NAME`.

    `operation`, `source_time` (null also where it is on no calendar), and the images `before` and
    `after`, null where the change has none.

    Args:
        changes: accepted rows of `changes`, all of the table.
        names: names of its columns in the source, by those in the lake.
        types: the types of its columns in the lake.
    """
    rows = changes.where(F.col("operation").isin(*ROW_OPERATIONS))
    time = F.expr(calendar_sql("source_time")).alias("source_time")
    changed = rows.select("operation", time, "before", "after", F.col("key").alias(NAME))
    return with_typed_images(changed, ("before", "after"), names, types)


def with_typed_images(
    rows: DataFrame, images: Sequence[str], names: Mapping[str, str], types: Mapping[str, str]
) -> DataFrame:
    """Rows whose images are structs, with the lake's names and types of the columns.

    Args:
        rows: the rows.
        images: their columns that hold an image as text, or null.
        names: names of the table's columns in the source, by those in the lake.
        types: the types of its columns in the lake.
    """
    columns = list(types)
    texts = T.StructType([T.StructField(names[name], T.StringType()) for name in columns])
    plain = T.StructType([T.StructField(f"t{i}", T.StringType()) for i in range(len(columns))])

    # Parsing goes by position, so that a column may have any name.
    def parsed(image: str) -> Column:
        return F.from_json(image, texts, _TEXTS).cast(plain).alias(image)

    def typed(image: str) -> Column:
        values = [
            F.expr(value_sql(f"{image}.t{i}", types[name])).alias(name)
            for i, name in enumerate(columns)
        ]
        return F.when(F.col(image).isNotNull(), F.struct(*values)).alias(image)

    plainly = rows.select(*((parsed(c) if c in images else c) for c in rows.columns))
    return plainly.select(*((typed(c) if c in images else c) for c in rows.columns))


def published(messages: DataFrame, target: str) -> DataFrame:
    """Messages to a target as suites see them, with the place of their change as `NAME`.

    A `timestamp` that is on no calendar is null.

    Args:
        messages: rows of `outbox`.
        target: the target's label.
    """
    rows = messages.where((F.col("outcome") == "ok") & (F.col("target") == target))

    def text(column: str) -> Column:
        return F.try_validate_utf8(F.col(column).cast("string")).alias(column)

    return rows.select(
        "table",
        F.expr(calendar_sql("timestamp")).alias("timestamp"),
        *(text("key"), text("value")),
        F.octet_length("key").alias("key_bytes"),
        F.octet_length("value").alias("value_bytes"),
        F.concat_ws(",", "losses").alias("losses"),
        F.concat_ws("/", *CHANGE_PLACE).alias(NAME),
    )


def _column(name: str) -> Column:
    quoted = name.replace("`", "``")
    return F.col(f"`{quoted}`")
