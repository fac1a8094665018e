"""Of the rows that several batches brought for one place, those of the newest batch, or the first.

A full run brings every message once more, at the place where it stood before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from waybill.lake.local_rows import local_rows
from waybill.lake_columns import CHANGE_PLACE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from waybill.lake.commit import Commit


def newest_rows(rows: DataFrame, place: Sequence[str], commits: Iterable[Commit]) -> DataFrame:
    """One row for each place: that of the newest batch.

    Args:
        rows: with the columns of a place and `batch`.
        place: the columns that name a place.
        commits: of the table that the rows are from, newest first (`Lake.commits`). Batches that
            upkeep has expired are not among them: they are older, and distinguished by their ids.
    """
    order = Window.partitionBy(*place).orderBy(F.asc_nulls_last("_age"), F.desc("batch"))
    ranked = _with_ages(rows, commits).withColumn("_rank", F.row_number().over(order))
    return ranked.where("_rank = 1").select(*rows.columns)


def first_rows(
    rows: DataFrame, places: Sequence[Sequence[str]], commits: Iterable[Commit]
) -> DataFrame:
    """The rows that are the first at all of their places.

    Args:
        rows: with the columns of the places, those of `CHANGE_PLACE`, and `batch`.
        places: the columns that name each place of a row.
        commits: as for `newest_rows`.
    """
    age = (F.desc_nulls_first("_age"), F.asc("batch"), *CHANGE_PLACE)
    ranked = _with_ages(rows, commits)
    ranks = {
        f"_rank{number}": F.row_number().over(Window.partitionBy(*place).orderBy(*age))
        for number, place in enumerate(places)
    }
    first = ranked.withColumns(ranks).where(" AND ".join(f"{rank} = 1" for rank in ranks))
    return first.select(*rows.columns)


def _with_ages(rows: DataFrame, commits: Iterable[Commit]) -> DataFrame:
    """Rows with how many batches came after theirs, under `_age`."""
    known = {commit.batch: age for age, commit in enumerate(commits)}
    ages = local_rows(rows.sparkSession, known.items(), "batch string, _age int")
    return rows.join(F.broadcast(ages), "batch", "left")
