"""Rows that a condition takes: verification says the same of them as the lake."""

from __future__ import annotations

import pytest

from waybill.mapping.changes import ChangeMapper
from waybill.mapping.rules import MappingRule, Rules
from waybill.merge.columns import MergedColumn
from waybill.merge.state import TableState
from waybill.records import Column, intern_schema
from waybill.types import parse_type
from waybill.verify.canonical import MYSQL, POSTGRESQL, SourceColumn
from waybill.verify.database import SourceTable
from waybill.verify.mapped_sources import MappedSource
from waybill.verify.mysql import _column as mysql_column
from waybill.verify.plan import CanonicalRows, Compared, _compared
from waybill.verify.postgresql import _column as postgresql_column


def column(dialect: str, name: str, declared: str) -> SourceColumn:
    if dialect == MYSQL:
        return mysql_column(name, declared, declared.split("(")[0].split()[0])
    return postgresql_column(name, declared)


def rules(where: str) -> Rules:
    return Rules(of_tables=(MappingRule(("*",), where=where),))


def table(dialect: str, type_: str):
    columns = (Column("id", parse_type("int64")), Column("c", parse_type(type_)))
    schema = "s" if dialect == POSTGRESQL else None
    return intern_schema("d", schema, "t", columns, ("id",), dialect)


def compared(dialect: str, declared: str, type_: str, where: str) -> Compared:
    columns = column(dialect, "id", "bigint"), column(dialect, "c", declared)
    mapped = ChangeMapper(rules(where)).of(table(dialect, type_))
    held = (MergedColumn("id", "id", "bigint"), MergedColumn("c", "c", "string"))
    known = TableState(("d", "s", "t"), ("id",), held)
    return _compared("t", "lake.t", known, MappedSource(SourceTable(("s", "t"), columns), mapped))


@pytest.mark.parametrize(
    ("dialect", "declared", "type_", "database", "lake", "where"),
    [
        (POSTGRESQL, "character(3)", "string", "A  ", "A  ", "c = 'A'"),
        (POSTGRESQL, "character(3)", "string", "A  ", "A  ", "c = 'A  '"),
        (POSTGRESQL, "character(3)", "string", "A  ", "A  ", "c LIKE 'A__'"),
        (POSTGRESQL, "character(3)", "string", "A  ", "A  ", "LENGTH(c) = 3"),
        (POSTGRESQL, "text", "string", "A  ", "A  ", "c = 'A'"),
        (MYSQL, "tinyint(1)", "boolean", "1", "true", "c"),
        (MYSQL, "tinyint(1)", "boolean", "0", "false", "c"),
        (MYSQL, "tinyint(1)", "boolean", "0", "false", "NOT c"),
        (MYSQL, "tinyint(1)", "int8", "1", "1", "c = 1"),
        (MYSQL, "bit(1)", "boolean", "1", "true", "c"),
        (POSTGRESQL, "bit(1)", "boolean", "1", "true", "c"),
        (POSTGRESQL, "boolean", "boolean", "t", "true", "c"),
        (POSTGRESQL, "boolean", "boolean", "f", "false", "c = FALSE"),
        (MYSQL, "decimal(10,2)", "string", "1.50", "1.50", "c = '1.50'"),
        (MYSQL, "decimal(10,2)", "string", "1.50", "1.50", "c = '1.5'"),
        (MYSQL, "decimal(10,2)", "decimal(10,2)", "1.50", "1.50", "c = 1.5"),
        (POSTGRESQL, "numeric", "number", "1.500", "1.500", "c = 1.5"),
        (POSTGRESQL, "numeric", "number", "NaN", "NaN", "c > 5"),
        (POSTGRESQL, "numeric", "number", "Infinity", "Infinity", "c > 5"),
        (POSTGRESQL, "real", "float32", "1.1", "1.1", "c = 1.1"),
        (MYSQL, "float", "float32", "1.100000023841858", "1.1", "c = 1.1"),
        (MYSQL, "int(5) unsigned zerofill", "int64", "00042", "42", "c = 42"),
        (MYSQL, "int", "string", "7", "7", "c = '7'"),
        (MYSQL, "year", "int16", "2024", "2024", "c = 2024"),
        (MYSQL, "enum('a','b')", "enum", "a", "a", "c = 'a'"),
        (MYSQL, "varchar(9)", "int32", "007", "7", "c = 7"),
        (POSTGRESQL, "uuid", "string", "a-b", "a-b", "c = 'a-b'"),
        (POSTGRESQL, "date", "date", "2026-11-01", "2026-11-01", "c >= '2026-11-01'"),
        (POSTGRESQL, "date", "date", "0044-03-15 BC", "-0043-03-15", "c > '0001-01-01'"),
        (POSTGRESQL, "date", "date", "10000-01-01", "+10000-01-01", "c > '2026-01-01'"),
        (POSTGRESQL, "date", "date", "infinity", "infinity", "c > '2026-01-01'"),
        (
            *(POSTGRESQL, "timestamp without time zone", "timestamp"),
            *("10000-01-01 00:00:00", "+10000-01-01T00:00:00.000000", "c > '2026-01-01'"),
        ),
        (
            *(POSTGRESQL, "timestamp with time zone", "timestamptz"),
            *("2026-01-01 00:00:00.5+00", "2026-01-01T00:00:00.500Z", "c > '2026-01-01Z'"),
        ),
        (
            *(MYSQL, "timestamp", "timestamptz"),
            *("2020-01-01 00:00:00", "2020-01-01T00:00:00Z", "c < '2020-01-01T00:00:01Z'"),
        ),
        (
            *(MYSQL, "datetime", "timestamp"),
            *("0000-00-00 00:00:00", "0000-00-00 00:00:00", "c < '2026-01-01'"),
        ),
        (MYSQL, "time(3)", "time", "-01:00:00.000", "-01:00:00.000", "c = '-01:00:00'"),
        (POSTGRESQL, "jsonb", "json", "{}", "{}", "c IS NOT NULL"),
        (POSTGRESQL, "double precision", "string", "1.5", "1.50", "c IS NOT NULL"),
        (POSTGRESQL, "text[]", "string", "{a}", '["a"]', "(c) IS NOT NULL"),
    ],
)
def test_the_same_rows_are_taken(dialect, declared, type_, database, lake, where):
    schema = table(dialect, type_)
    holds = ChangeMapper(rules(where)).of(schema).holds(schema.Image("1", lake))
    found = compared(dialect, declared, type_, where)
    assert found.why_not == ""
    texts = CanonicalRows(found)
    assert (texts.of_database(("1", database)) is not None) is (holds is True)
    nothing = ChangeMapper(rules(where)).of(schema).holds(schema.Image("1", None))
    assert (texts.of_database(("1", None)) is not None) is (nothing is True)


