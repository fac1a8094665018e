"""Texts of values as Avro binary: exactly the value, or a refusal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from math import isinf
from typing import TYPE_CHECKING

from waybill.avro.schema import Node, without_null
from waybill.avro.writing import (
    write_boolean,
    write_bytes,
    write_double,
    write_float,
    write_int,
    write_long,
)
from waybill.caches import Bounded
from waybill.envelopes.databus.values.reading import column_of
from waybill.envelopes.databus.values.times import number_for
from waybill.errors import Refusal
from waybill.values.declared import shown
from waybill.values.instants import instant_ms
from waybill.values.values import (
    base64_bytes,
    base64_text,
    float32_text,
    float64_text,
    is_plain_number,
    to_float32,
)

if TYPE_CHECKING:
    from waybill.envelopes.databus.values.times import Number
    from waybill.types import LogicalType

Write = Callable[[bytearray, str], None]
"""Appends the value that a text stands for."""


def write_for(node: Node, kind: LogicalType | None) -> Write:
    """How texts of a column are written as a type.

    Args:
        node: the type, perhaps a union with null.
        kind: what the column holds; None where only null is written.

    Raises:
        Refusal: kind `encoding`; values of that column cannot be written as that type.
    """
    inner = without_null(node)
    name = inner.kind
    if kind is None:
        return _nothing
    column = column_of(node)
    logical = column.logical
    if name == "long" and kind.kind in ("timestamp", "timestamptz") and logical in _MILLIS:
        return _millis("Z" if kind.kind == "timestamptz" else "")
    if logical == "decimal":
        return _decimal(inner.attributes.get("scale", 0), inner.size if name == "fixed" else None)
    if logical is not None:
        number = number_for(logical) if kind.kind == column.type.kind else None
        if number is None:
            raise Refusal("encoding", f"values of {kind} are not written as Avro's {logical}")
        return _logical(number, write_int if name == "int" else write_long, logical)
    if name == "enum" and kind.kind in ("enum", "string"):
        return _enum(inner.symbols)
    if name == "fixed" and kind.kind == "bytes":
        return _fixed(inner.size)
    found = _WRITES.get(name)
    if found is None:
        raise Refusal("encoding", f"values of {kind} are not written as Avro's {name}")
    if name == "bytes" and kind.kind not in ("bytes", "bit", "geometry"):
        raise Refusal("encoding", f"values of {kind} are not written as Avro's bytes")
    return found


_MILLIS = (None, "timestamp-millis", "local-timestamp-millis")


def _refusal(text: str, name: str) -> Refusal:
    return Refusal("encoding", f"{shown(text)} cannot be written as Avro's {name}")


def _nothing(_out: bytearray, text: str) -> None:
    raise _refusal(text, "null")


def _integer(write: Callable[[bytearray, int], None], name: str) -> Write:
    known: Bounded[str, bytes] = Bounded()

    def convert(out: bytearray, text: str) -> None:
        data = known.get(text)
        if data is None:
            data = known[text] = made(text)
        out += data

    def made(text: str) -> bytes:
        found = bytearray()
        try:
            number = int(text) if len(text) < 40 else 1 << 64
            if str(number) != text:
                raise _refusal(text, name)
            write(found, number)
        except ValueError:
            raise _refusal(text, name) from None
        return bytes(found)

    return convert


def _text(out: bytearray, text: str) -> None:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise Refusal("encoding", "a text with half a surrogate pair is not UTF-8") from None
    write_bytes(out, data)


def _bytes(out: bytearray, text: str) -> None:
    write_bytes(out, _data(text, "bytes"))


def _data(text: str, name: str) -> bytes:
    """The bytes of a Base64 text."""
    try:
        data = base64_bytes(text)
    except Refusal:
        raise _refusal(text, name) from None
    if base64_text(data) != text:
        raise _refusal(text, name)
    return data


def _fixed(size: int) -> Write:
    def convert(out: bytearray, text: str) -> None:
        data = _data(text, "fixed")
        if len(data) != size:
            raise _refusal(text, f"fixed of {size} bytes")
        out += data

    return convert


def _enum(symbols: Sequence[str]) -> Write:
    places = {symbol: place for place, symbol in enumerate(symbols)}

    def convert(out: bytearray, text: str) -> None:
        place = places.get(text)
        if place is None:
            raise _refusal(text, "enum, which has no such symbol")
        write_int(out, place)

    return convert


def _logical(number: Number, write: Callable[[bytearray, int], None], name: str) -> Write:
    def convert(out: bytearray, text: str) -> None:
        try:
            write(out, number(text))
        except ValueError:
            raise _refusal(text, name) from None

    return convert


def _boolean(out: bytearray, text: str) -> None:
    if text not in ("true", "false"):
        raise _refusal(text, "boolean")
    write_boolean(out, text == "true")


def _float(text: str, canonical: Callable[[str], str], name: str) -> float:
    """The number of a text that the type holds exactly."""
    try:
        value = float(text)
    except ValueError:
        raise _refusal(text, name) from None
    if repr(value) == text and name == "double":
        return value
    plain = canonical(text)
    # What does not fit the type is given back as it was.
    if plain == text and (repr(value) != text if name == "double" else not _is_float32(text)):
        if text not in ("NaN", "Infinity", "-Infinity"):
            raise _refusal(text, name)
    elif isinf(value) and text not in ("Infinity", "-Infinity"):
        raise _refusal(text, name)
    return value


def _is_float32(text: str) -> bool:
    from waybill.values.values import float32_value

    try:
        return float32_value(to_float32(float(text))) == text
    except OverflowError:
        return False


def _write_double(out: bytearray, text: str) -> None:
    write_double(out, _float(text, float64_text, "double"))


def _write_float(out: bytearray, text: str) -> None:
    write_float(out, _float(text, float32_text, "float"))


def _millis(zone: str) -> Write:
    def convert(out: bytearray, text: str) -> None:
        ms = instant_ms(text if zone else f"{text}Z")
        if ms is None or bool(zone) != text.endswith("Z"):
            raise _refusal(text, "milliseconds")
        write_long(out, ms)

    return convert


def _decimal(scale: int, fixed: int | None = None) -> Write:
    def convert(out: bytearray, text: str) -> None:
        if is_plain_number(text) is None or len(text.partition(".")[2]) != scale:
            raise _refusal(text, f"decimal with {scale} digits after the point")
        if text.startswith("-") and not Decimal(text):
            raise _refusal(text, "decimal")
        number = int(text.replace(".", ""))
        size = (number if number >= 0 else ~number).bit_length() // 8 + 1
        if fixed is None:
            write_bytes(out, number.to_bytes(size, "big", signed=True))
        elif size <= fixed:
            out += number.to_bytes(fixed, "big", signed=True)
        else:
            raise _refusal(text, f"decimal of {fixed} bytes")

    return convert


_WRITES: dict[str, Write] = {
    "int": _integer(write_int, "int"),
    "long": _integer(write_long, "long"),
    "float": _write_float,
    "double": _write_double,
    "boolean": _boolean,
    "string": _text,
    "bytes": _bytes,
}
