"""JSON values of Debezium messages to the exact texts of an image, value by value.

Every function takes one JSON value that is not null and returns its text, or raises ValueError or
a Refusal. Functions whose name ends in `raw` take the value's JSON text, null included, because
numbers with a fraction would be rounded by any other way of reading them.
"""

from __future__ import annotations

import binascii
import re
import struct
from decimal import Decimal, InvalidOperation
from functools import cache, lru_cache
from hashlib import md5
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import msgspec
from msgspec import UNSET, Raw, UnsetType

from waybill.errors import Refusal
from waybill.values.values import (
    MAX_DIGITS,
    base64_bytes,
    base64_text,
    bits_text,
    float32_text,
    float32_value,
    float64_text,
    is_json_number,
    number_text,
    to_float32,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

SPECIAL = {'"NaN"': "NaN", '"Infinity"': "Infinity", '"-Infinity"': "-Infinity"}
"""Values of a floating point column that JSON has no number for."""

_json = msgspec.json.encode
_base64, _integer = binascii.a2b_base64, int.from_bytes
_SHORT = 64
"""Bytes of an unscaled number that is turned into digits directly."""
_LONGEST = MAX_DIGITS * 5 // 12
"""Bytes of the longest unscaled number that is turned into digits at all."""
_text: Callable[[Any], str] = msgspec.json.Decoder(str).decode


class VariableScale(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A number that brings its own scale (`io.debezium.data.VariableScaleDecimal`)."""

    scale: int
    value: str


class Geometry(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A geometric value: well-known binary and its reference system; points tell x and y too."""

    x: Raw | UnsetType = UNSET
    y: Raw | UnsetType = UNSET
    wkb: str | UnsetType | None = UNSET
    srid: int | UnsetType | None = UNSET


# Exact numbers


def scaled_text(unscaled: int, scale: int) -> str:
    """Plain digits of unscaled * 10^-scale, scale kept.

    Raises:
        ValueError: the scale is beyond all reason.
    """
    if not -MAX_DIGITS <= scale <= MAX_DIGITS:
        raise ValueError(f"a scale of {scale}")
    digits = str(Decimal(abs(unscaled)))
    if scale > 0:
        digits = digits.rjust(scale + 1, "0")
        digits = f"{digits[:-scale]}.{digits[-scale:]}"
    elif unscaled:
        digits += "0" * -scale
    return f"-{digits}" if unscaled < 0 else digits


def unscaled(text: str) -> int:
    """The number that the Base64 of a big-endian two's complement stands for.

    Raises:
        ValueError: it is not Base64, or no bytes at all.
    """
    data = binascii.a2b_base64(text, strict_mode=True)
    if not data or len(data) > _LONGEST:
        raise ValueError(f"a number of {len(data) or 'no'} bytes")
    return int.from_bytes(data, "big", signed=True)


def decimal_reader(scale: int) -> Callable[[str], str]:
    """Reads `org.apache.kafka.connect.data.Decimal` of one scale.

    Raises:
        ValueError: the scale is beyond all reason.
    """
    scaled_text(0, scale)
    if scale <= 0:
        return lambda text: scaled_text(unscaled(text), scale)

    def read(text: str) -> str:
        data = _base64(text, strict_mode=True)
        if not data or len(data) > _SHORT:
            return scaled_text(unscaled(text), scale)
        number = _integer(data, "big", signed=True)
        digits = str(abs(number))
        if len(digits) <= scale:
            digits = digits.rjust(scale + 1, "0")
        if number < 0:
            return f"-{digits[:-scale]}.{digits[-scale:]}"
        return f"{digits[:-scale]}.{digits[-scale:]}"

    return read


@cache
def unscaled_reader(scale: int, mode: str | None) -> Callable[[str], str]:
    """The same for a column without a schema, whose setting says what its texts are.

    Args:
        scale: digits after the point.
        mode: the setting; without it each text tells what it is.
    """
    if mode is None:
        return _scaled_or_unscaled(scale)
    read = decimal_reader(scale)

    def read_unscaled(text: str) -> str:
        try:
            return read(text)
        except (Refusal, ValueError):
            if is_json_number(text) is None:
                raise
            sentence = f"{text[:60]!r} is a number and not the Base64 of its unscaled digits: set "
            raise Refusal("value", sentence + _STRING_MODE) from None

    return read_unscaled


def _scaled_or_unscaled(scale: int) -> Callable[[str], str]:
    """A reader of decimals that are digits or the Base64 of their unscaled digits, as each tells.

    Nothing beside the value is asked: connectors can get other settings in the middle of a topic.

    Source: Debezium, "Decimal types" of each connector (`decimal.handling.mode`).
    """
    read = decimal_reader(scale)

    def read_either(text: str) -> str:
        try:
            number = number_or_special(text)
        except Refusal:
            return read(text)
        try:
            base64_bytes(text)
        except Refusal:
            return number
        sentence = f"{text[:60]!r} is a number, and the Base64 of other unscaled digits: set "
        raise Refusal("value", f"{sentence}{_STRING_MODE}, or `decimals: precise` there")

    return read_either


_STRING_MODE = (
    "`decimals: string` in the settings of the source (the connector's decimal.handling.mode)"
)


def decimal_or_number(
    parameters: Mapping[str, str], check: Callable[[str], str] | None
) -> Callable[[Raw], str | None]:
    """Reads a Decimal of Connect, or the JSON number that a converter makes of it.

    Args:
        parameters: those of its schema.
        check: holds a number against the type of the column.
    """
    read = decimal_reader(int(parameters.get("scale", "0")))

    def either(raw: Raw) -> str | None:
        number = read(_text(raw)) if bytes(raw)[:1] == b'"' else real_raw(raw)
        return number if number is None or check is None else check(number)

    return either


def variable_text(value: VariableScale) -> str:
    """Plain digits of a number with its own scale."""
    return scaled_text(unscaled(value.value), value.scale)


def number_or_special(text: str) -> str:
    """Plain digits of a number in any notation; NaN and the infinities stay texts."""
    # Nearly all are numbers, and those that have no letters need no comparison.
    return text if text[-1:].isalpha() and f'"{text}"' in SPECIAL else number_text(text)


def unsigned_text(value: int) -> str:
    """BIGINT UNSIGNED of the mode `long`, where the upper half arrives negative."""
    if not -(2**63) <= value < 2**64:
        raise ValueError(f"{value} is out of the range of 64 bits")
    return str(value if value >= 0 else value + 2**64)


def real_raw(raw: Raw) -> str | None:
    """A JSON number of any size in plain digits, or NaN or an infinity."""
    text = str(raw, "utf-8")
    if text == "null":
        return None
    return SPECIAL.get(text) or number_text(_number(text))


def float64_raw(raw: Raw) -> str | None:
    """A float64, in the digits that read back to it."""
    text = str(raw, "utf-8")
    try:
        value = float(text)
        # A raw value is legal JSON already, so what float() takes is a JSON number.
        canonical = repr(value)
    except ValueError:
        return None if text == "null" else _special(text)
    return text if canonical == text else _float_text(text, value, float64_text, canonical)


def float32_raw(raw: Raw) -> str | None:
    """A float32, in the digits that read back to it."""
    return _float32(str(raw, "utf-8"))


@lru_cache(maxsize=50_000)
def _float32(text: str) -> str | None:
    # The shortest digits are searched for, and measurements repeat.
    try:
        value = to_float32(float(text))
    except OverflowError:
        return text
    except ValueError:
        return None if text == "null" else _special(text)
    return _float_text(text, value, float32_text, "")


def _float_text(text: str, value: float, canonical_of: Callable[[str], str], canonical: str) -> str:
    """The canonical digits of a float that Java wrote.

    Older Java runtimes write more digits than are needed. They are the digits of the exact value,
    rounded where they end; any other number is no value of the type and stays as it is.
    """
    found = canonical_of(text)
    if found != text:
        return found
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text  # an exponent of twenty digits, which no float has
    if not isfinite(value) or Decimal(f"{value:.{len(number.as_tuple().digits) - 1}e}") != number:
        return text
    return canonical or float32_value(value)


def _special(text: str) -> str:
    found = SPECIAL.get(text)
    if found is None:
        raise ValueError(f"{text[:40]} is not a number")
    return found


def _number(text: str) -> str:
    if is_json_number(text) is None:
        raise ValueError(f"{text[:40]} is not a number")
    return text


def bool_text(value: bool) -> str:
    """True or false."""
    return "true" if value else "false"


# Bytes


def base64_checked(text: str) -> str:
    """Base64 as it is, if it is Base64."""
    binascii.a2b_base64(text, strict_mode=True)
    return text


def base64_url_text(text: str) -> str:
    """Base64 of the URL-safe alphabet in the usual one."""
    return base64_checked(text.replace("-", "+").replace("_", "/"))


def hex_text(text: str) -> str:
    """Hex digits as Base64."""
    # bytes.fromhex alone would pass blanks over.
    if text and not text.isalnum():
        raise ValueError("a value is not hex digits")
    return base64_text(bytes.fromhex(text))


def bits_reader(length: int) -> Callable[[str], str]:
    """Reads `io.debezium.data.Bits` of one length: little-endian bytes, turned round.

    Zero bytes of the highest bits may be missing (Java's `BitSet.toByteArray`).
    """

    def read(text: str) -> str:
        return bits_text(int.from_bytes(base64_bytes(text), "little"), length)

    return read


# Text that is JSON


def json_raw(raw: Raw) -> str | None:
    """The JSON text of an array, map or struct."""
    text = str(raw, "utf-8")
    if text[0] not in "[{":
        if text == "null":
            return None
        raise ValueError("a value is neither an array nor an object")
    return text


def structure_raw(raw: Raw) -> str | None:
    """The JSON text of an array or map without a schema, which is no number and no geometry."""
    text = json_raw(raw)
    if text is not None and _TELLING.search(text) and object_kind(raw) != "structure":
        raise ValueError("a value may be a number with its own scale, or a geometry")
    return text


def object_kind(raw: bytes | Raw) -> str:
    """What a JSON value that is no text or number may be: a variable, a geometry or a structure.

    An object without a schema is known by its names alone. A map may have these names as well:
    its values are texts or null, and it may have others beside them.
    """
    if bytes(raw)[:1] != b"{":
        return "structure"
    fields = _fields(raw)
    if fields.keys() == _VARIABLE:
        return "structure" if bytes(fields["scale"])[:1] in (b'"', b"n") else "variable"
    return "geometry" if _WKB <= fields.keys() <= _GEOMETRY else "structure"


_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_VARIABLE = {"scale", "value"}
_WKB = {"wkb", "srid"}
_GEOMETRY = {"x", "y", *_WKB}
# A name may be written with escapes.
_TELLING = re.compile(r'"(?:scale|wkb)"|\\u')


def number_raw(raw: Raw) -> str | None:
    """The JSON text of a number in a column of texts."""
    text = str(raw, "utf-8")
    return None if text == "null" else _number(text)


def mixed_raw(raw: Raw) -> str | None:
    """Text of a column that holds strings and other values: strings as such, the rest as JSON."""
    text = str(raw, "utf-8")
    return None if text == "null" else _text(text) if text[0] == '"' else text


# Geometry

_SRID_FLAG = 0x20000000


def geometry_text(value: Geometry) -> str:
    """Base64 of the well-known binary, with the reference system in it (EWKB) if one is stated."""
    for part in (value.x, value.y):
        if part is not UNSET and bytes(part)[:1] in (b"{", b"["):
            raise ValueError("a coordinate that is no number")
    if not value.wkb:
        if value.x is UNSET or value.y is UNSET:
            raise ValueError("a geometry without binary form")
        point = float(bytes(value.x)), float(bytes(value.y))
        data = struct.pack("<BIdd", 1, 1, *point)
    else:
        data = base64_bytes(value.wkb)
    return base64_text(_with_srid(data, None if value.srid is UNSET else value.srid))


def _with_srid(data: bytes, srid: int | None) -> bytes:
    if srid is None or len(data) < 5 or data[0] > 1:
        return data
    order = "<" if data[0] == 1 else ">"
    (kind,) = struct.unpack_from(f"{order}I", data, 1)
    if kind & _SRID_FLAG:
        return data
    return data[:1] + struct.pack(f"{order}Ii", kind | _SRID_FLAG, srid) + data[5:]


def split_srid(data: bytes) -> tuple[bytes, int | None]:
    """Well-known binary without its reference system, and the reference system."""
    if len(data) < 9 or data[0] > 1:
        return data, None
    order = "<" if data[0] == 1 else ">"
    kind, srid = struct.unpack_from(f"{order}Ii", data, 1)
    if not kind & _SRID_FLAG:
        return data, None
    return data[:1] + struct.pack(f"{order}I", kind & ~_SRID_FLAG) + data[9:], srid


# Columns that were not sent


class Placeholders(NamedTuple):
    """The JSON texts that stand for a value that was not sent: texts, and arrays or objects."""

    texts: frozenset[str]
    structures: frozenset[str]


class Marks:
    """The notations of the placeholder for a value that was not sent.

    Args:
        placeholder: the text, or None when every text is a value.
        binary: how bytes are written.
    """

    def __init__(self, placeholder: str | None, binary: str) -> None:
        self.text: tuple[str, ...] = ()
        self.bytes: tuple[str, ...] = ()
        self.raw: frozenset[str] = frozenset()
        self._structures: frozenset[str] = frozenset()
        if placeholder is None:
            return
        data = placeholder.encode()
        encoded = data.hex() if binary == "hex" else base64_text(data)
        if binary == "base64-url-safe":
            encoded = encoded.replace("+", "-").replace("/", "_")
        self.text = (placeholder,)
        self.bytes = (encoded,)
        # A UUID has no room for the text: its hash stands for it.
        unique = str(UUID(bytes=md5(data, usedforsecurity=False).digest(), version=3))
        items: list[Any] = [placeholder, encoded, unique]
        shapes = [*([item] for item in items), {placeholder: placeholder}, list(data)]
        # Blanks may stand between the parts of one.
        self._structures = frozenset(_json(shape).decode().replace(" ", "") for shape in shapes)
        self.raw = self._structures | _quoted(items)

    def known(self, texts: tuple[str, ...]) -> Placeholders:
        """The JSON of placeholders.

        Args:
            texts: those of them that are texts.
        """
        return Placeholders(_quoted(texts), self._structures)

    def reader(
        self, convert: Callable[[Raw], str | None], known: Placeholders | None = None
    ) -> Callable[[Raw], Any]:
        """A reader of raw values that knows the placeholder, in all its shapes if nothing is set.

        Args:
            convert: what reads the others.
            known: the shapes.
        """
        quoted, structures = known or Placeholders(self.raw - self._structures, self._structures)
        longest = max(map(len, quoted | structures), default=0)
        if not longest:
            return convert

        def read(raw: Raw) -> Any:
            # Only short values can be the placeholder.
            if len(raw) <= 2 * longest:
                text = str(raw, "utf-8")
                if text in quoted or text.replace(" ", "") in structures:
                    return UNSET
            return convert(raw)

        return read


def _quoted(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(_json(text).decode() for text in texts)
