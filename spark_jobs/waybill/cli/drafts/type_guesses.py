"""The type that the values of a column suggest where the messages state none."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

_INTEGER = re.compile(r"-?[0-9]+")
_DECIMAL = re.compile(r"-?[0-9]+\.[0-9]+")
_FLOAT = re.compile(r"-?[0-9]+(\.[0-9]+)?[eE][-+]?[0-9]+")
_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
_DATE, _TIME = re.compile(_DAY), re.compile(_CLOCK)
_TIMESTAMP = re.compile(f"{_DAY}[T ]{_CLOCK}")
_INSTANT = re.compile(f"{_DAY}[T ]{_CLOCK}(Z|[-+][0-9]{{2}}:?[0-9]{{2}})")

DIGITS = 38
"""The most digits of a decimal that the lake holds as a number."""


class TypeGuess(NamedTuple):
    """A type that all values of a column fit.

    Attributes:
        type: as `tables` of a migration declares it.
        why: what was seen.
        other: another type that they may fit: an instant that is counted from 1970.
    """

    type: str
    why: str
    other: str | None = None

    @property
    def others(self) -> list[TypeGuess]:
        """What to take where the messages cannot be read with the type."""
        if self.other is None:
            return []
        why = f"{self.why.partition(';')[0]}, counted from 1970"
        return [TypeGuess(self.other, why)]


def type_guess(values: Collection[str]) -> TypeGuess | None:
    """The type that texts suggest; None where nothing but text fits.

    A type is never narrower than a guess can be: integers are 64 bits wide, decimals have all
    digits that there are.
    """
    found = _guessed(values) if values else None
    return found if found is None or _fits(found.type, values) else None


def _guessed(values: Collection[str]) -> TypeGuess | None:
    count = f"{len(values)} values" if len(values) != 1 else "the only value"
    if all(_INTEGER.fullmatch(value) for value in values):
        least, most = min(map(_number, values)), max(map(_number, values))
        span = f"{count}: {least} to {most}" if least != most else f"{count}: {least}"
        if least >= -(2**63) and most < 2**63:
            return _counted("bigint", span, least, most)
        if least >= 0 and most < 2**64:
            return TypeGuess("bigint unsigned", span)
        digits = max(len(value.lstrip("-")) for value in values)
        return TypeGuess(f"decimal({DIGITS},0)", span) if digits <= DIGITS else None
    if all(_INTEGER.fullmatch(v) or _DECIMAL.fullmatch(v) for v in values):
        scale = max(len(value.partition(".")[2]) for value in values)
        whole = max(len(value.lstrip("-").partition(".")[0]) for value in values)
        if whole + scale > DIGITS:
            return None
        why = f"{count} with up to {scale} digits after the point and {whole} before it"
        least, most = (int(end(values, key=float).partition(".")[0]) for end in (min, max))
        return _counted(f"decimal({DIGITS},{scale})", why, least, most)
    if all(_INTEGER.fullmatch(v) or _DECIMAL.fullmatch(v) or _FLOAT.fullmatch(v) for v in values):
        return TypeGuess("double", f"{count}, some with an exponent")
    for pattern, kind, what in (
        (_DATE, "date", "days"),
        (_TIMESTAMP, "timestamp", "times without a zone"),
        (_INSTANT, "timestamptz", "times with a zone"),
        (_TIME, "time", "times of a day"),
    ):
        if all(pattern.fullmatch(value) for value in values):
            return TypeGuess(kind, f"{count}, all {what}")
    return None


_UNITS = (("seconds", 1), ("milliseconds", 10**3), ("microseconds", 10**6))


def _counted(declared: str, why: str, least: int, most: int) -> TypeGuess:
    """A type of numbers, with a hint where they could count from 1970: the years 2001 to 2096."""
    for unit, factor in _UNITS:
        if 10**9 * factor <= least and most < 4 * 10**9 * factor:
            hint = f"{why}; perhaps {unit} since 1970, then timestamptz"
            return TypeGuess(declared, hint, "timestamptz")
    return TypeGuess(declared, why)


def _number(text: str) -> int:
    # Python refuses to convert digits without end; a column of such is none of integers here.
    return int(text) if len(text) <= 100 else 10**100


def _fits(declared: str, values: Collection[str]) -> bool:
    """Whether every value can be read as the type, as `waybill check` will ask."""
    from waybill.cli.check_tables import is_value
    from waybill.types import parse_type

    type_ = parse_type(declared)
    return all(is_value(value, type_) for value in values)
