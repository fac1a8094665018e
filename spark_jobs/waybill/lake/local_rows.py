"""Frames of rows that this process has, for which Spark needs no worker of Python.

PySpark itself turns rows into a frame in a Python task, once for every query over them. Such a task
costs more than the rows: a worker has to be there, and it reads the archives on its path again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def local_rows(
    spark: SparkSession, rows: Iterable[Sequence[Any]], schema: StructType | str
) -> DataFrame:
    """The rows as a frame, which keeps their order.

    Args:
        spark: the session.
        rows: the values of each, in the order of the columns; times have a zone, structs are dicts.
        schema: the columns, or their DDL.

    Raises:
        pyarrow.ArrowException: a value is none of its column's type.
    """
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    struct = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    assert isinstance(struct, StructType)
    fields = to_arrow_schema(struct)
    found = [tuple(row) for row in rows]
    columns: Iterable[Sequence[Any]] = zip(*found, strict=True) if found else [()] * len(fields)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, fields, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=fields), struct)
