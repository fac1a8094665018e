"""How values of a column are read in the known-table way: as a typed field and a few statements.

What the field does not take, or its step refuses, is read again by the exact reader of the column.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Raw

from waybill.errors import Refusal
from waybill.types import INTEGER_RANGE, LogicalType
from waybill.values.declared import check_for, float_check
from waybill.values.instants import FIRST_MS, LAST_MS, instant_text
from waybill.values.row_functions import AS_IT_IS, Step
from waybill.values.values import (
    JSON_ERRORS,
    base64_bytes,
    float64_text,
    is_float64_text,
    json_refusal,
)

INT64 = (-(2**63), 2**63 - 1)
_TEXT = str | None
_GIVEN = "if {v} is not None and {v} is not UNSET:"


class Number(str):
    """A JSON number as it stood in the message, to tell it from a string."""

    __slots__ = ()


class FastColumn(NamedTuple):
    """A column in the known-table way.

    Attributes:
        wire: the type of the field that its values are decoded into.
        step: what turns them into canonical texts.
    """

    wire: Any
    step: Step = AS_IT_IS


def fast_column(
    kind: str, logical: LogicalType, natural: bool, take: Callable[[Any], Any]
) -> FastColumn:
    """The known-table way to read a column.

    Args:
        kind: its StreamX type.
        logical: its logical type.
        natural: the StreamX type holds the logical one without a declaration.
        take: the exact reader of its values.
    """
    if kind == "LONG" and logical.is_integer:
        low, high = INTEGER_RANGE[logical.kind]
        whole = Annotated[int, Meta(ge=max(low, INT64[0]), le=min(high, INT64[1]))]
        return FastColumn(whole | None, Step((_GIVEN + " {v} = str({v})",)))
    if natural:
        return _NATURAL[kind]
    if kind == "STRING":
        if logical.kind == "timestamp":
            return FastColumn(_TEXT, Step(_WALL_CLOCK))
        if logical.kind == "decimal":
            return FastColumn(_TEXT, Step(_DECIMAL, take, _decimal_pattern(logical)))
        if check_for(logical) is None:
            return FastColumn(_TEXT)
    wire = _FORMS.get(kind)
    if wire is None:
        # Every kind of value, exact.
        return FastColumn(Raw, Step(_RAW, lambda raw: take(json_value(raw))))
    return FastColumn(wire, Step((_GIVEN + " {v} = {c}({v})",), take))


def json_value(raw: Raw) -> Any:
    """A JSON value; a number comes as the text it was.

    Raises:
        Refusal: it is an object or an array, or cannot be decoded.
    """
    first = bytes(raw)[:1]
    if first in b"-0123456789":
        return Number(str(raw, "ascii"))
    if first in b"[{":
        raise Refusal("value", "no type takes a JSON object or array")
    try:
        return _any_value(raw)
    except JSON_ERRORS as error:
        raise json_refusal(error) from None


def base64(text: str) -> str:
    """The text itself if it is Base64.

    Raises:
        Refusal: it is not.
    """
    base64_bytes(text)
    return text


float64 = float_check(float64_text)
"""The canonical text of a float64, see `float_check`."""

_any_value = msgspec.json.Decoder(Any).decode


def _double(raw: Raw) -> str | None:
    """The text of a DOUBLE, which is a number, or its text in a string."""
    value = json_value(raw)
    if value is None:
        return None
    if not isinstance(value, str):
        raise Refusal("value", "a DOUBLE must be a number")
    text = str(value)
    return text if is_float64_text(text) else float64(text)


def _decimal_pattern(logical: LogicalType) -> Callable[[str], Any]:
    """A test that most numbers pass which fit a decimal and are written in plain digits."""
    precision, scale = logical.precision or 0, logical.scale or 0
    if precision < scale:
        # Some digits behind the point have to be zeros: nothing passes, and all is looked at.
        return re.compile("(?!)").fullmatch
    whole = "0" if precision <= scale else f"(?:[1-9][0-9]{{0,{precision - scale - 1}}}+|0)"
    fraction = f"(?>(?:\\.[0-9]{{1,{scale}}}+)?)" if scale else ""
    return re.compile(f"-?{whole}{fraction}").fullmatch


_BOOLEANS = {True: "true", False: "false", None: None, UNSET: UNSET}
_DECIMAL = (_GIVEN, "    if {t}({v}) is None: {v} = {c}({v})")
_WALL_CLOCK = (
    # As `iso_from_blank`, without a call.
    _GIVEN,
    "    try:",
    "        if {v}[4:20:3] in blank and parse({v}).tzinfo is None and len({v}) <= 32:",
    '            {v} = {v}.replace(" ", "T")',
    "    except ValueError: pass",
)
_RAW = ("if {v} is not UNSET: {v} = {c}({v})",)
_NATURAL = {
    "STRING": FastColumn(_TEXT),
    "DATE": FastColumn(
        Annotated[int, Meta(ge=FIRST_MS, le=LAST_MS)] | None,
        Step((_GIVEN + " {v} = {c}({v})",), instant_text),
    ),
    "BOOLEAN": FastColumn(bool | None, Step(("{v} = {c}({v})",), _BOOLEANS.__getitem__)),
    "BYTES": FastColumn(_TEXT, Step(("if {v}: {c}({v})",), base64)),
    "DOUBLE": FastColumn(Raw, Step(_RAW, _double)),
}
_FORMS: dict[str, Any] = {
    "STRING": _TEXT,
    "LONG": int | str | None,
    "DATE": int | str | None,
    "BOOLEAN": bool | str | None,
    "BYTES": _TEXT,
}
"""What the fields of a type that needs its exact reader take."""

SCOPE: dict[str, Any] = {
    "parse": datetime.fromisoformat,
    "blank": frozenset({"-- ::", "-- ::."}),
}
"""Names that the statements use."""
