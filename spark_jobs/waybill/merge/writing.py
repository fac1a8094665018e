"""Makes merged tables, and writes settled rows into their branches."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from waybill.errors import Code, ReconciliationError
from waybill.lake.future_columns import GONE, future_name, is_future
from waybill.lake.names import quoted
from waybill.lake.sizing import SHUFFLED
from waybill.merge import columns as own
from waybill.merge.column_types import holds, promoted
from waybill.merge.columns import OWN_COLUMNS
from waybill.merge.rewriting import add_future, staged_state
from waybill.merge.short_images import ALL, keep_setting
from waybill.merge.upsert.values import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from waybill.lake import Branch, Lake
    from waybill.merge.state import TableState


TABLE_PROPERTIES = {
    # A TRUNCATE deletes whole files where their metrics show the orders in full.
    f"write.metadata.metrics.column.{own.ORDER}": "full",
    f"write.metadata.metrics.column.{own.IMAGE}": "none",
    "write.merge.distribution-mode": "none",
    "write.delete.granularity": "file",
}


FEW, FEW_BYTES, MANY = 200_000, 16 << 20, 1_000_000
"""Few changes, in few bytes of files, and many rows: then `merge_few` costs less than one MERGE."""

BROADCAST = "spark.sql.autoBroadcastJoinThreshold"


def prepare(
    lake: Lake,
    qualified: str,
    state: TableState,
    retyped: Collection[str] = (),
    moved: Mapping[str, str] | None = None,
    rebuilds: bool = False,
    text_images: str = ALL,
) -> tuple[str, dict[str, str]]:
    """Make the table, or give it the columns and types that it lacks.

    Args:
        lake: the lake.
        qualified: the source table.
        state: what is known of it, this batch included.
        retyped: its columns that are rewritten.
        moved: names that columns of the lake get, by those that they have.
        rebuilds: whether the rows that are there go, and with them the columns that are empty then.
        text_images: what the migration says of them (`waybill.merge.short_images`).

    Returns:
        The table's full name; and what columns are called when the branch becomes visible, as
        `waybill.lake.future_columns` has it.

    Raises:
        ReconciliationError: rows have values in a column that cannot take those of its type.
    """
    becomes = dict(moved or {})
    for column in state.columns:
        if column.lake in becomes and column.lake not in becomes.values():
            # Until then another column has its name.
            becomes[future_name(column.lake)] = column.lake
    staged = staged_state(state, becomes)
    wanted = {**OWN_COLUMNS, **{column.lake: column.type for column in staged.columns}}
    schema = arrow_schema(wanted)
    table, layout = lake.ensure_merged(qualified, schema, own.DELETED, TABLE_PROPERTIES)
    keep_setting(lake, table, text_images)
    there = layout.types
    # The table is asked, not the state: a merge that was dropped may have changed it already.
    for column in staged.columns:
        have, want = there[column.lake], column.type
        if have == want or holds(have, want):
            continue
        name, alter = quoted(column.lake), f"ALTER TABLE {quoted(*table.split('.'))}"
        if promoted(have, want) == want:
            lake.spark.sql(f"{alter} ALTER COLUMN {name} TYPE {want}")
        elif lake.read(table).where(f"{name} IS NOT NULL").isEmpty():
            # A merge made it whose rows nobody got to see, and found another type for it.
            lake.spark.sql(f"{alter} DROP COLUMN {name}")
            lake.spark.sql(f"{alter} ADD COLUMN {name} {want}")
        elif column.name in retyped:
            final = becomes.get(column.lake, column.lake)
            if final != column.lake:
                becomes[column.lake] = GONE
            becomes[add_future(lake, table, final, want, there)] = final
        elif have != "string":
            message = (
                f"column {column.name} of {qualified} is {have} in the lake, has values there, and "
                f"would now take {want}, which does not fit; nothing of this batch was merged: "
                f"declare a type that {have} holds under tables: {{{qualified}: {{columns: "
                f"{{{column.name}: ...}}}}}}, or continue under a new migration name"
            )
            raise ReconciliationError(message, code=Code.COLUMN_TYPE)
    return table, _without_idle(becomes, there, wanted) if rebuilds else becomes


def _without_idle(
    becomes: dict[str, str], there: Collection[str], wanted: Collection[str]
) -> dict[str, str]:
    """What columns become where those go that no row will have a value in."""
    idle = (name for name in there if name not in wanted and not is_future(name))
    return {**dict.fromkeys(idle, GONE), **becomes}


def merge_rows(
    branch: Branch,
    source: DataFrame,
    values: Mapping[str, Column],
    mark: str,
    matched: str,
    unmatched: str = "",
) -> dict[str, str]:
    """One MERGE by key.

    Args:
        branch: the branch to write; a view of `source` has the name `s` in the statement, the
            table the name `t`.
        source: the rows.
        values: every column of the table in the order `c0`, `c1`, … of the view; the key is first.
        mark: a column of `source` that the conditions use beside them.
        matched: condition and action for keys that are there, after WHEN MATCHED AND.
        unmatched: condition for keys that are not there, which are inserted.

    Returns:
        The summary of the snapshot it made.
    """
    names = ", ".join(quoted(name) for name in values)
    columns = ", ".join(f"s.c{i}" for i in range(len(values)))
    also = f" AND {unmatched}" if unmatched else ""
    return _merge(
        branch,
        _view(source, values, mark),
        f"WHEN MATCHED AND {matched} "
        f"WHEN NOT MATCHED{also} THEN INSERT ({names}) VALUES ({columns})",
    )


def merge_few(
    branch: Branch, source: DataFrame, values: Mapping[str, Column], mark: str, matched: str
) -> int:
    """What `merge_rows` does, for few rows and a table of many.

    A MERGE that inserts too sends every row of the table through a shuffle. One that only updates
    brings the few rows to those of the table, and so does the search for keys that are there.

    Returns:
        How many rows were updated or inserted.
    """
    keys = source.select(values[own.KEY].alias(own.KEY))
    # Fetched, not looked for again: the update changes what a query would find.
    found = branch.read().select(own.KEY).join(F.broadcast(keys), own.KEY, "left_semi").toArrow()
    updated = 0
    if found.num_rows:
        with _broadcast(source.sparkSession):
            summary = _merge(branch, _view(source, values, mark), f"WHEN MATCHED AND {matched}")
        updated = int(summary.get("spark.merge-into.num-target-rows-updated", 0))
    there = F.broadcast(source.sparkSession.createDataFrame(found))
    rows = source.select(*(value.alias(name) for name, value in values.items()))
    return updated + branch.append(rows.join(there, own.KEY, "left_anti"))


def delete_rows(branch: Branch, keys: DataFrame) -> int:
    """Take away the rows and tombstones of few keys; returns how many there were.

    Args:
        branch: the branch to write.
        keys: a frame with the column `key`.
    """
    with _broadcast(keys.sparkSession):
        summary = _merge(branch, keys.select(F.col("key").alias("c0")), "WHEN MATCHED THEN DELETE")
    return int(summary.get("spark.merge-into.num-target-rows-deleted", 0))


@contextmanager
def _broadcast(spark: SparkSession) -> Iterator[None]:
    """Let joins bring the few rows to the many; a hint does not get through a MERGE."""
    before = str(spark.conf.get(BROADCAST))
    spark.conf.set(BROADCAST, str(FEW_BYTES * SHUFFLED))
    try:
        yield
    finally:
        spark.conf.set(BROADCAST, before)


def _view(source: DataFrame, values: Mapping[str, Column], mark: str) -> DataFrame:
    return source.select(mark, *(value.alias(f"c{i}") for i, value in enumerate(values.values())))


def _merge(branch: Branch, view: DataFrame, clauses: str) -> dict[str, str]:
    name = f"merge_{secrets.token_hex(8)}"
    view.createOrReplaceTempView(name)
    try:
        return branch.sql(
            f"MERGE INTO {{branch}} AS t USING {name} AS s ON t.{own.KEY} = s.c0 {clauses}"
        )
    finally:
        view.sparkSession.catalog.dropTempView(name)
