"""How columns stand in messages whose rows are JSON objects with typed values.

Maxwell, GoldenGate and DMS share this: numbers are JSON numbers of any size, texts are strings,
null is null, a column that is not there was not sent. They differ in a few notations (`Style`).
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Raw, UnsetType

from waybill.errors import Refusal
from waybill.types import BOOLEAN, INTEGER_RANGE, NUMBER, STRING, UNKNOWN, LogicalType
from waybill.values.declared import decimal_check, decimal_test, integer_check
from waybill.values.notation import (
    DIGITS,
    SHORT_FLOATS,
    WHOLE_DIGITS,
    WORDS,
    WORDS_AS_DIGITS,
    Notation,
    digits_of,
    integers,
)
from waybill.values.values import (
    JSON_ERRORS,
    base64_bytes,
    base64_text,
    bits_digits,
    bits_text,
    bits_value,
    check_json,
    float32_text,
    float32_value,
    float64_text,
    is_integer_text,
    is_json_number,
    is_plain_number,
    number_text,
    to_float32,
)
from waybill.values.wkt import wkt_from_base64, wkt_to_base64

if TYPE_CHECKING:
    from waybill.records import TableSchema

Convert = Callable[[str], str]

SPECIAL = {'"NaN"': "NaN", '"Infinity"': "Infinity", '"-Infinity"': "-Infinity"}
"""Values of a floating point column that JSON has no number for stand as strings."""

JSON = LogicalType("json")


class Style(NamedTuple):
    """What one envelope writes in its own way.

    Attributes:
        timestamp: how a wall clock stands, None where it stands as the canonical text.
        timestamptz: the same for an instant.
        digits: whether a boolean is 1 or 0, and a bit string its number.
        arrays: whether a SET is an array of texts.
        nested: whether a JSON document stands as it is, and not as a string.
        wkt: whether a geometry is well-known text, and not Base64 of its binary.
        hex: whether bytes are hexadecimal digits after 0x, and not Base64.
        quoted: whether numbers and booleans may come as strings.
        enum: reads the text of an ENUM or the members of a SET, where they need it.
        inferred: whether the type is what JSON said of a value before: the next one may be another.
        own: the notation of types that the envelope writes in a way of its own, None for others.
    """

    timestamp: Notation | None = None
    timestamptz: Notation | None = None
    digits: bool = False
    arrays: bool = False
    nested: bool = False
    wkt: bool = False
    hex: bool = False
    quoted: bool = False
    enum: Convert | None = None
    inferred: bool = False
    own: Callable[[LogicalType], Notation | None] | None = None

    def of_inferred(self) -> Style:
        """The same for columns that nobody declared."""
        return self._replace(quoted=False, nested=False, inferred=True)


WIRE_TYPES: dict[str, Any] = {
    "text": str | None | UnsetType,
    "raw": Raw | UnsetType,
    "null": None | UnsetType,
}
"""What msgspec reads each notation as."""

_KINDS = {
    **dict.fromkeys(b"-0123456789", NUMBER),
    ord('"'): STRING,
    ord("t"): BOOLEAN,
    ord("f"): BOOLEAN,
    ord("n"): UNKNOWN,
    ord("{"): JSON,
    ord("["): JSON,
}
_decode_text = msgspec.json.Decoder(str | None).decode
_decode_string = msgspec.json.Decoder(str).decode
_decode_texts = msgspec.json.Decoder(list[str]).decode


def kind_of(raw: Raw) -> LogicalType:
    """The type that JSON says a value is: number, string, boolean, json, or unknown for null."""
    return _KINDS[bytes(raw)[0]]


def loses_types(schema: TableSchema, style: Style) -> bool:
    """Whether a reader without declarations takes a column of rows for another type."""
    kinds = {NUMBER, STRING, UNKNOWN} if style.digits else {NUMBER, STRING, UNKNOWN, BOOLEAN}
    return any(column.type not in kinds for column in schema.columns)


def notation_of(kind: LogicalType, style: Style) -> Notation:
    """The notation of a type."""
    own = None if style.own is None or style.inferred else style.own(kind)
    return _usual(kind, style) if own is None else own


def _usual(kind: LogicalType, style: Style) -> Notation:
    name = kind.kind
    if kind.is_number:
        bare = _number_notation(kind)
        return bare._replace(read=_unquoted(bare.read)) if style.quoted else bare
    if name == "bit":
        return _bits(kind.precision or 1, style)
    if name == "bytes" and style.hex:
        return Notation("text", _from_hex, _to_hex)
    if name == "boolean":
        boolean = _quoted_boolean if style.quoted else _boolean
        read = _true_or_false if style.inferred else boolean
        write, writes = (_write_digit, WORDS_AS_DIGITS) if style.digits else (_write_boolean, WORDS)
        return Notation("raw", read, write, None, writes)
    if name == "set" and style.arrays:
        return Notation("raw", _set_reader(style.enum), _write_set)
    if name == "json":
        return _documents(style)
    if name == "geometry" and style.wkt:
        return Notation("text", wkt_to_base64, wkt_from_base64)
    if name in ("timestamp", "timestamptz"):
        return (style.timestamp if name == "timestamp" else style.timestamptz) or _TEXT
    if name == "enum" or name == "set":
        return Notation("text", style.enum)
    return _NOTATIONS.get(name, _TEXT)


def _documents(style: Style) -> Notation:
    if style.inferred:
        # A string tells that the column holds no documents after all.
        return Notation("raw", _structure)
    nested = Notation("raw", _document, write_document)
    return nested if style.nested else Notation("raw", _document_or_text)


def read_one(notation: Notation, raw: Raw) -> str | None:
    """The canonical text of one value in the exact way.

    Raises:
        Refusal: the value does not have the column's notation.
    """
    literal = str(raw, "utf-8")
    if literal == "null":
        return None
    read: Callable[[str], str | None] | None = notation.read
    try:
        if notation.wire == "raw":
            return read(literal) if read else literal
        text = _decode_text(raw)
        return text if read is None or text is None else read(text)
    except JSON_ERRORS as error:
        raise Refusal("value", f"{literal[:60]} is no value of the column: {error}") from None


# Numbers


def _number(literal: str) -> str:
    """Plain digits of a JSON number."""
    if literal[0] not in "-0123456789":
        raise Refusal("value", f"a number was expected and the value is {literal[:60]}")
    return number_text(literal) if "e" in literal or "E" in literal else literal


@cache
def _number_notation(kind: LogicalType) -> Notation:
    """The notation of a type of numbers."""
    if kind.kind == "decimal":
        digits = (kind.precision or 0, kind.scale or 0)
        fits, check = decimal_test(*digits), decimal_check(*digits)

        def read(literal: str) -> str:
            return literal if fits(literal) else check(_number(literal))

        return Notation("raw", read, exact, digits_of(kind), DIGITS)
    return _NUMBERS[kind.kind]


def _integer(kind: str) -> Convert:
    """A reader of the integers that a type holds."""
    check = integer_check(kind)

    def read(literal: str) -> str:
        if is_integer_text(literal) is None:
            raise Refusal("value", f"an integer was expected and the value is {literal[:60]}")
        return check(literal)

    return read


def _floating(canonical: Convert, nearest: Callable[[float], float]) -> Convert:
    """A reader of FLOAT or DOUBLE.

    Digits to which the exact value of a number of the type rounds are that number, also where
    fewer would tell it; others do not fit the type and stay as they are.
    """

    def read(literal: str) -> str:
        special = SPECIAL.get(literal)
        if special is not None:
            return special
        if literal[0] not in "-0123456789":
            raise Refusal("value", f"a number was expected and the value is {literal[:60]}")
        found = canonical(literal)
        if found != literal or (nearest is float and repr(float(literal)) == literal):
            return found
        return _fewest_digits(literal, nearest) or literal

    return read


def _fewest_digits(literal: str, nearest: Callable[[float], float]) -> str | None:
    """The canonical digits of a float that an older Java wrote; None if it is no such number.

    It writes more digits than are needed: those of the exact value, rounded where they end.
    """
    try:
        number = Decimal(literal)
        value = nearest(float(literal))
    except (OverflowError, InvalidOperation):
        # Its exponent is out of range, of a Decimal even.
        return None
    digits = len(number.as_tuple().digits)
    if not isfinite(value) or digits > 20 or Decimal(f"{value:.{digits - 1}e}") != number:
        return None
    return float32_value(value) if nearest is to_float32 else repr(value)


read_float32 = _floating(float32_text, to_float32)
read_float64 = _floating(float64_text, float)


@cache
def _unquoted(read: Convert) -> Convert:
    """A reader that takes the number in a string too."""

    def unquote(literal: str) -> str:
        if not literal:
            # Values in bulk come without their quotes.
            raise Refusal("value", "a number was expected and the value is an empty text")
        if literal[0] == '"' and is_json_number(literal[1:-1]) is not None:
            literal = literal[1:-1]
        return read(literal)

    return unquote


def exact(text: str) -> Raw:
    """A number, digits untouched.

    Raises:
        Refusal: kind `encoding`, when the text is no JSON number (`NaN`, a text that did not fit).
    """
    if is_plain_number(text) is None and is_json_number(text) is None:
        raise Refusal("encoding", f"{text[:60]!r} is not a number that JSON can hold")
    return Raw(text.encode())


def write_integer(text: str) -> Raw:
    """An integer, digits untouched.

    Raises:
        Refusal: kind `encoding`, when the text is none.
    """
    if is_integer_text(text) is None:
        raise Refusal("encoding", f"{text[:60]!r} is not an integer that JSON can hold")
    return Raw(text.encode())


def _write_float(text: str) -> Any:
    return text if f'"{text}"' in SPECIAL else exact(text)


_NUMBERS = {
    **{
        kind: Notation("raw", _integer(kind), write_integer, integers(*reach), WHOLE_DIGITS)
        for kind, reach in INTEGER_RANGE.items()
    },
    "number": Notation("raw", _number, exact, DIGITS, DIGITS),
    "float32": Notation("raw", read_float32, _write_float, None, DIGITS),
    "float64": Notation("raw", read_float64, _write_float, SHORT_FLOATS, DIGITS),
}


# Truth and bits


def _boolean(literal: str) -> str:
    found = {"1": "true", "0": "false", "true": "true", "false": "false"}.get(literal)
    if found is None:
        raise Refusal("value", f"{literal[:60]} is not a boolean (true, false, 1 or 0)")
    return found


def _quoted_boolean(literal: str) -> str:
    return _boolean(_IN_QUOTES.get(literal, literal))


_IN_QUOTES = {f'"{text}"': text for text in ("true", "false", "1", "0")}


def _true_or_false(literal: str) -> str:
    if literal not in ("true", "false"):
        raise Refusal("value", f"{literal[:60]} is neither true nor false")
    return literal


def _write_boolean(text: str) -> Raw:
    if text not in ("true", "false"):
        raise Refusal("encoding", f"{text[:60]!r} is not a boolean")
    return Raw(text.encode())


def _write_digit(text: str) -> Raw:
    return Raw(b"1" if bytes(_write_boolean(text)) == b"true" else b"0")


def _bits(bits: int, style: Style) -> Notation:
    """A bit string of a width: its number, or its bytes."""

    def number(literal: str) -> str:
        if len(literal) > _digits_of(bits) or is_integer_text(literal) is None:
            raise Refusal("value", f"{literal[:60]} is not the number of a bit({bits})")
        return bits_text(int(literal), bits)

    def whole(text: str) -> str:
        # A source may leave zeros in front out.
        return bits_text(bits_value(_from_hex(text) if style.hex else text), bits)

    def checked(text: str) -> str:
        try:
            bits_text(bits_value(text), bits)
        except Refusal as refusal:
            raise Refusal("encoding", refusal.sentence) from None
        return text

    if style.digits:
        return Notation("raw", number, lambda text: Raw(bits_digits(checked(text)).encode()))
    if style.hex:
        return Notation("text", whole, lambda text: _to_hex(checked(text)))
    return Notation("text", whole, checked)


def _digits_of(bits: int) -> int:
    """How many digits the largest number of so many bits has at most; Python takes 4300."""
    return min(bits // 3 + 1, 4300)


# Texts


def _set_reader(member: Convert | None) -> Convert:
    def read(literal: str) -> str:
        text = _decode_string(literal) if literal[0] == '"' else ",".join(_decode_texts(literal))
        return text if member is None else member(text)

    return read


def _write_set(text: str) -> list[str]:
    return text.split(",") if text else []


def _document(literal: str) -> str:
    if literal[0] in "{[":
        check_json(literal.encode())
    return literal


def _structure(literal: str) -> str:
    """A document that stands as it is."""
    if literal[0] not in "{[":
        raise Refusal("value", f"a JSON document was expected and the value is {literal[:60]}")
    return _document(literal)


def _document_or_text(literal: str) -> str:
    """A document in a string; one that stands as it is can be recognised by that."""
    if literal[0] == '"':
        return _decode_string(literal)
    return _structure(literal)


def write_document(text: str) -> Raw:
    """A JSON document as it is.

    Raises:
        Refusal: kind `encoding`, when it is no JSON, is null, or breaks the line of a message.
    """
    data = text.encode()
    try:
        check_json(data)
        msgspec.json.decode(data, type=Raw)
    except (Refusal, *JSON_ERRORS):
        raise _no_part(f"{text[:60]!r} is not a JSON document") from None
    if data != data.strip() or data == b"null" or b"\n" in data or b"\r" in data:
        raise _no_part(f"{text[:60]!r} cannot be part of a message")
    return Raw(data)


def _no_part(why: str) -> Refusal:
    # Maxwell alone has documents stand as they are.
    return Refusal("encoding", f"{why}; set json_columns: text to write it")


def _checked_bytes(text: str) -> str:
    base64_bytes(text)
    return text


def _from_hex(text: str) -> str:
    digits = text.removeprefix("0x").removeprefix("0X")
    # bytes.fromhex alone would pass blanks over.
    if digits and not (digits.isalnum() and digits.isascii()):
        raise Refusal("value", "a value of a bytes column is no hexadecimal digits")
    try:
        return base64_text(bytes.fromhex(digits))
    except ValueError:
        raise Refusal("value", "a value of a bytes column is no hexadecimal digits") from None


def _to_hex(text: str) -> str:
    try:
        return f"0x{base64_bytes(text).hex()}"
    except Refusal as refusal:
        raise Refusal("encoding", refusal.sentence) from None


_TEXT = Notation("text")
_NOTATIONS = {
    "unknown": Notation("null"),
    "bytes": Notation("text", _checked_bytes),
    "geometry": Notation("text", _checked_bytes),
}
