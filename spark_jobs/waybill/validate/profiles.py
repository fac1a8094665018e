"""Profiles: one row of figures for every topic and every table, made by few passes in Spark."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from waybill.validate.looking import Example

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from waybill.lake import Branch, Lake
    from waybill.validate.rereading import Reread

ROW = tuple[Any, ...]

ORDERED = "outcome = 'ok' AND order_key LIKE '1/%' AND order_key NOT LIKE '1//%'"
"""Changes, not full rows, whose envelope gives a sequence id."""


def outcomes(changes: DataFrame) -> list[ROW]:
    """Rows of `changes` by topic and outcome.

    Returns:
        Topic, outcome, rows, first rows of a message, rows with an order that the source gave.
    """
    grouped = changes.where("outcome <> 'schema'").groupBy("topic", "outcome")
    counted = grouped.agg(
        F.count("*").alias("rows"),
        F.count_if(F.col("index") == 0).alias("messages"),
        F.count_if(F.expr(ORDERED)).alias("ordered"),
    )
    return [tuple(row) for row in counted.collect()]


def refused_messages(changes: DataFrame, merges: DataFrame) -> dict[str, int]:
    """How many messages were refused by topic, whole or in part, by convert or by merge."""
    place = ("topic", "partition", "offset")
    refused = changes.where("outcome = 'refused'").select(*place)
    refused = refused.union(merges.where("kind = 'refused'").select(*place)).distinct()
    return {row.topic: row["count"] for row in refused.groupBy("topic").count().collect()}


def backwards(changes: DataFrame) -> dict[str, int]:
    """How often the source's order runs backwards within a key and partition, by topic.

    Changes whose envelope gives no order, and full rows, are left out.
    """
    found = _running_back(changes).groupBy("topic").count().collect()
    return {row.topic: row["count"] for row in found}


def _running_back(changes: DataFrame) -> DataFrame:
    """Topic, table and key of every change whose sequence is below the one before it."""
    sequence = F.split_part("order_key", F.lit("/"), F.lit(2))
    columns = ("topic", "partition", "offset", "index", "database", "schema", "table", "key")
    ordered = changes.where(f"key IS NOT NULL AND {ORDERED}")
    rows = ordered.select(*columns, sequence.alias("sequence"))
    window = Window.partitionBy("topic", "partition", "table", "key").orderBy("offset", "index")
    before = F.lag("sequence").over(window)
    name = F.concat_ws(".", "database", "schema", "table").alias("table")
    back = rows.select("topic", name, "key", (F.col("sequence") < before).alias("back"))
    return back.where("back")


def example_of_topic(changes: DataFrame, column: str, topic: str) -> Example:
    """A table and a key that a figure of a topic's row counts."""
    if column != "sequence_backwards":
        return Example()
    row = _running_back(changes).where(F.col("topic") == topic).first()
    return Example() if row is None else Example(row.table, row.key)


def changes_profile(
    counted: list[ROW],
    refused: dict[str, int],
    back: dict[str, int],
    reread: Reread,
    stage_differences: int,
    topics: list[str],
) -> list[dict[str, Any]]:
    """One row per topic."""
    rows: dict[str, Counter[str]] = {topic: Counter() for topic in topics}
    messages: Counter[str] = Counter()
    for topic, outcome, count, firsts, _ordered in counted:
        rows.setdefault(topic, Counter())[outcome] += count
        # What was taken once more has left rows of its own.
        messages[topic] += 0 if outcome == "replayed" else firsts
    profile = []
    for topic, own in sorted(rows.items()):
        read = max(messages[topic], refused.get(topic, 0))
        profile.append(
            {
                "topic": topic,
                "messages": read,
                "accepted": own["ok"],
                "refused": own["refused"],
                "skipped": own["skipped"],
                "waiting": own["waiting"],
                "refused_messages": refused.get(topic, 0),
                "refused_share": refused.get(topic, 0) / read if read else 0.0,
                "sequence_backwards": back.get(topic, 0),
                "outbox_changes": reread.messages[topic],
                "outbox_undecodable": reread.undecodable[topic],
                "outbox_different": reread.different[topic],
                "stage_differences": stage_differences,
            }
        )
    return profile


