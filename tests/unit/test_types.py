"""Column types, logical and of the sources."""

from __future__ import annotations

import time

import pytest

from waybill.types import LogicalType, parse_type


@pytest.mark.parametrize(
    ("text", "dialect", "expected"),
    [
        ("decimal(38,10)", "", "decimal(38,10)"),
        ("numeric(60, 30)", "", "decimal(60,30)"),
        ("decimal(10)", "", "decimal(10,0)"),
        ("NUMERIC", "", "number"),
        ("bigint(20) unsigned", "mysql", "uint64"),
        ("int unsigned zerofill", "mysql", "uint32"),
        ("tinyint(1)", "mysql", "int8"),
        ("int8", "", "int8"),
        ("int8", "postgresql", "int64"),
        ("serial", "mysql", "uint64"),
        ("serial", "postgresql", "int32"),
        ("serial8", "postgresql", "int64"),
        ("int1 unsigned", "mysql", "uint8"),
        ("int3", "mysql", "int32"),
        ("middleint unsigned", "mysql", "uint32"),
        ("int2", "mysql", "int16"),
        ("int4", "mysql", "int32"),
        ("real", "mysql", "float64"),
        ("real", "postgresql", "float32"),
        ("float", "mysql", "float32"),
        ("float(25)", "mysql", "float64"),
        ("float(7,4)", "mysql", "float32"),
        ("float", "postgresql", "float64"),
        ("float(24)", "postgresql", "float32"),
        ("long varbinary", "mysql", "bytes"),
        ("multipolygon", "mysql", "geometry"),
        ("timestamp(6)", "mysql", "timestamptz"),
        ("timestamp(6)", "", "timestamp(6)"),
        ("datetime(3)", "", "timestamp(3)"),
        ("datetime(3)", "mysql", "timestamp"),
        ("timestamp(0) without time zone", "", "timestamp(0)"),
        ("timestamp(3) with time zone", "postgresql", "timestamptz"),
        ("time(3)", "", "time(3)"),
        ("timestamp", "", "timestamp"),
        ("double precision", "", "float64"),
        ("enum('new','it''s (odd)','完成')", "mysql", "enum"),
        ("set('a','b')", "mysql", "set"),
        ("bit(1)", "mysql", "boolean"),
        ("bit(8)", "", "bit(8)"),
        ("longblob", "mysql", "bytes"),
        (" VARCHAR(20) ", "", "string"),
    ],
)
def test_known_types(text: str, dialect: str, expected: str) -> None:
    assert str(parse_type(text, dialect)) == expected


@pytest.mark.parametrize("text", ["", "wibble", "decimal(", "varchar(20); drop table x"])
def test_unknown_types_say_what_is_known(text: str) -> None:
    with pytest.raises(ValueError, match=r"logical types are|is not a column type"):
        parse_type(text)


def test_every_logical_type_reads_back() -> None:
    for kind in ["int64", "uint64", "number", "json", "timestamptz", "unknown"]:
        assert parse_type(str(LogicalType(kind))) == LogicalType(kind)
    assert parse_type(str(LogicalType("decimal", 38, 10))) == LogicalType("decimal", 38, 10)
    assert parse_type(str(LogicalType("bit", 12))) == LogicalType("bit", 12)
    assert parse_type(str(LogicalType("time", 0))) == LogicalType("time", 0)


@pytest.mark.parametrize(
    "text",
    [
        f"int{' ' * 2_000}!",
        f"int{' ' * 2_000}x{' ' * 2_000}!",
        f"timestamp{' ' * 2_000}({' ' * 2_000}1{' ' * 2_000})!",
        f"int{' unsigned' * 5_000}!",
        f"int({') unsigned' * 5_000}!",
        f"enum({chr(39) * 5_001}",
    ],
)
def test_no_text_takes_long_to_tell(text: str) -> None:
    """Messages bring the names of types, and hostile ones bring any text."""
    started = time.monotonic()
    with pytest.raises(ValueError, match="is not a column type"):
        parse_type(text, "mysql")
    assert time.monotonic() - started < 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [("double   precision", "float64"), ("INT (10)  UNSIGNED  ZEROFILL", "uint32")],
)
def test_blanks_between_the_words_of_a_type(text: str, expected: str) -> None:
    assert str(parse_type(text, "mysql")) == expected


@pytest.mark.parametrize("text", [f"decimal({'9' * 13},5)", f"number(5,-{'9' * 13})"])
def test_a_size_that_no_number_has_is_not_believed(text: str) -> None:
    assert parse_type(text, "mysql") == LogicalType("number")
