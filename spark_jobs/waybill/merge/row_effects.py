"""Changes as effects on keys, and the newest effect of each key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from waybill.lake_columns import CHANGE_PLACE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def effects(rows: DataFrame) -> DataFrame:
    """The effects of changes that keep their row's key: one each."""
    return rows.select(
        "qualified",
        "key",
        "order",
        F.col("image").isNotNull().alias("live"),
        "image",
        F.col("operation").isin("insert", "read").alias("whole"),
        F.lit(None).cast("string").alias("sources"),
        *CHANGE_PLACE,
    )


def tombstones(moves: DataFrame) -> DataFrame:
    """The effects of moves on the keys that the rows had before."""
    return moves.select(
        "qualified",
        F.col("old_key").alias("key"),
        "order",
        F.lit(False).alias("live"),
        F.lit(None).cast("string").alias("image"),
        F.lit(True).alias("whole"),
        F.lit(None).cast("string").alias("sources"),
        *CHANGE_PLACE,
    )


def newest(frame: DataFrame) -> DataFrame:
    """The newest effect of every key, in one shuffle.

    The hash goes first: the sort that the aggregate needs then compares numbers, not long texts.
    """
    state: Column = F.struct("order", "live", "image", "whole", "sources")
    return (
        frame.groupBy(F.xxhash64("qualified", "key").alias("hash"), "qualified", "key")
        .agg(F.max(state).alias("newest"))
        .select("qualified", "key", "newest.*")
    )
