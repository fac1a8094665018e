"""Values checked against the types that a migration declares."""

from __future__ import annotations

from decimal import Decimal

import pytest

from waybill.errors import Refusal
from waybill.types import parse_type
from waybill.values.declared import check_for, decimal_test


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        ("int8", "-128", "-128"),
        ("uint64", "18446744073709551615", "18446744073709551615"),
        ("decimal(38,10)", "1.10", "1.10"),
        ("decimal(38,10)", "1.10000000000000000000", "1.10000000000000000000"),
        ("decimal(5,5)", "0.12345", "0.12345"),
        ("decimal(5,0)", "-0", "-0"),
        ("decimal(3,1)", "1e1", "10"),
        ("number", "1e30", f"1{'0' * 30}"),
        ("number", "-123456789012345678901234567890.10", "-123456789012345678901234567890.10"),
        ("float64", "1.50", "1.5"),
        ("float64", "1e400", "1e400"),
        ("float64", "-Infinity", "-Infinity"),
        ("float32", "0.1", "0.1"),
        ("boolean", "1", "true"),
        ("boolean", "FALSE", "false"),
        ("bytes", "AP8=", "AP8="),
        ("timestamp", "2024-01-02 03:04:05.678", "2024-01-02T03:04:05.678"),
        ("timestamp", "0000-00-00 00:00:00", "0000-00-00 00:00:00"),
        ("timestamptz", "2024-01-02 03:04:05+00", "2024-01-02T03:04:05Z"),
        ("timestamptz", "2024-01-02T03:04:05.5Z", "2024-01-02T03:04:05.5Z"),
        ("timestamptz", "2024-01-02 03:04:05+08", "2024-01-02 03:04:05+08"),
    ],
)
def test_values_that_fit(kind, text, found):
    assert check_for(parse_type(kind))(text) == found


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *[
            ("int8", text)
            for text in ("128", "-129", "1.0", "1e2", "", "+1", " 1", "1_0", "１", "0x1")
        ],
        ("int64", "9" * 5000),
        *[("uint8", text) for text in ("-1", "256", "01")],
        *[("decimal(5,2)", text) for text in ("1.234", "1234", "x", "", "1,5", "NaN", "0.001")],
        *[("number", text) for text in ("x", "1_0", "Infinity", "1e999999999")],
        *[("float64", text) for text in ("x", "", "1,5", "0x1p3", "１", "1_0")],
        *[("boolean", text) for text in ("yes", "2", "")],
        *[("bytes", text) for text in ("a", "a===", "AP8", "AP_=", "AP8=\n")],
    ],
)
def test_values_that_do_not_fit_are_refused(kind, text):
    with pytest.raises(Refusal) as refusal:
        check_for(parse_type(kind))(text)
    assert refusal.value.kind == "value"
    assert len(refusal.value.sentence) < 300


@pytest.mark.parametrize("kind", ["string", "json", "enum", "xml", "interval", "date", "time"])
def test_every_text_is_a_value(kind):
    assert check_for(parse_type(kind)) is None


@pytest.mark.parametrize(
    ("kind", "text", "fits"),
    [
        ("numeric(3,5)", "0.00999", True),
        ("numeric(3,5)", "-0.009990", True),
        ("numeric(3,5)", "0", True),
        ("numeric(3,5)", "0.01", False),
        ("numeric(3,5)", "0.000001", False),
        ("numeric(3,5)", "1", False),
        ("NUMBER(5,-2)", "12300", True),
        ("NUMBER(5,-2)", "9999900", True),
        ("NUMBER(5,-2)", "10000000", False),
        ("NUMBER(5,-2)", "0.1", False),
    ],
)
def test_scales_beyond_the_digits(kind, text, fits):
    """PostgreSQL and Oracle have scales that are larger than the precision, or below zero."""
    check = check_for(parse_type(kind))
    if fits:
        assert check(text) == text
    else:
        with pytest.raises(Refusal, match="does not fit decimal"):
            check(text)


def test_a_scale_below_zero_is_digits_in_front_of_the_point():
    assert str(parse_type("NUMBER(5,-2)")) == "decimal(7,0)"
    assert str(parse_type("number(38, -10)")) == "decimal(48,0)"
    assert str(parse_type("enum('-1','2')")) == "enum"


@pytest.mark.parametrize("kind", ["decimal(-5,2)", "number(-5)", "bit(-1)", "timestamp(-3)"])
def test_a_size_below_zero_is_no_type(kind):
    with pytest.raises(ValueError, match="is not a column type"):
        parse_type(kind)


@pytest.mark.parametrize(("precision", "scale"), [(4, 1), (5, 5), (38, 10), (3, 0), (1, 0), (2, 4)])
@pytest.mark.parametrize(
    "text",
    [
        "0",
        "-0",
        "-0.0",
        "00",
        "1.",
        ".5",
        "999.9",
        "1000.0",
        "0.12345",
        "9.99999",
        "1e1",
        "+1",
        "٣",
    ],
)
def test_a_decimal_that_passes_the_test_is_held_as_it_is(
    precision: int, scale: int, text: str
) -> None:
    if decimal_test(precision, scale)(text):
        number = Decimal(text)
        assert str(number) == text
        assert number == number.quantize(Decimal(1).scaleb(-scale))
        assert abs(number) < Decimal(1).scaleb(precision - scale)
