"""Conditions on rows: SQL's three values, exact comparisons, and what cannot be asked."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from tests.histories import image
from waybill.errors import ConfigurationError, Refusal
from waybill.mapping.conditions import condition
from waybill.records import Column, intern_schema
from waybill.types import parse_type

TYPES = {
    "i": "bigint",
    "n": "decimal(38,10)",
    "f": "double",
    "s": "varchar(20)",
    "b": "boolean",
    "d": "date",
    "t": "time",
    "w": "timestamp",
    "z": "timestamptz",
    "j": "json",
    "Big": "string",
}
TABLE = intern_schema(
    "shop", None, "t", tuple(Column(name, parse_type(kind)) for name, kind in TYPES.items()), ("i",)
)
UNKNOWN = intern_schema("shop", None, "u", (Column("x", parse_type("unknown")),), ())


LONG = "12345678901234567890123456789.01"
"""More digits than a context of decimals keeps unless it is told to."""


def holds(text: str, **values):
    return condition(text, TABLE)(image(TABLE, **values))


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("i = 5", {"i": "5"}, True),
        ("i = 5", {"i": "05"}, True),
        ("i <> 5", {"i": None}, None),
        ("i = 5", {}, UNSET),
        ("NOT i = 5", {}, UNSET),
        ("i = 5 OR s = 'a'", {"s": "a"}, True),
        ("i = 5 AND s = 'a'", {"s": "b"}, False),
        ("i = 5 AND s = 'a'", {"s": None}, UNSET),
        ("i = 5 OR s = 'a'", {"i": None, "s": "b"}, None),
        ("i = NULL", {"i": "5"}, None),
        ("NULL", {}, None),
        ("TRUE", {}, True),
        ("i IS NULL", {"i": None}, True),
        ("i IS NOT NULL", {"i": None}, False),
        ("j IS NULL", {"j": "{}"}, False),
        ("i > 9007199254740992", {"i": "9007199254740993"}, True),
        ("n = 0.1", {"n": "0.1000000000"}, True),
        ("n < -1.5", {"n": "-1.5000000001"}, True),
        ("f = 0.1", {"f": "0.1"}, True),
        ("f > 1e300", {"f": "Infinity"}, True),
        ("f > 0", {"f": "NaN"}, None),
        ("i BETWEEN 1 AND 3", {"i": "3"}, True),
        ("i NOT BETWEEN 1 AND 3", {"i": "4"}, True),
        ("i IN (1, 2, NULL)", {"i": "2"}, True),
        ("i IN (1, 2, NULL)", {"i": "3"}, None),
        ("i NOT IN (1, 2)", {"i": "3"}, True),
        ("s = 'it''s'", {"s": "it's"}, True),
        ("s = 'A'", {"s": "a"}, False),
        ("lower(s) = 'ä'", {"s": "Ä"}, True),
        ("LENGTH(s) = 2", {"s": "\U0001f600a"}, True),
        ("coalesce(s, 'none') = 'none'", {"s": None}, True),
        ("coalesce(d, '2024-01-01') > '2023-01-01'", {"d": None}, True),
        ("s LIKE 'a%z'", {"s": "a\nz"}, True),
        ("s LIKE 'a_'", {"s": "ab"}, True),
        (r"s LIKE '50\%'", {"s": "50%"}, True),
        (r"s LIKE '50\%'", {"s": "50x"}, False),
        ("s LIKE '50!%' ESCAPE '!'", {"s": "50%"}, True),
        ("s LIKE '.*'", {"s": "ab"}, False),
        ("s NOT LIKE 'a%'", {"s": None}, None),
        ("b", {"b": "true"}, True),
        ("NOT b", {"b": "true"}, False),
        ("b IS FALSE", {"b": None}, False),
        ("b = TRUE", {"b": "false"}, False),
        ("d >= '2024-02-29'", {"d": "2024-02-29"}, True),
        ("'2024-02-28' < d", {"d": "2024-02-29"}, True),
        ("w > '2024-01-01 00:00:00'", {"w": "2024-01-01T00:00:00.5"}, True),
        ("w = '2024-01-01T00:00:00.50'", {"w": "2024-01-01T00:00:00.5"}, True),
        ("w >= '2024-01-01'", {"w": "2024-01-01T00:00:00"}, True),
        ("z > '2024-01-01T00:00:00Z'", {"z": "2024-01-01T00:00:00.5Z"}, True),
        ("z < '2024-01-01T00:00:00.5Z'", {"z": "2024-01-01T00:00:00Z"}, True),
        ("w <= '2024-01-01 12:00'", {"w": "2024-01-01T12:00:00"}, True),
        ("w > '2024-01-01 12:00'", {"w": "2024-01-01T12:00:00"}, False),
        ("w = '2024-01-01T12:00'", {"w": "2024-01-01T12:00:00"}, True),
        (
            "w BETWEEN '2024-01-01' AND '2024-01-01 12:00'",
            {"w": "2024-01-01T12:00:00"},
            True,
        ),
        ("z <= '2024-01-01T12:00Z'", {"z": "2024-01-01T12:00:00Z"}, True),
        ("z = '2024-01-01Z'", {"z": "2024-01-01T00:00:00Z"}, True),
        ("t = '838:59:59'", {"t": "838:59:59"}, True),
        ("t = '-08:00:00.50'", {"t": "-08:00:00.5"}, True),
        ("t = '008:00:00'", {"t": "08:00:00"}, True),
        ("t = '-00:00:00'", {"t": "00:00:00"}, True),
        (f"n = -{LONG}", {"n": f"-{LONG}"}, True),
        (f"n >= -{LONG}", {"n": f"-{LONG}9"}, False),
        (f"-n = {LONG}", {"n": f"-{LONG}"}, True),
        ("\"Big\" = 'x'", {"Big": "x"}, True),
        ("big = 'x'", {"Big": "x"}, True),
        ("(i = 1 OR i = 2) AND NOT (s = 'x')", {"i": "2", "s": "y"}, True),
    ],
)
def test_what_a_condition_says(text, values, expected):
    assert holds(text, **values) is expected


ORDERED = {
    "d": (
        "-infinity",
        "-9999999-01-01",
        "-10000-12-31",
        "-9999-01-01",
        "-0100-12-31",
        "0045-01-01 BC",
        "-0043-03-15",
        "0002-12-31 BC",
        "0000-00-00",
        "0000-01-01",
        "0000-12-31",
        "0001-01-01",
        "2024-02-00",
        "2024-02-29",
        "2024-02-30",
        "2024-03-01",
        "9999-12-31",
        "10000-01-01",
        "+10000-01-02",
        "+20000-01-01",
        "99999-12-31",
        "+100000-01-01",
        "294276-12-31",
        "+5881580-07-11",
        "infinity",
    ),
    "w": (
        "-infinity",
        "-10000-01-01T00:00:00.5",
        "4713-01-01 00:00:00 BC",
        "-0043-03-15T23:59:59.999999",
        "0001-01-01T00:00:00",
        "0001-01-01T00:00:00.000001",
        "2024-01-01T23:59:59",
        "2024-01-01T23:59:60",
        "2024-01-01T24:00:00",
        "2024-01-02T00:00:00",
        "9999-12-31T23:59:59.999999",
        "10000-01-01 00:00:00",
        "+10000-01-01T00:00:00.05",
        "+10000-01-01T00:00:00.5000",
        "+99999-12-31T23:59:59",
        "+100000-01-01T00:00:00",
        "infinity",
    ),
    "z": (
        "-infinity",
        "-10000-01-01T00:00:00Z",
        "0044-03-15 00:00:00+00 BC",
        "0001-01-01T00:00:00Z",
        "2024-01-01T00:00:00.5Z",
        "9999-12-31T23:59:59Z",
        "10000-01-01 02:00:00+02",
        "+10000-01-01T00:00:00.25Z",
        "9999-12-31 23:00:00.5-01:00",
        "10000-02-29 00:30:00+00:31:15",
        "+10000-02-29T00:00:00Z",
        "infinity",
    ),
}
"""Times of any year, each before the next one, in the notations that databases have."""


TWO = intern_schema(
    "shop",
    None,
    "two",
    tuple(Column(f"{at}{name}", parse_type(TYPES[name])) for name in ORDERED for at in "ab"),
    (),
)


@pytest.mark.parametrize("name", ORDERED)
def test_times_of_any_year_stand_in_their_order(name):
    asked = {op: condition(f"a{name} {op} b{name}", TWO) for op in ("<", "<=", "=", ">", "<>")}
    texts = ORDERED[name]
    for i, one in enumerate(texts):
        for j, other in enumerate(texts):
            row = image(TWO, **{f"a{name}": one, f"b{name}": other})
            found = {op: holds(row) for op, holds in asked.items()}
            expected = {"<": i < j, "<=": i <= j, "=": i == j, ">": i > j, "<>": i != j}
            assert found == expected, (one, other)


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("d >= '2026-01-01'", {"d": "+10000-01-01"}, True),
        ("d BETWEEN '2026-01-01' AND '9999-12-31'", {"d": "+10000-01-01"}, False),
        ("d < '0001-01-01'", {"d": "-0043-03-15"}, True),
        ("d > '9999-12-31'", {"d": "infinity"}, True),
        ("coalesce(d, '9999-12-31') > '9999-12-30'", {"d": "+10000-01-01"}, True),
        ("w >= '9999-01-01'", {"w": "+10000-01-01T00:00:00.000000"}, True),
        ("w >= '9999-01-01'", {"w": "infinity"}, True),
        ("z > '9999-12-31T23:59:59Z'", {"z": "+100000-01-01T00:00:00Z"}, True),
        ("z IN ('2024-01-01T00:00:00Z')", {"z": "2024-01-01 00:00:00.000+00"}, True),
        ("w IN ('2024-01-01 10:00')", {"w": "2024-01-01 10:00:00.00"}, True),
        ("d <> '2024-01-01'", {"d": "soon"}, True),
        ("d IS NULL", {"d": "soon"}, False),
        ("d < '2024-01-01'", {"d": None}, None),
        ("d < '2024-01-01'", {}, UNSET),
    ],
)
def test_times_beyond_the_calendar(text, values, expected):
    assert holds(text, **values) is expected


@pytest.mark.parametrize("value", ["soon", "2024-01-01 10:00:00 Nowhere/Town", "", "20240101"])
def test_a_text_that_is_no_time_is_before_and_after_none(value):
    for text in ("z < '2024-01-01Z'", "z >= '2024-01-01Z'", "z BETWEEN '2024-01-01Z' AND z"):
        with pytest.raises(Refusal, match="holds a text there that is no time") as refusal:
            holds(text, z=value)
        assert refusal.value.kind == "where"
        assert not value or value not in refusal.value.sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("i =", "cannot be read"),
        ("i = 1; DROP TABLE t", "cannot be read|more than a condition"),
        ("i = 1 GROUP BY i", "more than a condition"),
        ("nothing = 1", "there is no column nothing"),
        ("ii = 1", "there is no column ii; did you mean 'i'"),
        ("i = 'a'", "a number is compared with a text|a text is compared with a number"),
        ("s = 1", "is compared with a"),
        ("i", "neither true nor false"),
        ("i + 1 = 2", "not a part of a condition"),
        ("now() > w", "not a part of a condition"),
        ("i IN (SELECT 1)", "not a part of a condition"),
        ("j = '{}'", "only IS NULL may be asked"),
        ("d = 'yesterday'", "'yesterday' is not a date"),
        ("z > '2024-01-01 00:00:00'", "needs a Z"),
        ("w > '2024-01-01T00:00:00Z'", "has a Z"),
        ("t > '00:00:00'", "only compared by = and <>"),
        ("t = '12:99:00'", "'12:99:00' is not a time: write it as 12:30:00"),
        ("d = '20240101'", "'20240101' is not a date: write it as 2026-11-01"),
        ("d = '2024-W01'", "is not a date: write it as"),
        ("d = '2024-02-30'", "is not a date: write it as"),
        ("w >= '20240101'", "'20240101' is not a timestamp: write it as 2026-11-01 12:30:00"),
        ("w > '2024-W01'", "is not a timestamp: write it as"),
        ("w > '2024-01-01T12'", "is not a timestamp: write it as"),
        ("w > '2024-01-01 00:00:00+02:00'", "is not a timestamp: write it as"),
        ("w > '2024-01-01 24:00:00'", "is not a timestamp: write it as"),
        ("w > '2024-02-30 10:00:00'", "is not a timestamp: write it as"),
        ("w > '2024-01-01 12:00:00,5'", "is not a timestamp: write it as"),
        ("w > '\u0662024-01-01'", "is not a timestamp: write it as"),
        ("z > '20240101T000000Z'", "is not a timestamptz: write it as 2026-11-01T12:30:00Z"),
        ("z > '2024-01-01T00:00:00+02:00'", "needs a Z"),
        ("s LIKE s", "takes a text and a pattern"),
        ("lower(i) = 'a'", "is of no text"),
    ],
)
def test_what_cannot_be_asked(text, sentence):
    with pytest.raises(ConfigurationError, match=sentence) as error:
        condition(text, TABLE)
    assert error.value.code.label == "WB-1106"


def test_a_column_needs_a_type():
    with pytest.raises(ConfigurationError, match="type of x is not known: declare it"):
        condition("x = 1", UNKNOWN)


_NAMES = st.sampled_from(["i", "n", "s"])
_NUMBERS = st.integers(-3, 3).map(str)
_TEXTS = st.sampled_from(["a", "b", "ab", "_", ""])


def _leaf(name: str, op: str, number: str, text: str) -> str:
    if op.startswith("IS"):
        return f"{name} {op}"
    if op.endswith("LIKE"):
        return f"s {op} '{text}%' ESCAPE '!'"
    value = "'" + text + "'" if name == "s" else number
    if op.endswith("BETWEEN"):
        return f"i {op} {number} AND 1"
    return f"{name} {op} ({value}, NULL)" if op.endswith("IN") else f"{name} {op} {value}"


_COMPARED = ["=", "<>", "<", "<=", ">", ">=", "IS NULL", "IN", "LIKE", "BETWEEN"]
_OPERATORS = st.sampled_from([*_COMPARED, "IS NOT NULL", "NOT IN", "NOT LIKE", "NOT BETWEEN"])
_LEAVES = st.builds(_leaf, _NAMES, _OPERATORS, _NUMBERS, _TEXTS)
_CONDITIONS = st.recursive(
    _LEAVES,
    lambda inner: (
        st.builds(lambda a, b, op: f"({a} {op} {b})", inner, inner, st.sampled_from(["AND", "OR"]))
        | inner.map(lambda a: f"NOT ({a})")
    ),
    max_leaves=6,
)


@given(
    text=_CONDITIONS,
    i=st.none() | _NUMBERS,
    n=st.none() | _NUMBERS,
    s=st.none() | _TEXTS,
)
def test_a_database_says_the_same(text, i, n, s):
    database = sqlite3.connect(":memory:")
    database.execute("PRAGMA case_sensitive_like = ON")
    try:
        database.execute("CREATE TABLE t (i INTEGER, n NUMERIC, s TEXT)")
        database.execute("INSERT INTO t VALUES (?, ?, ?)", (i and int(i), n and int(n), s))
        (found,) = database.execute(f"SELECT ({text}) FROM t").fetchone()
    finally:
        database.close()
    expected = None if found is None else bool(found)
    decimal = None if n is None else f"{n}.0000000000"
    assert holds(text, i=i, n=decimal, s=s) is expected
