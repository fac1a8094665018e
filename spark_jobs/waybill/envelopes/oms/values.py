"""How OceanBase's OMS writes the values of a column as JSON.

Source: OceanBase documentation "Data formats", the table of data types (V3.3.0-CE and later).
Numbers are unquoted and exact (a FLOAT in 7 significant digits, a DOUBLE in 16), BOOL is 1 or 0,
bytes and BIT are Base64, a DATETIME has a blank and maybe a zone, a TIMESTAMP is decimal seconds
since 1970 in a string, none of them with zeros at the end of its fraction; an invalid time is the
original text. In projects made before V3.3.0 a BIT
is a number, a TIMESTAMP an integer of seconds, and other times have a T and maybe no seconds (the
list below that table).
The messages themselves say no types: what is not declared is what JSON says it is.

The wire of a `Notation` is here the name of an integer type, `number`, `text`, `boolean`, `truth`,
`bits`, `moment` or `null`. What reads a `number` is given the literal (`null` too), what reads any
other wire a value that is not null.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw

from waybill.envelopes.oms.clocks import (
    clock_of,
    day_of,
    instant_of,
    moment_of,
    names_zone,
    wall_of,
    whole_seconds,
)
from waybill.errors import Refusal
from waybill.types import BOOLEAN, INTEGER_RANGE, NUMBER, STRING, UNKNOWN, LogicalType
from waybill.values.declared import decimal_check, decimal_test, integer_check
from waybill.values.json_columns import read_float32, read_float64, write_integer
from waybill.values.notation import (
    DIGITS,
    FROM_BLANK,
    SHORT_FLOATS,
    WHOLE_DIGITS,
    WORDS_AS_DIGITS,
    ColumnForm,
    Notation,
    digits_of,
    integers,
)
from waybill.values.temporal import (
    blank_from_iso,
    epoch_from_utc,
    faithful,
    iso_from_blank,
    without_zeros,
)
from waybill.values.values import (
    JSON_ERRORS,
    base64_bytes,
    bits_digits,
    bits_text,
    bits_value,
    is_json_number,
    is_plain_number,
    number_text,
)


def _within(low: int, high: int) -> Any:
    """An integer of a range, as far as msgspec knows limits: beyond 64 bits it has none."""
    return Annotated[int, Meta(ge=low, le=high) if high < 2**63 else Meta(ge=low)]


WIRE_TYPES: dict[str, Any] = {
    **{kind: _within(*reach) | None for kind, reach in INTEGER_RANGE.items()},
    "number": Raw,
    "text": str | None,
    "boolean": int | bool | str | None,
    "truth": bool | None,
    "bits": int | None,
    "moment": int | str | None,
    "null": None,
}
"""What msgspec reads each notation as."""

_decode_kind = {
    wire: msgspec.json.Decoder(kind).decode for wire, kind in WIRE_TYPES.items() if kind is not Raw
}
_decode_integer = msgspec.json.Decoder(int | None).decode
_JSON_KINDS = {
    **dict.fromkeys(b"-0123456789", NUMBER),
    ord('"'): STRING,
    ord("t"): BOOLEAN,
    ord("f"): BOOLEAN,
    ord("n"): UNKNOWN,
}


def kind_of(raw: Raw) -> LogicalType:
    """The type that JSON says a value is: number, string, boolean, or unknown for null.

    Raises:
        Refusal: kind `shape`, for an object or array.
    """
    found = _JSON_KINDS.get(bytes(raw)[0])
    if found is None:
        raise Refusal("shape", "a column holds an object or an array")
    return found


def notation_of(kind: LogicalType, earlier: bool = False, zeros: bool = False) -> Notation:
    """The notation of a type, since V3.3.0 or `earlier`.

    Args:
        kind: the type.
        earlier: before V3.3.0.
        zeros: whether zeros at the end of a time's fraction are written.
    """
    if kind.is_integer:
        return _INTEGERS[kind.kind]
    if kind.kind == "number" and kind.scale == 0:
        return _WHOLE_NUMBER
    if kind.kind == "decimal":
        return _decimal(kind.precision or 0, kind.scale or 0)
    if kind.kind == "bit":
        bits = kind.precision or 1
        if earlier:
            return Notation("bits", lambda value: bits_text(value, bits), _write_bits)
        return Notation("text", _bits_reader(bits))
    if kind.kind == "boolean" and kind.precision is not None and not earlier:
        return _ONE_BIT
    if earlier and kind.kind == "date":
        return _EARLIER_DATE
    found = _TIMES[earlier, zeros].get(kind.kind)
    return found if found is not None else _NOTATIONS.get(kind.kind, _TEXT)


def read_one(notation: Notation, raw: Raw) -> str | None:
    """The canonical text of one value in the exact way.

    Raises:
        Refusal: the value does not have the column's notation.
    """
    read: Callable[[Any], str | None] | None = notation.read
    if notation.wire == "number":
        try:
            literal = str(raw, "ascii")
        except UnicodeDecodeError:
            literal = '"'
        return _number(literal) if read is None else read(literal)
    try:
        if notation.wire in INTEGER_RANGE:
            whole = _decode_integer(raw)
            return None if whole is None else integer_check(notation.wire)(str(whole))
        value = _decode_kind[notation.wire](raw)
    except JSON_ERRORS as error:
        raise Refusal("shape", str(error)) from None
    if value is None:
        return None
    return str(value) if read is None else read(value)


# Numbers


def _number(literal: str) -> str | None:
    """Plain digits of a JSON number."""
    if not _is_number(literal):
        return None
    return number_text(literal) if "e" in literal or "E" in literal else literal


def whole_number(literal: str) -> str | None:
    """Plain digits of an integer of any size; an exponent may stand for its zeros."""
    text = _number(literal)
    if text is not None and "." in text:
        raise Refusal("value", f"an integer was expected and the value is {literal[:60]}")
    return text


@cache
def _decimal(precision: int, scale: int) -> Notation:
    """The notation of a decimal, which holds no more digits than it is declared with."""
    fits, check = decimal_test(precision, scale), decimal_check(precision, scale)

    def read(literal: str) -> str | None:
        if fits(literal):
            return literal
        return check(literal) if _is_number(literal) else None

    form = digits_of(LogicalType("decimal", precision, scale))
    return Notation("number", read, write_number, form, DIGITS)


def _floating(read: Callable[[str], str]) -> Callable[[str], str | None]:
    """A reader of FLOAT or DOUBLE, which may be null.

    The document's digits are not always the fewest that tell the number: 0.07 in 16 of them is
    0.07000000000000001.
    """
    return lambda literal: read(literal) if _is_number(literal) else None


def _is_number(literal: str) -> bool:
    """Whether a JSON literal is a number; if not, it has to be null."""
    if literal[0] in "-0123456789":
        return True
    if literal != "null":
        raise Refusal("value", "a number was expected and the value is none")
    return False


def write_number(text: str) -> Raw:
    """A number, digits untouched.

    Raises:
        Refusal: kind `encoding`, when the text is no JSON number (`NaN`, a text that did not fit).
    """
    if is_plain_number(text) is None and is_json_number(text) is None:
        message = f"{text[:60]!r} is not a number that JSON can hold"
        raise Refusal("encoding", message)
    return Raw(text)


# Texts


def _boolean(value: Any) -> str:
    """BOOL as 1 or 0, or as JSON's own true and false; BIT(1) as Base64."""
    if value.__class__ is str:
        value = bits_value(value)
    if value not in (0, 1):
        raise Refusal("value", "a boolean column holds neither 1 nor 0")
    return "true" if value else "false"


