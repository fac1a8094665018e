"""Texts of values, with the edges of every logical type among them."""

from __future__ import annotations

import base64
from functools import cache
from typing import Any

from hypothesis import strategies as st

from waybill.types import INTEGER_RANGE, LogicalType


def _integer_edges(kind: str) -> list[str]:
    low, high = INTEGER_RANGE[kind]
    near = {low, low + 1, -1, 0, 1, 7, high - 1, high}
    return [str(n) for n in sorted(near) if low <= n <= high]


EDGES: dict[str, list[str]] = {
    **{kind: _integer_edges(kind) for kind in INTEGER_RANGE},
    "boolean": ["true", "false"],
    "number": [
        *("0", "-0", "1.10", "-1.10", "0.000000000000000000000000000001", "100.00"),
        "123456789012345678901234567890",
        "-12345678901234567890123456789012345678901234567890.1234567890",
        f"1{'0' * 400}",
        f"0.{'0' * 399}1",
        "9007199254740993",
        "18446744073709551616",
    ],
    "float32": ["0.0", "-0.0", "1.5", "0.1", "3.4028235e+38", "1e-45", "16777216.0"],
    "float64": [
        *("0.0", "-0.0", "1.1", "-2.5", "0.1", "1e+16", "1e-07", "123456789.123456"),
        *("1.7976931348623157e+308", "5e-324", "2.2250738585072014e-308", "9007199254740992.0"),
    ],
    "string": [
        *(
            "",
            " ",
            "a",
            "plain text",
            "naïve “quoted” 'text'",
            'say "hi": now\\',
            "完成",
            "\U0001f600",
        ),
        *("null", "NULL", "true", "1.10", "007", "{}", "[1]", "a\tb\nc\r\n", "\u0000", "\u0001x"),
        *("\u2028\u2029", "\ufeffbom", "\x7f\x80", "e\u0301", "a:b", '":', "</script>", "'; --"),
    ],
    "enum": ["new", "it's", "完成"],
    "set": ["a,b", "", "d e"],
    "json": ['{"a": 1.10, "b": [null, "x"]}', "[]", '"text"', "1e400", '{"a":"\\u0000"}'],
    "interval": ["P1Y2M3DT4H5M6.789S", "1 year 2 mons"],
    "xml": ['<a b="c">d &amp; e</a>'],
    "bytes": ["", "AA==", "AP8=", "//79/A==", base64.b64encode(bytes(range(256))).decode()],
    "geometry": ["AQEAAAAAAAAAAADwPwAAAAAAAABA"],
    "date": ["1970-01-01", "2024-02-29", "1000-01-01", "9999-12-31", "1969-12-31"],
    "time": ["00:00:00", "23:59:59.999999", "12:30:00.5", "10:11:12.123"],
    "timestamp": [
        *("1970-01-01T00:00:00", "2024-02-29T23:59:59.999999", "1999-12-31T12:00:00.123"),
        *("1000-01-01T00:00:00", "9999-12-31T23:59:59.999999", "2024-03-31T02:30:00"),
    ],
    "timestamptz": [
        *("1970-01-01T00:00:00Z", "2024-02-29T23:59:59.999999Z", "2038-01-19T03:14:07.999Z"),
        *("1970-01-01T00:00:01.5Z", "2024-11-03T05:30:00Z"),
    ],
}
"""Texts of each type that any envelope for it should carry, its limits and traps among them."""

