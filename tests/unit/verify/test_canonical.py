"""One text for each value, from the database's notation and from that of the lake."""

from __future__ import annotations

import pytest

from waybill.mapping.changes import ChangeMapper
from waybill.mapping.rules import MappingRule, Mask, Rules
from waybill.merge.columns import MergedColumn
from waybill.merge.state import TableState
from waybill.records import Column, TableSchema
from waybill.types import LogicalType, parse_type
from waybill.verify.canonical import MYSQL, POSTGRESQL, SourceColumn, of_database, of_lake
from waybill.verify.database import SourceTable
from waybill.verify.mapped_sources import MappedSource
from waybill.verify.mysql import _column as mysql_column
from waybill.verify.plan import CanonicalRows, _compared
from waybill.verify.postgresql import _column as postgresql_column
from waybill.verify.postgresql import _literal as postgresql_literal


def column(declared: str, dialect: str) -> SourceColumn:
    if dialect == MYSQL:
        return mysql_column("c", declared, declared.split("(")[0].split()[0])
    return postgresql_column("c", declared)


EQUAL = [
    (POSTGRESQL, "numeric(10,2)", "1.10", "1.1"),
    (POSTGRESQL, "numeric(10,2)", "0.00", "-0"),
    (POSTGRESQL, "numeric(10,2)", "NaN", "NaN"),
    (POSTGRESQL, "numeric", "1.10", "1.10"),
    (POSTGRESQL, "double precision", "1e+22", "1.0E22"),
    (POSTGRESQL, "double precision", "-0", "-0.0"),
    (POSTGRESQL, "double precision", "NaN", "NaN"),
    (POSTGRESQL, "real", "1.1", "1.1"),
    (POSTGRESQL, "boolean", "t", "true"),
    (POSTGRESQL, "bit(1)", "1", "true"),
    (POSTGRESQL, "bit(9)", "100000001", "AQE="),
    (POSTGRESQL, "bit varying", "", ""),
    (POSTGRESQL, "bytea", "\\x", ""),
    (POSTGRESQL, "bytea", "\\x00ff", "AP8="),
    (POSTGRESQL, "character(6)", "ab    ", "ab"),
    (
        POSTGRESQL,
        "timestamp(6) without time zone",
        "2020-11-25 00:01:02",
        "2020-11-25T00:01:02.000",
    ),
    (POSTGRESQL, "timestamp without time zone", "infinity", "infinity"),
    (POSTGRESQL, "timestamp without time zone", "infinity", "9223372036825200000"),
    (
        POSTGRESQL,
        "timestamp with time zone",
        "2020-11-25 00:01:02.5+00",
        "2020-11-25T00:01:02.500Z",
    ),
    (
        POSTGRESQL,
        "timestamp with time zone",
        "0001-01-01 00:00:00+00 BC",
        "0001-01-01 00:00:00+00 BC",
    ),
    (POSTGRESQL, "time without time zone", "24:00:00", "24:00:00"),
    (POSTGRESQL, "time with time zone", "00:30:00.50+02", "22:30:00.5Z"),
    (POSTGRESQL, "interval", "P1Y2M-3DT4H5M6.780S", "1 year 2 mons -3 days 04:05:06.78"),
    (POSTGRESQL, "interval", "PT-0.5S", "P0Y0M0DT0H0M-0.5S"),
    (POSTGRESQL, "jsonb", '{"b": [1.0, "x"], "a": null}', '{"a":null,"b":[1,"x"]}'),
    (POSTGRESQL, "json", "not json", "not json"),
    (POSTGRESQL, "bigint[]", "{1,NULL,3}", "[1,null,3]"),
    (POSTGRESQL, "text[]", '{{a,"b \\"q,"},{NULL,"NULL"}}', '[["a","b \\"q,"],[null,"NULL"]]'),
    (POSTGRESQL, "text[]", "{}", "[]"),
    (POSTGRESQL, "numeric(8,2)[]", "[0:1]={1.10,2}", "[1.1,2.00]"),
    (POSTGRESQL, "boolean[]", "{t,f}", "[true,false]"),
    (POSTGRESQL, "point", "(1,2)", "(1,2)"),
    (MYSQL, "float", "1.100000023841858", "1.1"),
    (MYSQL, "bit(4)", "5", "BQ=="),
    (MYSQL, "bit(1)", "1", "true"),
    (MYSQL, "tinyint(1)", "1", "true"),
    (MYSQL, "int(5) unsigned zerofill", "00042", "42"),
    (MYSQL, "bigint(20) unsigned", "18446744073709551615", "18446744073709551615"),
    (MYSQL, "time(3)", "-838:59:59.000", "-838:59:59"),
    (MYSQL, "datetime", "0000-00-00 00:00:00", "0000-00-00 00:00:00"),
    (MYSQL, "timestamp", "2020-01-01 00:00:00", "2020-01-01T00:00:00Z"),
    (MYSQL, "varbinary(9)", "00FF", "AP8="),
    (MYSQL, "year(4)", "0000", "0"),
    (MYSQL, "year", "2024", "2024"),
    (MYSQL, "json", '{"a": [1e30, null], "bb": 1.0}', '{"bb":1,"a":[1.0E30,null]}'),
    (MYSQL, "vector(3)", "0000803FCDCCCC3D000020C1", "[1.0, 0.1, -10.0]"),
    (MYSQL, "vector(3)", "0000803FCDCCCC3D000020C1", "AACAP83MzD0AACDB"),
    (MYSQL, "vector(2)", "no vector", "no vector"),
    (MYSQL, "vector(2)", "[1,null]", "[1,null]"),
]


