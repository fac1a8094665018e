"""Types of the lake's columns: which holds which, and what holds both of two."""

from __future__ import annotations

import re

WIDER = {("int", "bigint"), ("float", "double")}
DIGITS = {"int": 10, "bigint": 19}
MOST_DIGITS = 38
"""Digits of the longest decimal."""

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_DAYS = ("timestamp_ntz", "date")


def as_decimal(type_: str) -> tuple[int, int] | None:
    """Precision and scale of a type of exact numbers, None of another one."""
    if type_ in DIGITS:
        return DIGITS[type_], 0
    match = _DECIMAL.fullmatch(type_)
    return None if match is None else (int(match[1]), int(match[2]))


def holds(big: str, small: str) -> bool:
    """Whether a type holds every value of another one, as a value."""
    if (small, big) in WIDER:
        return True
    big_decimal, small_decimal = _DECIMAL.fullmatch(big), as_decimal(small)
    if big_decimal is None or small_decimal is None:
        return False
    precision, scale = int(big_decimal[1]), int(big_decimal[2])
    return small_decimal[1] <= scale and small_decimal[0] - small_decimal[1] <= precision - scale


def keeps(have: str, want: str) -> bool:
    """Whether a column takes the texts of another type without becoming anything else.

    A date in a column of timestamps is its midnight, and a string takes every text.
    """
    return have in (want, "string") or holds(have, want) or (have, want) == _DAYS


def joined_numbers(one: str, other: str) -> str | None:
    """The decimal that holds every value of two types of exact numbers, None if there is none."""
    first, second = as_decimal(one), as_decimal(other)
    if first is None or second is None:
        return None
    scale = max(first[1], second[1])
    precision = max(first[0] - first[1], second[0] - second[1]) + scale
    return f"decimal({precision},{scale})" if precision <= MOST_DIGITS else None


def promoted(have: str, want: str) -> str | None:
    """What a column of the lake is promoted to so that it holds both, None if it cannot be.

    Source: Apache Iceberg table spec, "Schema Evolution": an int becomes a long, a float a double,
    and a decimal grows in precision only.
    """
    if (have, want) in WIDER:
        return want
    joined = joined_numbers(have, want)
    if joined is None or have in DIGITS or have == joined:
        return None
    one, both = as_decimal(have), as_decimal(joined)
    return joined if one and both and one[1] == both[1] else None


def joined_by_rewrite(have: str, want: str) -> str | None:
    """The type of a column that is rewritten to hold both, None where none holds both exactly.

    It is the same in whichever order types come: numbers become a decimal, dates and timestamps a
    timestamp, and what has nothing in common but its text a string. The text of bytes is Base64,
    which means nothing beside another text.
    """
    if "binary" in (have, want) and have != want:
        return None
    if keeps(have, want):
        return have
    return want if keeps(want, have) else joined_numbers(have, want) or "string"
