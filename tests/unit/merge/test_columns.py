"""Columns of merged tables: types, names, and what may change."""

from __future__ import annotations

import pytest

from waybill.errors import SchemaChangeError
from waybill.lake_columns import lake_name
from waybill.merge.column_changes import extend
from waybill.merge.columns import MergedColumn, lake_type
from waybill.merge.exact_casts import fits, misfit
from waybill.records import Column as SourceColumn
from waybill.records import intern_schema
from waybill.types import parse_type


@pytest.mark.parametrize(
    ("logical", "lake"),
    [
        ("int8", "int"),
        ("uint16", "int"),
        ("uint32", "bigint"),
        ("int64", "bigint"),
        ("uint64", "decimal(20,0)"),
        ("decimal(38,10)", "decimal(38,10)"),
        ("decimal(60,10)", "string"),
        ("decimal(3,5)", "string"),
        ("number", "string"),
        ("float32", "float"),
        ("float64", "double"),
        ("boolean", "boolean"),
        ("bit(8)", "binary"),
        ("bytes", "binary"),
        ("geometry", "binary"),
        ("date", "date"),
        ("time", "string"),
        ("timestamp", "timestamp_ntz"),
        ("timestamp(6)", "timestamp_ntz"),
        ("timestamp(7)", "string"),
        ("timestamptz", "timestamp"),
        ("timestamptz(12)", "string"),
        ("json", "string"),
        ("unknown", "string"),
    ],
)
def test_lake_types(logical, lake):
    assert lake_type(parse_type(logical)) == lake


def schema(**columns):
    declared = tuple(SourceColumn(name, parse_type(text)) for name, text in columns.items())
    return intern_schema("shop", None, "t", declared, ("id",))


def grown(before, after, in_lake=True, declared=None):
    columns = extend((), [schema(c=before)], {}, "shop.t", 0)
    rules = {name: parse_type(text) for name, text in (declared or {}).items()}
    (column,) = extend(columns, [schema(c=after)], rules, "shop.t", 1 if in_lake else 0)
    return column.type


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("int32", "int64", "bigint"),
        ("int64", "int32", "bigint"),
        ("float32", "float64", "double"),
        ("decimal(10,2)", "decimal(12,2)", "decimal(12,2)"),
        ("decimal(12,2)", "decimal(10,1)", "decimal(12,2)"),
        ("uint64", "int64", "decimal(20,0)"),
        ("string", "int64", "string"),
        ("int64", "unknown", "bigint"),
        ("number", "decimal(10,2)", "string"),
    ],
)
def test_a_column_in_the_lake_widens(before, after, expected):
    assert grown(before, after) == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("int64", "string"),
        ("int64", "uint64"),
        ("decimal(10,2)", "decimal(12,4)"),
        ("date", "timestamp"),
        ("timestamp", "timestamptz"),
        ("string", "bytes"),
    ],
)
def test_other_changes_have_to_be_decided(before, after):
    if before == "string":
        assert grown(before, after) == "string"
        return
    with pytest.raises(SchemaChangeError, match=r"column c of shop\.t is .* declare a type"):
        grown(before, after)


def test_before_the_lake_has_it_a_column_takes_what_holds_both():
    assert grown("int64", "uint64", in_lake=False) == "decimal(20,0)"
    assert grown("decimal(10,2)", "decimal(12,4)", in_lake=False) == "decimal(12,4)"
    assert grown("decimal(38,2)", "decimal(38,2)", in_lake=False) == "decimal(38,2)"
    assert grown("unknown", "int32", in_lake=False) == "int"
    assert grown("unknown", "int32", in_lake=True) == "string"


def test_a_declared_type_goes_first():
    columns = extend((), [schema(c="int64")], {"c": parse_type("string")}, "shop.t", 0)
    assert columns[0].type == "string"
    assert grown("int32", "int32", declared={"c": "int64"}) == "bigint"
    with pytest.raises(SchemaChangeError):
        grown("int64", "int64", declared={"c": "date"})


@pytest.mark.parametrize(
    ("name", "taken", "expected"),
    [
        ("id", [], "id"),
        ("Order Date", [], "Order Date"),
        ("完成", [], "完成"),
        ("a'b\"c", [], "a'b\"c"),
    ],
)
def test_a_name_is_kept_where_it_can_be(name, taken, expected):
    assert lake_name(name, taken) == expected


@pytest.mark.parametrize(
    ("name", "taken", "begins"),
    [
        ("ID", ["id"], "ID_"),
        ("_waybill_key", [], "waybill_key_"),
        ("_WAYBILL_X", [], "WAYBILL_X_"),
        ("_file", [], "file_"),
        ("a.b", [], "a_b_"),
        ("a`b", [], "a_b_"),
        ("{branch}", [], "branch_"),
        ("", [], "column_"),
        ("...", [], "column_"),
        ("a\nb", [], "a_b_"),
    ],
)
def test_a_name_that_cannot_stand_is_replaced_by_rule(name, taken, begins):
    found = lake_name(name, taken)
    assert found.startswith(begins)
    assert len(found) == len(begins) + 8
    assert found == lake_name(name, taken)


