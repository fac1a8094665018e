"""Text images as columns of the lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from waybill.values.lake_values import value_sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from waybill.merge.columns import MergedColumn

_LONGEST_TEXT = {"maxStringLen": str(2**31 - 1)}


def value_name(i: int) -> str:
    """Name of the i-th column's value in a typed frame."""
    return f"value_{i}"


def typed(frame: DataFrame, columns: Sequence[MergedColumn]) -> DataFrame:
    """The frame with its images parsed.

    Adds `value_0` …, one per column in the column's type; `lacks`, whether the image leaves out
    one of the columns; and `misfit`, whether one of its texts is not a value of its column.
    Parsing goes by position, so that a column may have any name.
    """
    source = T.StructType([T.StructField(c.name, T.StringType()) for c in columns])
    plain = T.StructType([T.StructField(f"t{i}", T.StringType()) for i in range(len(columns))])
    texts = [F.col("texts").getField(f"t{i}").alias(f"text_{i}") for i in range(len(columns))]
    there = list(frame.columns)
    parsed = frame.select(
        *there,
        F.from_json("image", source, _LONGEST_TEXT).cast(plain).alias("texts"),
        F.expr(f"coalesce(size(json_object_keys(image)), 0) < {len(columns)}").alias("lacks"),
    ).select(*there, "lacks", *texts)
    values = parsed.select(
        "*",
        *(
            F.expr(value_sql(f"text_{i}", column.type)).alias(value_name(i))
            for i, column in enumerate(columns)
        ),
    )
    doubtful = [
        f"(text_{i} IS NOT NULL AND {value_name(i)} IS NULL)"
        for i, column in enumerate(columns)
        if column.type != "string"
    ]
    return values.select(
        *there,
        F.expr("live AND lacks").alias("lacks"),
        F.expr(" OR ".join(doubtful) if doubtful else "false").alias("misfit"),
        *(value_name(i) for i in range(len(columns))),
    )