def write_boolean(text: str) -> Raw:
    """1 or 0.

    Raises:
        Refusal: kind `encoding`, for anything but true and false.
    """
    if text not in ("true", "false"):
        raise Refusal("encoding", f"{text[:60]!r} is not a boolean")
    return _ONE if text == "true" else _ZERO


def _write_bit(text: str) -> str:
    """A BIT(1) as its byte; see `write_boolean`."""
    return "AQ==" if write_boolean(text) is _ONE else "AA=="


def _truth(value: bool) -> str:
    return "true" if value else "false"


TRUTH = Notation("truth", _truth, write_boolean, None, WORDS_AS_DIGITS)
"""A column that is boolean because JSON says so: nothing but true and false is its notation."""

_ONE, _ZERO = Raw(b"1"), Raw(b"0")


def _checked_bytes(text: str) -> str:
    base64_bytes(text)
    return text


def _bits_reader(bits: int) -> Callable[[str], str]:
    """BIT(n), whose leading zero bytes may be missing, to as many bytes as n bits need."""

    def read(text: str) -> str:
        return bits_text(bits_value(text), bits)

    return read


def _write_bits(text: str) -> Raw:
    """The number of a BIT(n), as it was before V3.3.0."""
    return Raw(bits_digits(text))


def _as_it_is(text: str) -> str:
    return text