HARD: dict[str, list[str]] = {
    **{kind: [str(10**30), "-0", "007", "abc"] for kind in INTEGER_RANGE},
    "boolean": ["1", "maybe"],
    "float32": ["NaN", "Infinity", "-Infinity", "1e400", "0.12345678901234567890"],
    "float64": ["NaN", "Infinity", "-Infinity", "1e400", "9007199254740993", "0." + "1" * 30],
    "number": ["NaN"],
    "decimal": ["NaN", "1" * 60, "0." + "1" * 60],
    "bytes": ["not base64", "AA"],
    "date": ["0000-00-00", "2024-02-30", "infinity", "10000-01-01", "0044-03-15 BC"],
    "time": ["-838:59:59.000001", "838:59:59", "24:00:00", "12:30:00.123456789012"],
    "timestamp": [
        *("0000-00-00 00:00:00", "2024-02-30 10:00:00", "infinity", "+294276-12-31T00:00:00"),
        *("2024-02-29T23:59:59.123456789", "0001-01-01T00:00:00", "2024-02-29T23:59:59.1234567890"),
    ],
    "timestamptz": ["2024-02-29T23:59:59.123456789Z", "infinity", "0001-01-01T00:00:00Z"],
}
"""Texts that a type's column may hold although they are at or over its edge: an envelope carries
them unchanged or refuses them."""


def _decimal_edges(precision: int, scale: int) -> list[str]:
    whole, fraction = "9" * (precision - scale), "9" * scale
    largest = (whole or "0") + (f".{fraction}" if scale else "")
    zero = "0" + (f".{'0' * scale}" if scale else "")
    short = f"1.{'10'.ljust(scale, '0')}"[: 2 + scale] if scale else "1"
    return [largest, f"-{largest}", zero, short if precision > scale else zero]


def edges_of(kind: LogicalType) -> list[str]:
    """The texts of a type that should pass everywhere."""
    if kind.kind == "decimal":
        return _decimal_edges(kind.precision or 0, kind.scale or 0)
    if kind.kind == "bit":
        size = kind.precision or 1
        values = (0, 1, 2**size - 1)
        return [base64.b64encode(v.to_bytes((size + 7) // 8, "big")).decode() for v in values]
    return EDGES[kind.kind]


@cache
def texts(kind: LogicalType, hard: bool = False) -> st.SearchStrategy[str]:
    """Texts of values of a type; with `hard` those over its edge too.

    Made once for each type: a new strategy is looked through before its first value is drawn, which
    takes longer than the value.
    """
    strategies = [st.sampled_from(edges_of(kind))]
    if hard and kind.kind in HARD:
        strategies.append(st.sampled_from(HARD[kind.kind]))
    if kind.is_integer:
        low, high = INTEGER_RANGE[kind.kind]
        strategies.append(st.integers(low, high).map(str))
    elif kind.kind == "decimal":
        strategies.append(_decimals(kind.precision or 0, kind.scale or 0))
    elif kind.kind == "float64":
        strategies.append(st.floats(allow_nan=False, allow_infinity=False).map(repr))
    elif kind.kind == "string":
        strategies.append(st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
    elif kind.kind == "bytes":
        strategies.append(st.binary(max_size=12).map(lambda b: base64.b64encode(b).decode()))
    elif kind.kind in ("timestamp", "timestamptz"):
        zone = "Z" if kind.kind == "timestamptz" else ""
        moments = st.datetimes(_SOON_AFTER_1970, _LATE)
        strategies.append(moments.map(lambda moment: f"{moment.isoformat()}{zone}"))
    return st.one_of(strategies)


def _decimals(precision: int, scale: int) -> st.SearchStrategy[str]:
    def text(digits: int, minus: bool) -> str:
        padded = str(digits).rjust(scale + 1, "0")
        whole, fraction = (padded[:-scale], padded[-scale:]) if scale else (padded, "")
        sign = "-" if minus and digits else ""
        return f"{sign}{whole}.{fraction}" if scale else f"{sign}{whole}"

    return st.builds(text, st.integers(0, 10**precision - 1), st.booleans())


def _moment(year: int, month: int, day: int) -> Any:
    from datetime import datetime

    return datetime(year, month, day)  # noqa: DTZ001 - a wall clock


_SOON_AFTER_1970, _LATE = _moment(1970, 1, 2), _moment(2037, 12, 31)