@pytest.mark.parametrize(
    ("dialect", "declared", "type_", "where"),
    [
        (POSTGRESQL, "double precision", "string", "c = '1.5'"),
        (POSTGRESQL, "boolean", "string", "c = 'true'"),
        (POSTGRESQL, "boolean", "int8", "c = 1"),
        (POSTGRESQL, "text[]", "string", "c = 'a'"),
        (POSTGRESQL, "text[]", "string", "c IS NULL OR (c) <> 'a'"),
        (POSTGRESQL, "jsonb", "string", "c LIKE '%a%'"),
        (POSTGRESQL, "timestamp without time zone", "string", "c = 'x'"),
        (POSTGRESQL, "timestamp without time zone", "timestamptz", "c > '2026-01-01Z'"),
        (MYSQL, "datetime", "timestamptz", "c > '2026-01-01Z'"),
        (MYSQL, "timestamp", "timestamp", "c > '2026-01-01'"),
        (MYSQL, "tinyint(1)", "string", "c = '1'"),
        (MYSQL, "year", "string", "c = '2024'"),
        (MYSQL, "int(5) unsigned zerofill", "string", "c = '00042'"),
    ],
)
def test_a_condition_on_values_with_several_texts_is_not_compared(dialect, declared, type_, where):
    found = compared(dialect, declared, type_, where)
    assert found.is_skipped
    assert found.where is not None, "so its rows are not counted either"
    assert found.why_not.startswith("not compared, because the condition of map asks for c, and ")


@pytest.mark.parametrize(
    ("declared", "type_", "value", "where"),
    [
        ("tinyint(1)", "boolean", "5", "c"),
        ("varchar(9)", "int32", "seven", "c = 7"),
        ("varchar(9)", "decimal(3,1)", "1.25", "c = 1"),
        ("varchar(9)", "boolean", "yes", "c"),
        ("varchar(9)", "date", "soon", "c < '2024-01-01'"),
    ],
)
def test_a_row_whose_change_was_refused_is_to_be_seen(declared, type_, value, where):
    texts = CanonicalRows(compared(MYSQL, declared, type_, where))
    assert texts.of_database(("1", value)) == ("1", value)