def _wall_clock(write: Callable[[str], str], read: Callable[[str], str]) -> Notation:
    """The notation of a DATETIME.

    The document lets one name its zone ("including the time zone"), so it is an instant then. A
    wall clock has no place for that, and a text that is no time would go on as one.
    """
    checked = faithful(write, read)

    def take(text: str) -> str:
        found = read(text)
        if found is text and names_zone(text):
            sentence = f"{text[:60]!r} is a DATETIME that names its zone"
            raise Refusal("value", f"{sentence}: declare the column as timestamptz")
        return found

    def put(text: str) -> str:
        written = checked(text)
        if written is text and names_zone(text):
            raise Refusal("encoding", f"{text[:60]!r} would be a DATETIME that names its zone")
        return written

    return Notation("text", take, put, FROM_BLANK)


def _times(earlier: bool, zeros: bool) -> dict[str, Notation]:
    """The notations of times."""
    if earlier:
        # A fraction of a second is written all the same where there is a place for it.
        found = {
            "time": Notation("text", clock_of, faithful(_as_it_is, clock_of)),
            "timestamp": _wall_clock(_as_it_is, wall_of),
            "timestamptz": Notation("moment", moment_of, faithful(whole_seconds, moment_of)),
        }
    else:
        found = {
            "time": Notation("text", None, _as_it_is),
            "timestamp": _wall_clock(blank_from_iso, iso_from_blank),
            "timestamptz": Notation("text", instant_of, faithful(epoch_from_utc, instant_of)),
        }
    return {
        kind: notation._replace(
            write=_shown(kind, notation.write or _as_it_is, zeros),
            writes=None if earlier else _SHOWN_TIMES.get((kind, zeros)),
        )
        for kind, notation in found.items()
    }


_SHOWN_TIMES = {
    (kind, zeros): ColumnForm("waybill.envelopes.oms.bulk:shown_times", (kind, zeros))
    for kind in ("time", "timestamp")
    for zeros in (False, True)
}
"""What writes times that are not longer than those with the nine digits of a second."""


def _shown(kind: str, write: Callable[[str], Any], zeros: bool) -> Callable[[str], Any]:
    """A writer of times as OMS shows them, or with the zeros that they have."""
    write = _fine_enough(write)
    shorten = without_zeros(kind)
    return write if zeros else lambda text: write(shorten(text))


def _fine_enough(write: Callable[[str], Any]) -> Callable[[str], Any]:
    """A writer of times that refuses more digits of a second than OMS has.

    The document's TIME, DATETIME and TIMESTAMP have up to nine.
    """

    def put(text: str) -> Any:
        if _TOO_FINE.fullmatch(text):
            sentence = f"{text[:60]!r} has more than the 9 digits of a second that OMS has"
            raise Refusal("encoding", sentence)
        return write(text)

    return put


_TOO_FINE = re.compile(r"[-0-9:T]+\.[0-9]{10,}Z?")
_ONE_BIT = Notation("boolean", _boolean, _write_bit)
_INTEGERS = {
    kind: Notation(kind, None, write_integer, integers(*reach), WHOLE_DIGITS)
    for kind, reach in INTEGER_RANGE.items()
}
_TEXT = Notation("text")
_WHOLE_NUMBER = Notation("number", whole_number, write_number, WHOLE_DIGITS, DIGITS)
_NOTATIONS = {
    "number": Notation("number", _number, write_number, DIGITS, DIGITS),
    "float32": Notation("number", _floating(read_float32), write_number, None, DIGITS),
    "float64": Notation("number", _floating(read_float64), write_number, SHORT_FLOATS, DIGITS),
    "boolean": Notation("boolean", _boolean, write_boolean, None, WORDS_AS_DIGITS),
    "unknown": Notation("null"),
    "bytes": Notation("text", _checked_bytes),
}
_EARLIER_DATE = Notation("text", day_of, faithful(_as_it_is, day_of))
_TIMES = {
    (earlier, zeros): _times(earlier, zeros) for earlier in (False, True) for zeros in (False, True)
}
"""Times by version, and by whether zeros at the end of a fraction are written."""