@pytest.mark.parametrize(("dialect", "declared", "theirs", "ours"), EQUAL)
def test_what_is_equal_and_only_written_otherwise(dialect, declared, theirs, ours):
    type_ = column(declared, dialect)
    assert of_database(type_)(theirs) == of_lake(type_)(ours)


@pytest.mark.parametrize(
    ("dialect", "declared", "theirs", "ours"),
    [
        (POSTGRESQL, "numeric", "1.10", "1.1"),
        (POSTGRESQL, "numeric(10,2)", "1.10", "1.11"),
        (POSTGRESQL, "text", "a", "a "),
        (POSTGRESQL, "text", "NULL", ""),
        (POSTGRESQL, "bit(9)", "100000001", "AQA="),
        (POSTGRESQL, "jsonb", "[1]", '["1"]'),
        (POSTGRESQL, "jsonb", '{"a": 1, "b": 2}', '{"a": 2, "b": 1}'),
        (POSTGRESQL, "text[]", "{NULL}", '["NULL"]'),
        (POSTGRESQL, "text[]", "{{a}}", '["a"]'),
        (POSTGRESQL, "interval", "P1D", "PT24H"),
        (POSTGRESQL, "interval", "P1M", "P30D"),
        (POSTGRESQL, "timestamp with time zone", "2020-11-25 00:00:00+00", "2020-11-25T00:00:00"),
        (POSTGRESQL, "double precision", "1.5", "1.5000000000000002"),
        (MYSQL, "bit(4)", "5", "BA=="),
        (MYSQL, "datetime", "0000-00-00 00:00:00", "1970-01-01T00:00:00"),
        (MYSQL, "time", "24:00:00", "00:00:00"),
        (MYSQL, "varchar(9)", "\u00e9", "e\u0301"),
        (MYSQL, "json", '{"a": 1.5}', '{"a": 1.51}'),
        (MYSQL, "vector(1)", "CDCCCC3D", "[0.10000001]"),
        (MYSQL, "vector(1)", "0000803F", "[1.0, 1.0]"),
        (MYSQL, "vector(1)", "0000803F", "[1e999]"),
    ],
)
def test_what_differs(dialect, declared, theirs, ours):
    type_ = column(declared, dialect)
    assert of_database(type_)(theirs) != of_lake(type_)(ours)


def test_types_are_read_as_the_database_writes_them():
    assert column("money", POSTGRESQL).type == parse_type("decimal(19,2)")
    assert str(column("bigint unsigned", MYSQL).type) == "uint64"
    assert str(column("geometrycollection", MYSQL).type) == "geometry"
    assert str(column("bpchar", POSTGRESQL).type) == "string"
    assert column("bpchar", POSTGRESQL).padded


BIT_TEXTS = ["", "0", "1", "01", "0001", "00000001", "1000"]


def compared_bits(declared: str, lake_type: str, mask: Mask | None = None):
    """A table with one such column, which the lake has in a type; see `waybill.verify.plan`."""
    columns = column("bigint", POSTGRESQL)._replace(name="id"), column(declared, POSTGRESQL)
    schema = TableSchema(
        database="d",
        schema="s",
        table="t",
        columns=tuple(Column(one.name, one.type) for one in columns),
        key=("id",),
    )
    rules = Rules(of_tables=(MappingRule(("*",), masks={"c": mask}),)) if mask else Rules()
    mapped = ChangeMapper(rules).of(schema)
    assert mapped is not None
    held = (MergedColumn("id", "id", "bigint"), MergedColumn("c", "c", lake_type))
    known = TableState(("d", "s", "t"), ("id",), held)
    one = MappedSource(SourceTable(("s", "t"), columns), mapped)
    return _compared("d.s.t", "lake.d.t", known, one)


@pytest.mark.parametrize("declared", ["bit varying", "bit varying(8)", "bit varying(1)"])
def test_bits_of_any_length_are_compared_with_their_length_where_the_lake_has_it(declared: str):
    """Text that is no Base64, though "0001" could be some."""
    texts = CanonicalRows(compared_bits(declared, "string"))
    for theirs in BIT_TEXTS:
        for ours in BIT_TEXTS:
            equal = texts.of_database(("1", theirs)) == texts.of_image({"id": "1", "c": ours})
            assert equal is (theirs == ours), (theirs, ours)
    (read,) = [one for one in compared_bits(declared, "string").read if one.name == "c"]
    assert postgresql_literal(read, "0001") == "0001", "a key, as the database reads it again"


def test_bits_of_any_length_that_the_lake_has_as_bytes_are_compared_by_their_number():
    """Debezium writes as many bytes as the column has, so nobody knows the length of a value."""
    texts = CanonicalRows(compared_bits("bit varying(8)", "binary"))
    ones = {texts.of_database(("1", theirs)) for theirs in ("1", "01", "00000001")}
    assert ones == {texts.of_image({"id": "1", "c": "AQ=="})}
    assert texts.of_database(("1", "10")) not in ones


def test_a_mask_of_bits_is_no_text_of_theirs():
    mask = Mask("text", "***")
    (_, masked) = compared_bits("bit varying(8)", "string", mask).columns
    assert masked.type == LogicalType("bit", 8)