def test_two_columns_that_differ_in_case_only():
    both = extend((), [schema(Id="int64", iD="string")], {}, "shop.t", 0)
    assert both[0].lake == "Id"
    assert both[1].lake.startswith("iD_")


@pytest.mark.parametrize(
    ("text", "type_", "expected"),
    [
        ("2147483647", "int", True),
        ("2147483648", "int", False),
        ("1.0", "int", False),
        (" 1", "int", False),
        ("18446744073709551615", "decimal(20,0)", True),
        ("1.10", "decimal(3,2)", True),
        ("1.100", "decimal(3,2)", True),
        ("1.105", "decimal(3,2)", False),
        ("11.10", "decimal(3,2)", False),
        ("1e400", "double", False),
        ("1e-400", "double", False),
        ("5e-324", "double", True),
        ("-0.0", "double", True),
        ("0e-999", "double", True),
        ("3.5e38", "float", False),
        ("NaN", "float", True),
        ("TRUE", "boolean", False),
        ("AA==", "binary", True),
        ("AA=", "binary", False),
        ("2024-02-29", "date", True),
        ("2023-02-29", "date", False),
        ("0000-00-00", "date", False),
        ("-0043-03-15", "date", True),
        ("infinity", "timestamp_ntz", False),
        ("2024-01-02T03:04:05.123456", "timestamp_ntz", True),
        ("2024-01-02T03:04:05.1234560", "timestamp_ntz", True),
        ("2024-01-02T03:04:05.1234567", "timestamp_ntz", False),
        ("2024-01-02T24:00:00", "timestamp_ntz", False),
        ("2024-01-02T03:04:05Z", "timestamp_ntz", False),
        ("2024-01-02T03:04:05Z", "timestamp", True),
        ("2024-01-02T03:04:05", "timestamp", False),
        ("anything", "string", True),
    ],
)
def test_what_fits(text, type_, expected):
    assert fits(text, type_) is expected


def test_a_misfit_says_which_column_and_value():
    columns = [MergedColumn("n", "n", "int"), MergedColumn("t", "t", "string")]
    assert misfit({"n": None, "t": "x"}, columns) is None
    assert misfit({"t": "x"}, columns) is None
    assert misfit({"n": "x"}, columns) == "column n is int in the lake and cannot hold 'x'"


@pytest.mark.parametrize(
    ("source", "lake"),
    [
        ("TIMESTAMP(6)", "timestamp_ntz"),
        ("TIMESTAMP(9)", "string"),
        ("DATETIME2(7)", "string"),
        ("TIMESTAMP(12)", "string"),
        ("io.debezium.time.MicroTimestamp", "timestamp_ntz"),
        ("io.debezium.time.NanoTimestamp", "string"),
        ("timestamp", "timestamp_ntz"),
    ],
)
def test_digits_of_the_second_that_the_source_states(source, lake):
    declared = (SourceColumn("c", parse_type("timestamp"), source),)
    (column,) = extend((), [intern_schema("shop", None, "t", declared, ("c",))], {}, "shop.t", 0)
    assert column.type == lake


def test_a_declaration_goes_before_the_digits_that_the_source_states():
    declared = (SourceColumn("c", parse_type("timestamp"), "TIMESTAMP(9)"),)
    schemas = [intern_schema("shop", None, "t", declared, ("c",))]
    (column,) = extend((), schemas, {"c": parse_type("timestamp(6)")}, "shop.t", 0)
    assert column.type == "timestamp_ntz"


def test_more_digits_of_the_second_for_a_column_that_is_there():
    assert grown("timestamp", "timestamp(9)", in_lake=False) == "string"
    assert grown("timestamp(9)", "timestamp", in_lake=True) == "string"
    for declared in (None, {"c": "timestamp(9)"}):
        with pytest.raises(SchemaChangeError, match=r"c: timestamp\(9\)}}}, under a new migration"):
            grown("timestamp", "timestamp(9)", declared=declared)
    with pytest.raises(SchemaChangeError, match="c: string"):
        grown("timestamp", "timestamptz(9)", in_lake=False)


@pytest.mark.parametrize(
    ("type_", "text", "declaration"),
    [
        ("timestamp_ntz", "2024-05-06T07:08:09.123456789", "timestamp(9)"),
        ("timestamp_ntz", "2024-05-06T07:08:09.123456700", "timestamp(7)"),
        ("timestamp", "2024-05-06T07:08:09.1234567890123Z", "timestamptz(12)"),
    ],
)
def test_a_finer_time_is_refused_with_the_declaration_that_keeps_it(type_, text, declaration):
    said = misfit({"c": text}, [MergedColumn("c", "c", type_)])
    assert said == (
        f"column c is {type_} in the lake and cannot hold {text!r}: declare the column as "
        f"{declaration}, which keeps every digit as text, under a new migration name if the table "
        "is in the lake already"
    )


@pytest.mark.parametrize("text", ["2024-02-30T07:08:09.123456789", "x.123456789", "infinity"])
def test_what_is_no_time_gets_no_declaration(text):
    said = misfit({"c": text}, [MergedColumn("c", "c", "timestamp_ntz")])
    assert said == f"column c is timestamp_ntz in the lake and cannot hold {text!r}"