def table_profile(qualified: str, rows: DataFrame, batch: str) -> dict[str, Any]:
    """The row of one merged table.

    Args:
        qualified: the source table's name.
        rows: the table as it is staged.
        batch: whose rows are looked at closely; older ones were, when they were new.
    """
    whole = rows.agg(
        F.count("*").alias("all"),
        F.count_if(F.col("_waybill_deleted")).alias("tombstones"),
        F.count_distinct(F.xxhash64("_waybill_key")).alias("keys"),
        F.count_if(F.col("_waybill_key").isNull()).alias("nulls"),
        F.count_if(F.col("_waybill_deleted").isNull()).alias("unknown"),
    ).first()
    if whole is None:
        raise AssertionError("an aggregate without groups has one row")
    with_key = whole["all"] - whole.nulls
    duplicates = 0 if whole["keys"] == with_key else with_key - _distinct(rows)
    written = rows.where(F.col("_waybill_batch") == batch)
    own = written.agg(
        F.count("*").alias("written"),
        F.count_if(_with_null()).alias("nulls"),
        F.count_if(_told_wrong()).alias("shown"),
    ).first()
    if own is None:
        raise AssertionError("an aggregate without groups has one row")
    return table_figures(
        qualified,
        whole["all"] - whole.tombstones,
        whole.tombstones,
        own.written,
        duplicates,
        whole.nulls + own.nulls,
        whole.unknown + own.shown,
    )


def table_figures(
    table: str,
    rows: int,
    tombstones: int,
    written: int,
    duplicate_keys: int = 0,
    null_keys: int = 0,
    tombstones_as_rows: int = 0,
) -> dict[str, Any]:
    """A row of the profile `tables`; expectations/README.md says what its columns mean."""
    return {
        "table": table,
        "rows": rows,
        "tombstones": tombstones,
        "written": written,
        "duplicate_keys": duplicate_keys,
        "null_keys": null_keys,
        "tombstones_as_rows": tombstones_as_rows,
    }


def _with_null() -> Column:
    """Whether a column of the key is null."""
    values = F.map_values(F.from_json("_waybill_key", "map<string,string>"))
    return F.col("_waybill_key").contains("null") & F.exists(values, lambda value: value.isNull())


def _told_wrong() -> Column:
    """Whether a tombstone has a row, or a row has none."""
    return F.col("_waybill_deleted") == F.col("_waybill_image").isNotNull()


def example_of_table(rows: DataFrame, column: str, batch: str) -> str | None:
    """A key that a figure of a table's row counts."""
    key = F.col("_waybill_key")
    known = rows.where(key.isNotNull())
    written = known.where(F.col("_waybill_batch") == batch)
    if column == "duplicate_keys":
        found = known.groupBy("_waybill_key").count().where("count > 1")
    elif column == "null_keys":
        found = written.where(_with_null())
    elif column == "tombstones_as_rows":
        found = known.where(F.col("_waybill_deleted").isNull()).unionByName(
            written.where(_told_wrong())
        )
    else:
        return None
    row = found.select("_waybill_key").first()
    return None if row is None else str(row[0])


def _distinct(rows: DataFrame) -> int:
    return rows.select("_waybill_key").where("_waybill_key IS NOT NULL").distinct().count()


def staged_tables(
    lake: Lake, branches: dict[str, str], batch: str
) -> list[tuple[str, DataFrame, Branch | None]]:
    """Every table that the batch changed, as it is staged, with the branch that is to be shown.

    A table whose branch was made visible by a run that was killed comes without one.
    """
    found: list[tuple[str, DataFrame, Branch | None]] = []
    names = {full: qualified for qualified, full in lake.merged_tables().items()}
    for table, name in sorted(branches.items()):
        waiting = {info.name for info in lake.waiting(table, "merge", batch)}
        if name in waiting:
            branch = lake.reopen(table, name)
            found.append((names.get(table, table), branch.read(), branch))
        else:
            found.append((names.get(table, table), lake.read(table), None))
    return found
