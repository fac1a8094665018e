"""Of the rows that several batches brought for one place, those of the newest batch.

A full run brings every message once more, at the place where it stood before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from waybill.lake.local_rows import local_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from waybill.lake.commit import Commit


def newest_rows(rows: DataFrame, place: Sequence[str], commits: Iterable[Commit]) -> DataFrame:
    """One row for each place: that of the newest batch.

    Args:
        rows: with the columns of a place and `batch`.
        place: the columns that name a place.
        commits: of the table that the rows are from, newest first (`Lake.commits`). Batches that
            upkeep has let go are not among them: they are older, and distinguished by their ids.
    """
    known = {commit.batch: age for age, commit in enumerate(commits)}
    ages = local_rows(rows.sparkSession, known.items(), "batch string, _age int")
    order = Window.partitionBy(*place).orderBy(F.asc_nulls_last("_age"), F.desc("batch"))
    ranked = rows.join(F.broadcast(ages), "batch", "left").withColumn(
        "_rank", F.row_number().over(order)
    )
    return ranked.where("_rank = 1").select(*rows.columns)
