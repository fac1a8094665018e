"""SQL and Python agree on which text is a value of which lake type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from waybill.merge.column_changes import extend
from waybill.merge.exact_casts import fits
from waybill.merge.typed_columns import typed, value_name
from waybill.records import Column, intern_schema
from waybill.types import parse_type
from waybill.values.lake_values import value_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TYPES = [
    *("int", "bigint", "decimal(20,0)", "decimal(5,2)", "decimal(38,10)", "float", "double"),
    *("boolean", "binary", "date", "timestamp_ntz", "timestamp", "string"),
]
TEXTS = [
    *("0", "-0", "1", "007", "2147483647", "2147483648", "-2147483648", "-2147483649"),
    *("9223372036854775807", "9223372036854775808", "18446744073709551615", "9" * 20, "9" * 21),
    *("1.10", "1.100", "1.105", "999.99", "1000.00", "-999.990", "0.000", "00999.99"),
    *("1e400", "-1e400", "1e-400", "5e-324", "-0.0", "0e-999", "3.4028235e+38", "3.5e38", "1e-46"),
    *("1.7976931348623157e+308", "NaN", "Infinity", "-Infinity", "0.1", "1e16"),
    *("true", "false", "TRUE", "t", "yes", "", " ", "x", "null"),
    *("AA==", "AA=", "AP8=", "A", "////", "a b=="),
    *("2024-02-29", "2023-02-29", "0000-00-00", "0000-01-01", "-0043-03-15", "12024-01-01"),
    *("2024-1-5", "2024-01-05T", "infinity", "0001-01-01", "9999-12-31"),
    *("2024-01-02T03:04:05", "2024-01-02 03:04:05", "2024-01-02T03:04", "2024-01-02T24:00:00"),
    *("2024-01-02T03:04:05.1", "2024-01-02T03:04:05.123456", "2024-01-02T03:04:05.123456000"),
    *("2024-01-02T03:04:05.1234567", "2024-01-02T03:04:60", "2024-13-02T03:04:05"),
    *("2024-01-02T03:04:05Z", "2024-03-31T01:30:00.5Z", "2024-01-02T03:04:05+01:00"),
    *("0001-01-01T00:00:00", "9999-12-31T23:59:59.999999", "-0043-03-15T00:00:00Z"),
]


def test_sql_and_python_agree(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(text,) for text in TEXTS], "text string")
    checks = [f"({value_sql('text', type_)}) IS NOT NULL AS c{i}" for i, type_ in enumerate(TYPES)]
    found = {row.text: row for row in frame.selectExpr("text", *checks).collect()}
    wrong = [
        (text, type_, found[text][f"c{i}"])
        for text in TEXTS
        for i, type_ in enumerate(TYPES)
        if fits(text, type_) and not found[text][f"c{i}"]
    ]
    assert wrong == []
    loose = {
        (text, type_)
        for text in TEXTS
        for i, type_ in enumerate(TYPES)
        if found[text][f"c{i}"] and not fits(text, type_)
    }
    assert loose == set()


def test_declared_and_stated_digits_of_the_second_are_all_kept(spark: SparkSession) -> None:
    declared = (
        Column("declared", parse_type("timestamp")),
        Column("stated", parse_type("timestamptz"), "TIMESTAMP(9) WITH TIME ZONE"),
        Column("silent", parse_type("timestamp")),
    )
    schema = intern_schema("shop", None, "t", declared, ("declared",))
    columns = extend((), [schema], {"declared": parse_type("timestamp(12)")}, "shop.t", 0)
    texts = ["2024-05-06T07:08:09.123456789012", "2024-05-06T07:08:09.123456789Z"]
    fine = (
        f'{{"declared":"{texts[0]}","stated":"{texts[1]}","silent":"2024-05-06T07:08:09.123456"}}'
    )
    finer = '{"declared":null,"stated":null,"silent":"2024-05-06T07:08:09.123456789"}'
    frame = spark.createDataFrame([(fine, True), (finer, True)], "image string, live boolean")
    first, second = typed(frame, columns).collect()
    assert [first[value_name(0)], first[value_name(1)]] == texts
    assert first[value_name(2)].microsecond == 123456
    assert (first.misfit, second.misfit) == (False, True)
