"""Writes Avro binary data: small functions per type, chosen once per schema.

They raise ValueError (or TypeError) for a value that is none of the type; nothing is cut.
"""

from __future__ import annotations

import binascii
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from waybill.envelopes.notation.values import (
    float32_value,
    float64_text,
    float64_value,
    to_float32,
)

if TYPE_CHECKING:
    from waybill.envelopes.avro.schema import Node

Write = Callable[[bytearray, Any], None]
"""Appends a value to what is written."""

WRITE_ERRORS = (ValueError, TypeError, KeyError, ArithmeticError, struct.error)
"""What a value raises that is none of its type."""

_FLOAT, _DOUBLE = struct.Struct("<f").pack, struct.Struct("<d").pack
_SPECIAL = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def varint(number: int) -> bytes:
    """A signed integer of 64 bits in Avro's variable-length form."""
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{number} has more than 64 bits")
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_SMALL = [varint(n) for n in range(1024)]


def write_long(out: bytearray, number: int) -> None:
    """A `long`."""
    out += _SMALL[number] if 0 <= number < 1024 else varint(number)


def write_int(out: bytearray, number: int) -> None:
    """An `int`."""
    if not -(2**31) <= number < 2**31:
        raise ValueError(f"{number} has more than 32 bits")
    out += _SMALL[number] if 0 <= number < 1024 else varint(number)


def write_bytes(out: bytearray, data: bytes) -> None:
    """`bytes`."""
    size = len(data)
    out += _SMALL[size] if size < 1024 else varint(size)
    out += data


def write_text(out: bytearray, text: str) -> None:
    """A `string`."""
    if not isinstance(text, str):
        raise TypeError(f"{text!r:.60} is no text")
    write_bytes(out, text.encode())


def write_boolean(out: bytearray, value: bool) -> None:
    """A `boolean`."""
    out.append(1 if value else 0)


def write_float(out: bytearray, value: float) -> None:
    """A `float`."""
    out += _FLOAT(value)


def write_double(out: bytearray, value: float) -> None:
    """A `double`."""
    out += _DOUBLE(value)


def exact_float(text: str) -> float:
    """The float of a JSON number.

    Raises:
        ValueError: no float is exactly this number.
    """
    value = float(text)
    if repr(value) != text:
        plain = float64_text(text)
        if float64_value(float(plain)) != plain:
            raise ValueError(f"{text[:60]} is not exactly a floating point number")
    return value


def exact_float32(value: float) -> float:
    """A float64 that has the digits of a float32.

    Raises:
        ValueError: the float32 next to it is another number.
    """
    return _exact_float32(value) if value else value  # a cache takes -0.0 for 0.0


@lru_cache(maxsize=50_000)
def _exact_float32(value: float) -> float:
    # The shortest digits are searched for, and measurements repeat.
    nearest = to_float32(value)
    if nearest != value and value == value and float32_value(nearest) != repr(value):
        raise ValueError(f"{value!r} is not exactly a floating point number of 32 bits")
    return nearest


def json_writer(node: Node) -> Write:
    """A function that writes values as JSON has them: bytes are Base64, floats may be texts."""
    kind = node.kind
    if kind == "record":
        return _record(node)
    if kind == "union":
        return _union(node)
    if kind in ("array", "map"):
        return _repeated(node)
    if kind == "enum":
        symbols = {symbol: i for i, symbol in enumerate(node.symbols)}
        return lambda out, value: write_int(out, symbols[value])
    if kind == "fixed":
        return _fixed(node.size)
    return _PLAIN[kind]


def _record(node: Node) -> Write:
    fields = [(field.name, json_writer(field.node)) for field in node.fields]
    names = frozenset(field.name for field in node.fields)

    def write(out: bytearray, value: Any) -> None:
        if not names.issuperset(value):
            unknown = sorted(set(value) - names)
            raise ValueError(f"there is no field {unknown[0]!r}")
        get = value.get
        for name, inner in fields:
            inner(out, get(name))

    return write


def _union(node: Node) -> Write:
    kinds = [branch.kind for branch in node.branches]
    if len(kinds) != 2 or "null" not in kinds:
        raise ValueError("only unions of null and one type are written")
    null = kinds.index("null")
    nothing, some = bytes([2 * null]), bytes([2 - 2 * null])
    inner = json_writer(node.branches[1 - null])

    def write(out: bytearray, value: Any) -> None:
        if value is None:
            out += nothing
        else:
            out += some
            inner(out, value)

    return write


def _repeated(node: Node) -> Write:
    assert node.items is not None
    inner = json_writer(node.items)
    is_map = node.kind == "map"

    def write(out: bytearray, value: Any) -> None:
        if value:
            write_long(out, len(value))
            for item in value:
                if is_map:
                    write_text(out, item)
                    inner(out, value[item])
                else:
                    inner(out, item)
        out.append(0)

    return write


def _fixed(size: int) -> Write:
    def write(out: bytearray, value: str) -> None:
        data = binascii.a2b_base64(value, strict_mode=True)
        if len(data) != size:
            raise ValueError(f"{len(data)} bytes are not {size}")
        out += data

    return write


def _null(_out: bytearray, value: Any) -> None:
    if value is not None:
        raise ValueError("a value stands where there is none")


def _base64(out: bytearray, value: str) -> None:
    write_bytes(out, binascii.a2b_base64(value, strict_mode=True))


def _number(value: Any) -> float:
    if isinstance(value, str):
        return _SPECIAL[value]
    number = float(value)
    if number != value and value == value:
        raise ValueError(f"{value} is not exactly a floating point number")
    return number


_PLAIN: dict[str, Write] = {
    "null": _null,
    "boolean": write_boolean,
    "int": write_int,
    "long": write_long,
    "float": lambda out, value: write_float(out, exact_float32(_number(value))),
    "double": lambda out, value: write_double(out, _number(value)),
    "bytes": _base64,
    "string": write_text,
}
