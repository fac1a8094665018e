"""Writes Avro binary data: small functions per type, chosen once per schema.

They raise ValueError (or TypeError) for a value that is none of the type; nothing is cut.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from waybill.values.values import float32_value, float64_text, float64_value, to_float32

Write = Callable[[bytearray, Any], None]
"""Appends a value to what is written."""

WRITE_ERRORS = (ValueError, TypeError, KeyError, ArithmeticError, struct.error)
"""What a value raises that is none of its type."""

_FLOAT, _DOUBLE = struct.Struct("<f").pack, struct.Struct("<d").pack


def varint(number: int) -> bytes:
    """A signed integer of 64 bits in Avro's variable-length form."""
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{number} has more than 64 bits")
    rest = (number << 1) ^ (number >> 63)
    if rest < 1 << 14:
        return _ENDS[rest]
    if rest < 1 << 28:
        return _PAIRS[rest & 16383] + _ENDS[rest >> 14]
    return _PAIRS[rest & 16383] + _PAIRS[rest >> 14 & 16383] + _upper(rest >> 28)


@lru_cache(maxsize=4096)
def _upper(rest: int) -> bytes:
    """The bytes from the fifth on: those of times and of many ids stay the same for long."""
    out = b""
    while rest >= 1 << 14:
        out += _PAIRS[rest & 16383]
        rest >>= 14
    return out + _ENDS[rest]


_PAIRS = [bytes((n & 127 | 128, n >> 7 | 128)) for n in range(1 << 14)]
"""Two bytes of a number after which others follow."""
_ENDS = [bytes((n,)) if n < 128 else bytes((n & 127 | 128, n >> 7)) for n in range(1 << 14)]
"""The last bytes of a number, one or two."""

SMALL = [varint(n) for n in range(1024)]
"""Small numbers as they are written."""


def write_long(out: bytearray, number: int) -> None:
    """A `long`."""
    out += SMALL[number] if 0 <= number < 1024 else varint(number)


def write_int(out: bytearray, number: int) -> None:
    """An `int`."""
    if not -(2**31) <= number < 2**31:
        raise ValueError(f"{number} has more than 32 bits")
    out += SMALL[number] if 0 <= number < 1024 else varint(number)


def write_bytes(out: bytearray, data: bytes) -> None:
    """`bytes`."""
    size = len(data)
    out += SMALL[size] if size < 1024 else varint(size)
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
