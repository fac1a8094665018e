"""Rows of this process as a frame: what PySpark makes of them, without a task of Python."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from waybill.lake.local_rows import local_rows

pytestmark = pytest.mark.spark

DDL = (
    "name string, age int, `offset` bigint, live boolean, raw binary, at timestamp, "
    "more array<string>"
)
ROWS = [
    ("b", 2**31 - 1, 2**63 - 1, True, b"\0\xff", datetime(1969, 12, 31, 23, 59, tzinfo=UTC), ["x"]),
    (None, None, None, None, None, None, None),
    ("", -(2**31), -(2**63), False, b"", datetime(2026, 3, 1, tzinfo=UTC), []),
]


def test_they_are_what_pyspark_makes_of_them(spark):
    frame, made = local_rows(spark, ROWS, DDL), spark.createDataFrame(ROWS, DDL)
    assert frame.schema == made.schema
    assert frame.collect() == made.collect()
    assert local_rows(spark, ROWS, made.schema).collect() == made.collect()


def test_none_are_a_frame_too(spark):
    frame = local_rows(spark, [], DDL)
    assert frame.schema == spark.createDataFrame([], DDL).schema
    assert frame.count() == 0
    assert frame.collect() == []


def test_they_are_many_and_keep_their_order(spark):
    rows = [(number, str(number)) for number in range(5000)]
    assert [tuple(row) for row in local_rows(spark, rows, "n int, t string").collect()] == rows


def test_no_task_of_python_reads_them(spark):
    plan = local_rows(spark, ROWS, DDL)._jdf.queryExecution().executedPlan().toString()
    assert plan.startswith("LocalTableScan"), plan


@pytest.mark.parametrize("row", [("a", "b"), ("a", 2**31), ("a", True, 1), ("a",)])
def test_a_row_that_is_none_of_the_schema_is_refused(spark, row):
    with pytest.raises((pa.ArrowException, ValueError, OverflowError)):
        local_rows(spark, [("a", 1), row], "name string, age int")
