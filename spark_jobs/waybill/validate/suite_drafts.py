"""Drafts a suite from the rows of a merged table, for people to edit.

Every rule holds for the rows that it was made from. Ranges and lengths are rounded outwards, so
that the next row that is a little larger is not a finding.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from waybill.validate.seen_rows import typed_columns
from waybill.validate.suites import TABLE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

COLUMNS_AT_ONCE = 100
"""Of so many columns figures are taken in one query."""

MOST_VALUES = 20
"""A column with more different values than this is not a choice among a few."""

FEW_ROWS = 30
"""Of fewer rows nothing is said about choices, patterns, and values that never repeat."""

MOSTLY = 0.9
"""A column that is null more often than in the rest of its rows may be null."""

PATTERNS = {
    "a UUID": "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
    "an e-mail address": r"^[^@\s]+@[^@\s]+\.[^@\s.]+$",
    "a URL": r"^[a-z][a-z0-9+.-]*://\S+$",
    "an IPv4 address": r"^[0-9]{1,3}(\.[0-9]{1,3}){3}$",
    "a date": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    "a date and time": "^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}.*$",
    "digits": "^[0-9]+$",
}
"""What texts may look like, the closest first."""

_SECRET = re.compile(r"pass|secret|token|credential|api_?key|iban|card|ssn|salt", re.IGNORECASE)
"""Names of columns whose values are not written into a file."""

_NUMBERS = ("int", "bigint", "float", "double", "decimal")
_NAMES = ("string", "int", "bigint")
"""Types of values that can be meant to never repeat; amounts and times differ by chance."""

_TIMES = ("date", "timestamp", "timestamp_ntz")

Figures = Mapping[str, Any]


def draft_suite(
    name: str, table: str, of: str, rows: DataFrame, key: Sequence[str]
) -> dict[str, Any]:
    """A suite that a table's rows meet.

    Args:
        name: the suite's name.
        table: the source table.
        of: which rows the suite runs over, `waybill.validate.suites.BATCH` or `TABLE`.
        rows: the live rows of the merged table.
        key: columns of its key, of which the gate sees to it that they are unique.
    """
    columns = typed_columns(rows)
    count = rows.count()
    expectations = []
    if of == TABLE:
        expectations.append(
            _rule("table_row_count_to_be_between", "The table has rows.", min_value=1)
        )
    for first in range(0, len(columns), COLUMNS_AT_ONCE):
        some = columns[first : first + COLUMNS_AT_ONCE]
        for column, figures in zip(some, _figures(rows, some, count, key), strict=True):
            expectations += _rules(column, figures, count, column.name in key)
    return {
        "name": name,
        "meta": {
            "rows": table,
            "of": of,
            "show_values": [],
            "notes": f"Drafted from {count} rows of {table}. Take out what is chance, and make "
            "critical what must hold.",
        },
        "expectations": expectations,
    }


def _figures(
    rows: DataFrame, columns: Sequence[StructField], count: int, key: Sequence[str]
) -> list[dict[str, Any]]:
    """Figures of each column: nulls, least and greatest, lengths, patterns, values."""
    asked = [
        column_figures for i, column in enumerate(columns) for column_figures in _asked(i, column)
    ]
    found = rows.agg(*asked).first()
    figures: list[dict[str, Any]] = [{} for _ in columns]
    for name, value in (found.asDict() if found else {}).items():
        number, _, figure = name.partition(":")
        figures[int(number)][figure] = value
    more: list[Column] = []
    for i, (column, column_figures) in enumerate(zip(columns, figures, strict=True)):
        type_, here = column.dataType.simpleString(), _at(column.name)
        if count < FEW_ROWS or type_ == "binary":
            continue
        # The number of different values is an estimate, which is asked about once more.
        alone = (
            column.name not in key and column_figures["distinct"] > column_figures["there"] * 0.8
        )
        if alone and type_ in _NAMES:
            more.append(F.count_distinct(here).alias(f"{i}:exact"))
        few = (
            column_figures["distinct"] <= MOST_VALUES
            and column_figures["distinct"] * 5 <= column_figures["there"]
        )
        if few and type_ == "string" and not _SECRET.search(column.name):
            more.append(F.sort_array(F.collect_set(here)).alias(f"{i}:values"))
    exact = rows.agg(*more).first() if more else None
    for name, value in (exact.asDict() if exact else {}).items():
        number, _, figure = name.partition(":")
        figures[int(number)][figure] = value
    return figures


def _asked(i: int, column: StructField) -> Iterator[Column]:
    type_, here = column.dataType.simpleString(), _at(column.name)
    yield F.count(here).alias(f"{i}:there")
    if type_ == "binary":
        return
    yield F.approx_count_distinct(here).alias(f"{i}:distinct")
    if type_.startswith(_NUMBERS) or type_ in _TIMES:
        yield F.min(here).cast("string").alias(f"{i}:least")
        yield F.max(here).cast("string").alias(f"{i}:greatest")
    if type_ == "string":
        yield F.min(F.length(here)).alias(f"{i}:shortest")
        yield F.max(F.length(here)).alias(f"{i}:longest")
        for number, pattern in enumerate(PATTERNS.values()):
            yield F.count_if(here.rlike(pattern)).alias(f"{i}:like{number}")


def _rules(
    column: StructField, figures: Figures, count: int, in_key: bool
) -> Iterator[dict[str, Any]]:
    name, type_, there = column.name, column.dataType.simpleString(), figures["there"]
    share = there / count
    if share >= MOSTLY:
        mostly = {} if there == count else {"mostly": math.floor(share * 100) / 100}
        sentence = f"{name} is never null." if there == count else f"{name} is seldom null."
        yield _rule("column_values_to_not_be_null", sentence, column=name, **mostly)
    if not there or type_ == "binary":
        return
    alone = figures.get("exact") == there and there >= FEW_ROWS
    if alone:
        yield _rule("column_values_to_be_unique", f"No two rows have one {name}.", column=name)
    if not in_key and not alone:
        yield from _range(name, type_, figures)
    if type_ == "string":
        yield from _texts(name, figures)


def _range(name: str, type_: str, figures: Figures) -> Iterator[dict[str, Any]]:
    if type_ in _TIMES:
        # Times go on; only the year that they began in is of use.
        since = f"{figures['least'][:4]}-01-01"
        if re.fullmatch(r"[0-9]{4}-01-01", since):
            sentence = f"{name} is not before {since[:4]}."
            yield _rule("column_values_to_be_between", sentence, column=name, min_value=since)
    elif type_.startswith(_NUMBERS):
        low, high = float(figures["least"]), float(figures["greatest"])
        if math.isfinite(low) and math.isfinite(high):
            least, most = (0 if low >= 0 else -_power(-low)), (0 if high <= 0 else _power(high))
            sentence = f"{name} is between {least} and {most}."
            ends = {"min_value": least, "max_value": most}
            yield _rule("column_values_to_be_between", sentence, column=name, **ends)


def _texts(name: str, figures: Figures) -> Iterator[dict[str, Any]]:
    if figures.get("values"):
        sentence, values = f"{name} is one of a few values.", figures["values"]
        yield _rule("column_values_to_be_in_set", sentence, column=name, value_set=values)
        return
    enough = figures["there"] >= FEW_ROWS
    like = (what for i, what in enumerate(PATTERNS) if figures[f"like{i}"] == figures["there"])
    what = next(like, None) if enough else None
    if what is not None:
        sentence, regex = f"{name} looks like {what}.", PATTERNS[what]
        yield _rule("column_values_to_match_regex", sentence, column=name, regex=regex)
    least, most = figures["shortest"], figures["longest"]
    if not enough or least != most:
        least, most = min(least, 1), max(10, math.ceil(most / 10) * 10)
    sentence = f"{name} has {least} to {most} characters."
    ends = {"min_value": least, "max_value": most}
    yield _rule("column_value_lengths_to_be_between", sentence, column=name, **ends)


def _rule(type_: str, description: str, **kwargs: Any) -> dict[str, Any]:
    return {
        "type": f"expect_{type_}",
        "kwargs": kwargs,
        "severity": "warning",
        "description": description,
    }


def _power(value: float) -> int:
    """The least power of ten that is not below a value."""
    power = 1
    while power < value:
        power *= 10
    return power


def _at(name: str) -> Column:
    quoted = name.replace("`", "``")
    return F.col(f"`{quoted}`")
