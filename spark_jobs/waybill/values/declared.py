"""Checks a value against a type that `tables:` of a migration declares for its column.

An envelope whose own types are few (StreamX has six) gets the real ones this way. The value
stays exact or is refused; it is never rounded, cut or shifted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from waybill.errors import Refusal
from waybill.types import INTEGER_RANGE
from waybill.values.temporal import is_wall_clock, iso_from_blank
from waybill.values.values import (
    base64_bytes,
    bits_text,
    bits_value,
    float32_text,
    float64_text,
    is_integer_text,
    is_json_number,
    number_text,
)

if TYPE_CHECKING:
    from waybill.types import LogicalType

Check = Callable[[str], str]
"""Gives the canonical text of a value, or raises a Refusal of kind `value`."""

MAX_INTEGER_DIGITS = 40
"""No integer type has more; longer text is not worth turning into a number."""

SPECIAL_FLOATS = frozenset({"NaN", "Infinity", "-Infinity"})

_BY_SIZE = sorted(INTEGER_RANGE.items(), key=lambda kind: kind[1][1])

_ZULU = re.compile(r"(?:Z| ?UTC|\+00(?::?00)?)\Z")


_FAMILIES = (
    frozenset({"bytes", "bit", "geometry"}),
    frozenset({"date", "time", "timestamp", "timestamptz"}),
    frozenset({"interval"}),
)
APART = frozenset().union(*_FAMILIES)
"""Kinds whose values are another thing than numbers, booleans and structures: digits may look like
Base64, and a count without its unit is no time."""
_TEXTS = frozenset({"string", "enum", "set", "interval", "xml", "unknown"})
"""Kinds whose text may be a value of these."""


def may_hold(declared: LogicalType, found: LogicalType) -> bool:
    """Whether a column of a declared type may hold values of another type at all."""
    kind = declared.kind
    return not any(kind in family and found.kind not in family | _TEXTS for family in _FAMILIES)


def check_for(kind: LogicalType) -> Check | None:
    """The check of a declared type; None where every text is a value of it."""
    if kind.is_integer:
        return integer_check(kind.kind)
    if kind.kind == "decimal":
        return decimal_check(kind.precision or 0, kind.scale or 0)
    if kind.kind == "bit":
        return bits_check(kind.precision or 1)
    return _CHECKS.get(kind.kind)


def integer_check(kind: str) -> Check:
    """A check for digits inside the range of an integer type."""
    low, high = INTEGER_RANGE[kind]

    def check(text: str) -> str:
        if len(text) > MAX_INTEGER_DIGITS or is_integer_text(text) is None:
            raise Refusal("value", f"{shown(text)} is not an integer in digits, as {kind} needs")
        value = int(text)
        if not low <= value <= high:
            sentence = f"{text} is out of the range of {kind}; declare a wider type"
            raise Refusal("value", f"{sentence} ({_narrowest(value)} holds it)")
        return str(value)

    return check


def _narrowest(value: int) -> str:
    """The smallest integer type that holds a value; `number` beyond all of them."""
    fitting = (kind for kind, (low, high) in _BY_SIZE if low <= value <= high)
    return next(fitting, "number")


def decimal_test(precision: int, scale: int) -> Callable[[str], object]:
    """A test that passes texts that a decimal holds as they are: nearly all of its values."""
    if not 0 < scale < precision:
        return _none_passes
    whole = rf"-?(?:0|[1-9][0-9]{{0,{precision - scale - 1}}})"
    return re.compile(rf"{whole}(?:\.[0-9]{{1,{scale}}})?").fullmatch


_none_passes = re.compile(r"(?!)").fullmatch


def decimal_check(precision: int, scale: int) -> Check:
    """A check for numbers that a decimal holds without rounding; trailing zeros stay."""
    fits = decimal_test(precision, scale)

    def check(text: str) -> str:
        if fits(text):
            return text
        if text in SPECIAL_FLOATS:
            message = f"{text} is no value of decimal({precision},{scale})"
            raise Refusal("value", f"{message}; declare the column as number, which holds it")
        plain = number_text(text)
        whole, _, fraction = plain.lstrip("-").partition(".")
        fraction = fraction.rstrip("0")
        # Where the scale is larger than the precision, zeros have to stand in front of the digits.
        digits = (whole + fraction).lstrip("0")
        if len(fraction) > scale or (digits and len(digits) - len(fraction) > precision - scale):
            message = f"{shown(text)} does not fit decimal({precision},{scale})"
            raise Refusal("value", f"{message}; declare a wider type")
        return plain

    return check


def bits_check(bits: int) -> Check:
    """A check for Base64 of a bit string; it gets as many bytes as its width needs.

    Sources leave zero bytes in front out, or fill the width of another type up with them.
    """

    def check(text: str) -> str:
        try:
            return bits_text(bits_value(text), bits)
        except Refusal as refusal:
            sentence = f"{shown(text)}: {refusal.sentence}"
            raise Refusal("value", f"{sentence}; declare the width that the column has") from None

    return check


def float_check(canonical: Check) -> Check:
    """A check for numbers and the three special values.

    A number that the float does not hold exactly stays the text it was (see `float64_text`).
    """

    def check(text: str) -> str:
        found = canonical(text)
        if found == text and is_json_number(text) is None and text not in SPECIAL_FLOATS:
            raise Refusal("value", f"{shown(text)} is not a number")
        return found

    return check


def _boolean(text: str) -> str:
    found = {"1": "true", "0": "false", "true": "true", "false": "false"}.get(text.lower())
    if found is None:
        raise Refusal("value", f"{shown(text)} is not a boolean (true, false, 1 or 0)")
    return found


def _base64(text: str) -> str:
    base64_bytes(text)
    return text


def _instant(text: str) -> str:
    match = _ZULU.search(text)
    if match is None:
        return text
    wall = iso_from_blank(text[: match.start()])
    return f"{wall}Z" if wall[10:11] == "T" and is_wall_clock(wall) else text


def shown(text: str) -> str:
    """A value as an error names it: quoted, and cut when it is long."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


_CHECKS: dict[str, Check] = {
    "number": number_text,
    "float32": float_check(float32_text),
    "float64": float_check(float64_text),
    "boolean": _boolean,
    "bytes": _base64,
    "geometry": _base64,
    "timestamp": iso_from_blank,
    "timestamptz": _instant,
}
