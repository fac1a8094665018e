"""The profile `changes`: one row of figures for every topic."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from waybill.lake_columns import BOOTSTRAP, CHANGE_PLACE, MESSAGE_PLACE, REBUILT, TABLE_PARTS
from waybill.validate.looking import Example

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from waybill.validate.rereading import Reread

ROW = tuple[Any, ...]

NO_TOPIC = "(no topic)"
"""The row of stages that disagree about a batch in which no topic has anything; no topic of Kafka
can have this name."""

ORDERED = "outcome = 'ok' AND order_key LIKE '1/%' AND order_key NOT LIKE '1//%'"
"""Changes, not full rows, whose envelope gives a sequence id."""


def outcomes(changes: DataFrame) -> list[ROW]:
    """Rows of `changes` by topic and outcome.

    Returns:
        Topic, outcome, rows, first rows of a message, rows with an order that the source gave.
    """
    grouped = changes.where(f"outcome NOT IN ('schema', '{REBUILT}')").groupBy("topic", "outcome")
    counted = grouped.agg(
        F.count("*").alias("rows"),
        F.count_if(F.col("index") == 0).alias("messages"),
        F.count_if(F.expr(ORDERED)).alias("ordered"),
    )
    return [tuple(row) for row in counted.collect()]


def refused_messages(
    changes: DataFrame, merges: DataFrame, let_pass: DataFrame | None = None
) -> dict[str, int]:
    """How many messages were refused by topic, whole or in part, by convert or by merge.

    Args:
        changes: rows of `changes`.
        merges: rows of `merges`.
        let_pass: the places of messages that do not count (`waybill.validate.batch.let_pass`).
    """
    refused = refused_places(changes, merges)
    if let_pass is not None:
        refused = refused.join(let_pass, list(MESSAGE_PLACE), "left_anti")
    return {row.topic: row["count"] for row in refused.groupBy("topic").count().collect()}


def refused_places(changes: DataFrame, merges: DataFrame) -> DataFrame:
    """The places of the messages that were refused, each once."""
    refused = changes.where("outcome = 'refused'").select(*MESSAGE_PLACE)
    return refused.union(merges.where("kind = 'refused'").select(*MESSAGE_PLACE)).distinct()


def backwards(changes: DataFrame) -> dict[str, int]:
    """How often the source's order runs backwards within a key and partition, by topic.

    Changes whose envelope gives no order, and full rows, are left out.
    """
    found = _running_back(changes).groupBy("topic").count().collect()
    return {row.topic: row["count"] for row in found}


def _running_back(changes: DataFrame) -> DataFrame:
    """Topic, table and key of every change whose sequence is below the one before it."""
    sequence = F.split_part("order_key", F.lit("/"), F.lit(2))
    columns = (*CHANGE_PLACE, *TABLE_PARTS, "key")
    ordered = changes.where(f"key IS NOT NULL AND {ORDERED}")
    rows = ordered.select(*columns, sequence.alias("sequence"))
    window = Window.partitionBy("topic", "partition", "table", "key").orderBy("offset", "index")
    before = F.lag("sequence").over(window)
    name = F.concat_ws(".", *TABLE_PARTS).alias("table")
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
    """One row per topic, also of those of which only messages to publish have come.

    A suite looks at nothing but rows: what has none is met, whatever was found.
    """
    rows: dict[str, Counter[str]] = {topic: Counter() for topic in topics}
    messages: Counter[str] = Counter()
    for topic, outcome, count, firsts, _ordered in counted:
        rows.setdefault(topic, Counter())[outcome] += count
        # What was taken once more has left rows of its own.
        messages[topic] += 0 if outcome == "replayed" else firsts
    for found in (refused, back, reread.messages, reread.undecodable, reread.different):
        for topic in found:
            rows.setdefault(topic, Counter())
    if stage_differences and not rows:
        rows[NO_TOPIC] = Counter()
    profile = []
    for topic, own in sorted(rows.items()):
        read = max(messages[topic], refused.get(topic, 0))
        profile.append(
            {
                "topic": topic,
                "messages": read,
                "accepted": own["ok"] + own[BOOTSTRAP],
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
