"""Exact texts of an image to JSON values, value by value.

A conversion raises ValueError for a text that the notation cannot hold exactly: nothing is rounded,
cut or replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any

import msgspec
from msgspec import Raw

from waybill.envelopes.debezium.values.texts import SPECIAL, split_srid
from waybill.types import INTEGER_RANGE
from waybill.values.values import (
    base64_bytes,
    base64_text,
    in_one_line,
    is_integer_text,
    is_json_number,
    is_plain_number,
)

Convert = Callable[[str], Any]


@cache
def integer_writer(kind: str, ranged: bool) -> Convert:
    """Writes the integers of a type; `ranged` where the notation has no room for others.

    It is the same function for the same type.
    """
    low, high = INTEGER_RANGE[kind]

    def write(text: str) -> int:
        if is_integer_text(text) is None:
            raise ValueError(f"{text[:40]!r} is not an integer")
        value = int(text)
        if ranged and not low <= value <= high:
            raise ValueError(f"{text[:40]} is out of the range of {kind}")
        return value

    return write


def unsigned_value(text: str) -> int:
    """An integer without sign; one below zero would be read as one that wrapped around."""
    if is_integer_text(text) is None or int(text) < 0:
        raise ValueError(f"{text[:40]!r} is not an integer without sign")
    return int(text)


def unsigned_long(text: str) -> int:
    """An integer without sign in a notation of 64 bits with one."""
    value = unsigned_value(text)
    if value >= 2**63:
        raise ValueError(f"{text[:40]} is out of the range of int64")
    return value


def wrapped_value(text: str) -> int:
    """64 bits without sign as the mode `long` writes them."""
    if is_integer_text(text) is None or not 0 <= int(text) < 2**64:
        raise ValueError(f"{text[:40]!r} is not an integer of 64 bits without sign")
    value = int(text)
    return value if value < 2**63 else value - 2**64


def json_number(text: str) -> Any:
    """A number as a JSON number with the same digits; NaN and the infinities as texts."""
    if is_json_number(text) is not None:
        return Raw(text.encode())
    if f'"{text}"' in SPECIAL:
        return text
    raise ValueError(f"{text[:40]!r} is not a number")


def float_value(text: str) -> Any:
    """A floating point number; digits that a float does not hold stay as they are."""
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is not a number") from None
    return value if repr(value) == text and text[-1] not in "nf" else json_number(text)


def unscaled_base64(value: int) -> str:
    """Base64 of the shortest two's complement of an integer, most significant byte first."""
    length = (value if value >= 0 else ~value).bit_length() // 8 + 1
    return base64_text(value.to_bytes(length, "big", signed=True))


def unscaled_digits(text: str, scale: int) -> int:
    """The integer that stands for a number of plain digits at a scale."""
    if is_plain_number(text) is None:
        raise ValueError(f"{text[:40]!r} is not a number in plain digits")
    whole, _, fraction = text.partition(".")
    if len(fraction) > scale and fraction[scale:].strip("0"):
        raise ValueError(f"{text[:60]} has more than {scale} digits after the point")
    try:
        return int(Decimal(whole + fraction[:scale].ljust(scale, "0")))
    except InvalidOperation:
        raise ValueError("a number of too many digits") from None


def variable_value(text: str) -> dict[str, Any]:
    """A number with its own scale."""
    scale = len(text.partition(".")[2])
    value = unscaled_digits(text, scale)
    if value == 0 and text.startswith("-"):
        raise ValueError("a negative zero has no unscaled digits")
    return {"scale": scale, "value": unscaled_base64(value)}


def boolean_value(text: str) -> bool:
    """The truth value."""
    if text not in ("true", "false"):
        raise ValueError(f"{text[:40]!r} is neither true nor false")
    return text == "true"


def base64_value(text: str) -> str:
    """Base64 as it is, if it is Base64."""
    base64_bytes(text)
    return text


def bits_value(text: str) -> str:
    """Bits in little-endian bytes, as Base64."""
    return base64_text(base64_bytes(text)[::-1])


def geometry_value(text: str) -> dict[str, Any]:
    """Well-known binary and its reference system."""
    data, srid = split_srid(base64_bytes(text))
    return {"wkb": base64_text(data), "srid": srid}


def structure(text: str) -> Raw:
    """JSON text as the JSON value that it is."""
    # Written between other JSON as it is, so it has to be exactly one JSON value.
    data = text.encode()
    msgspec.json.decode(data)
    return Raw(in_one_line(data))


def iso_text(check: Convert, text: str) -> str:
    """A text of the mode `isostring`, which ends in Z; what is no such time stays as it is."""
    try:
        check(text)
    except ValueError:
        return text
    return f"{text}Z"
