"""Rows that a batch gave another key: each is a row of the new one and a tombstone of the old."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from waybill.merge.exact_casts import misfit
from waybill.merge.row_effects import effects, tombstones
from waybill.merge.spark_rows import change_of
from waybill.merge.typed_columns import typed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from waybill.merge.increment import Increment
    from waybill.merge.rules import Change
    from waybill.merge.table import TableMerge
    from waybill.merge.table_plans import TablePlan


def moved_rows(
    increment: Increment, name: str, plan: TablePlan, merge: TableMerge
) -> tuple[DataFrame, int]:
    """The effects of changes that gave a row another key, and how many were refused."""
    rows = increment.rows().where(F.col("qualified") == name)
    moves = rows.where("old_key IS NOT NULL")
    columns = plan.state.columns
    judged = typed(moves.withColumn("live", F.lit(True)), columns).persist()
    odd = [change_of(row) for row in judged.where("misfit OR lacks").collect()]
    good = judged.where("NOT misfit AND NOT lacks").select(*moves.columns)
    both = effects(good.withColumn("operation", F.lit("insert"))).unionByName(tombstones(good))
    refused = [move for move in odd if misfit(move.image or {}, columns)]
    bad = {move.place for move in refused}
    lacking = [move for move in odd if move.place not in bad and move.order > plan.state.truncated]
    count = merge.settling.refuse(refused)
    plan.survey.moves -= count
    if lacking:
        # Where columns are rewritten these are two: what is known, and with the branch's names.
        plan.state.open_rows = merge.state.open_rows = True
        completed, below = _completed(name, lacking, merge)
        both = both.unionByName(completed)
        count += merge.settling.refuse(below)
    return both, count


def _completed(
    name: str, lacking: list[Change], merge: TableMerge
) -> tuple[DataFrame, list[Change]]:
    """The effects of moves that leave out columns, and refused changes below them."""
    found, below = merge.settling.resolver.complete(lacking)
    rows: list[tuple[object, ...]] = []
    for move in lacking:
        row = found[move.place]
        rows.append((name, move.key, move.order, True, row.image, True, row.sources, *move.place))
        rows.append((name, move.old_key, move.order, False, None, True, None, *move.place))
    ddl = (
        "qualified string, key string, `order` string, live boolean, image string, "
        "whole boolean, sources string, topic string, `partition` int, offset bigint, "
        "`index` int"
    )
    return merge.lake.spark.createDataFrame(rows, ddl), below
