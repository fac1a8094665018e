"""Whether a reload of single keys brings everything that it is to replace, and nothing else.

The keys stand in groups (`waybill.convert.linked_keys`), each with a number. A group is replaced
only if the reload has something of every message that its changes came from, if no message becomes
a change of it that counts as a change of another row, if no half of an update is left alone, and if
none of its changes is of a transaction that may still be rolled back, or was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from waybill.convert.brought_again import (
    NAME,
    QUALIFIED,
    SEQUENCE,
    UPDATES,
    WHOLE,
    messages_by,
)
from waybill.lake_columns import CHANGE_PLACE, MESSAGE_PLACE, TABLE_PARTS
from waybill.mapping.shards import EMPTIED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from waybill.convert.brought_again import MessageSpan

GROUP = "key_group"
GROUPS_DDL = f"{NAME} string, key string, {GROUP} int"

_COLUMNS = (*CHANGE_PLACE, "operation", "before", "half", "outcome", "reason_kind", "transaction")


def named(rows: DataFrame) -> DataFrame:
    """Rows of `changes` with the name of their table, as far as they are compared."""
    sequence = F.expr(SEQUENCE).alias("sequence")
    return rows.select(
        F.expr(QUALIFIED).alias(NAME), *TABLE_PARTS, "key", "old_key", "batch", sequence, *_COLUMNS
    )


def grouped(rows: DataFrame, keys: DataFrame) -> DataFrame:
    """Those of `named` rows that are changes of keys, with the group of each.

    Args:
        rows: the rows.
        keys: in the columns of `GROUPS_DDL`.
    """
    return rows.join(F.broadcast(keys), [NAME, "key"])


def not_brought(old: DataFrame, own: DataFrame, beside: DataFrame) -> dict[int, MessageSpan]:
    """The messages that the reload does not bring, by the group of the changes that they were.

    Args:
        old: changes that it would replace, `grouped`.
        own: its changes of these keys, `grouped`.
        beside: what it refuses or leaves out of their tables, `named`.
    """
    place, inside = [*MESSAGE_PLACE], [*CHANGE_PLACE]
    # A refusal is of the whole message, and so is what a statement did to rows.
    is_whole = F.expr(f"outcome = 'refused' OR reason_kind = '{EMPTIED}'")
    missing = (
        old.join(own.select(GROUP, *place).distinct(), [GROUP, *place], "left_anti")
        .join(beside.where(is_whole).select(NAME, *place).distinct(), [NAME, *place], "left_anti")
        .join(
            beside.where(~is_whole).select(NAME, *inside).distinct(), [NAME, *inside], "left_anti"
        )
    )
    return messages_by(GROUP, missing)


def counted_elsewhere(own: DataFrame, log: DataFrame, keys: DataFrame) -> dict[int, MessageSpan]:
    """The messages of changes that count as changes of other rows, by the group they are of now.

    Args:
        own: as for `not_brought`.
        log: all changes that count of these tables, `named`.
        keys: as for `grouped`.
    """
    inside = [NAME, *CHANGE_PLACE]
    now = own.select(*inside, F.col(GROUP).alias("now"))
    # There are far fewer of these than of all that counts.
    both = log.select("key", *inside).join(F.broadcast(now), inside)
    others = both.join(F.broadcast(keys), [NAME, "key"], "left")
    others = others.where(f"{GROUP} IS NULL OR {GROUP} <> now")
    return messages_by(GROUP, others.select(*inside, F.col("now").alias(GROUP)))


def halves_alone(old: DataFrame, own: DataFrame, takes_after: bool) -> dict[int, MessageSpan]:
    """Halves of updates that would wait, or have waited until now, by group.

    Args:
        old: as for `not_brought`.
        own: as for `not_brought`.
        takes_after: whether rows after are taken at once, as updates without row before.
    """
    updates = own.where(UPDATES).groupBy(NAME, "sequence")
    found = updates.agg(
        F.expr(WHOLE).alias("whole"), F.min(GROUP).alias("low"), F.max(GROUP).alias("high")
    )
    met = found.where("whole AND low = high").select(NAME, "sequence")
    waiting = own.where("outcome = 'waiting'")
    if takes_after:
        waiting = waiting.where("half = 'before'")
    alone = waiting.join(met, [NAME, "sequence"], "left_anti")
    columns = (GROUP, *MESSAGE_PLACE)
    return messages_by(
        GROUP, alone.select(*columns).union(old.where("outcome = 'waiting'").select(*columns))
    )


def unsettled(old: DataFrame, own: DataFrame, condition: str) -> dict[int, MessageSpan]:
    """The messages of changes whose transactions decide whether they show, by group.

    Args:
        old: as for `not_brought`.
        own: as for `not_brought`.
        condition: SQL of such changes; empty where there is no such transaction.
    """
    return messages_by(GROUP, old.unionByName(own).where(condition)) if condition else {}
