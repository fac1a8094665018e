"""Notations of values that several envelopes share: exact numbers, floats, bytes, strict JSON.

Nothing here rounds. A function either returns the canonical text of exactly the value it was
given, or says that it cannot (a `Refusal`, or the text as it was where the docstring says so).
"""

from __future__ import annotations

import binascii
import json
import re
import struct
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from itertools import accumulate
from typing import Any

import msgspec

from waybill.errors import Refusal

MAX_DIGITS = 20_000
"""Longest plain form that an exponent may grow to: `1e999999999` would fill the memory."""

_PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_ANY_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_SPECIAL = {
    "nan": "NaN",
    "+nan": "NaN",
    "-nan": "NaN",
    "infinity": "Infinity",
    "+infinity": "Infinity",
    "-infinity": "-Infinity",
    "inf": "Infinity",
    "+inf": "Infinity",
    "-inf": "-Infinity",
}

is_plain_number = _PLAIN_NUMBER.fullmatch
"""Match if a text is a number in plain digits, which is also a legal JSON number."""

is_integer_text = _INTEGER.fullmatch
"""Match if a text is an integer in plain digits, without leading zeros or plus sign."""

is_json_number = _JSON_NUMBER.fullmatch
"""Match if a text is a legal JSON number, exponent allowed."""


_LONGEST_NATURAL = 19
"""Digits of the largest number of 63 bits."""


def natural_of(text: str) -> int | None:
    """The number that a text is in plain digits; None if it is none from 0 to 2**63 - 1."""
    # A text of thousands of digits is no number for Python.
    if len(text) > _LONGEST_NATURAL or text[:1] == "-" or is_integer_text(text) is None:
        return None
    number = int(text)
    return number if number < 2**63 else None


# Exact numbers


def plain_text(number: Decimal) -> str:
    """A decimal number in plain digits, scale kept: 1.10 stays 1.10, 1E+2 becomes 100.

    Raises:
        Refusal: kind `value`, for NaN, infinity or more than `MAX_DIGITS` digits.
    """
    text = str(number)
    if "E" not in text and number.is_finite():
        return text
    if not number.is_finite():
        raise Refusal("value", f"{text} is not a number in digits")
    if number.adjusted() > MAX_DIGITS or number.adjusted() < -MAX_DIGITS:
        raise Refusal("value", f"a number of more than {MAX_DIGITS} digits in plain form")
    return format(number, "f")


def number_text(text: str) -> str:
    """The plain digits of a number written in any usual notation (`1e400`, `+1.`, `.5`, `1.10`).

    Leading zeros go, trailing zeros of the fraction stay, and so does the minus sign of zero.

    Raises:
        Refusal: kind `value`, when the text is no number or its plain form is too long.
    """
    if _PLAIN_NUMBER.fullmatch(text) is not None:
        return text
    # Decimal alone would also take underscores, blanks around and digits of other scripts.
    if _ANY_NUMBER.fullmatch(text) is None:
        raise Refusal("value", "a number was expected and the value is none")
    try:
        return plain_text(Decimal(text))
    except InvalidOperation:
        message = f"a number of more than {MAX_DIGITS} digits in plain form"
        raise Refusal("value", message) from None


# Floating point


def float64_value(value: float) -> str:
    """The canonical text of a float64: shortest digits that read back, as Python writes it."""
    if value != value:
        return "NaN"
    if value in (_INFINITY, -_INFINITY):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def float32_value(value: float) -> str:
    """The canonical text of a float32: shortest digits that read back to the same float32.

    Args:
        value: a value that a float32 holds exactly.
    """
    if value != value or value in (_INFINITY, -_INFINITY):
        return float64_value(value)
    # 6 digits always survive a normal float32, 9 always tell it from its neighbours.
    for digits in range(6 if abs(value) >= _SMALLEST_NORMAL else 1, 9):
        short = float(f"{value:.{digits}g}")
        if to_float32(short) == value:
            return repr(short)
    return repr(float(f"{value:.9g}"))


def float64_text(text: str) -> str:
    """The canonical text of a float64 given in any notation.

    A text whose exact value is neither that of the nearest float64, nor that of its shortest text,
    nor that of what Java prints for it does not fit the type and is returned as it is, never
    rounded; so is a text out of range or no number at all.
    """
    try:
        value = float(text)
    except ValueError:
        return text
    canonical = repr(value)
    if canonical == text:
        return _SPECIAL.get(text, text)
    return _fitting(text, value, canonical)


def is_float64_text(text: str) -> bool:
    """Whether a text is the canonical one of a finite float64, as most numbers of tools are."""
    try:
        return repr(float(text)) == text and text[-1] not in "nf"
    except ValueError:
        return False


def float32_text(text: str) -> str:
    """The canonical text of a float32 given in any notation; see `float64_text`.

    The digits that a float64 needs for the same value are accepted too: tools widen a float32
    before they print it.
    """
    try:
        value = _nearest_float32(text)
    except (ValueError, OverflowError):
        return text
    canonical = float32_value(value)
    return text if canonical == text else _fitting(text, value, canonical)


def _fitting(text: str, value: float, canonical: str) -> str:
    if value != value or value in (_INFINITY, -_INFINITY):
        return _SPECIAL.get(text.lower(), text)
    if _as_java(text) == canonical:
        return canonical
    if _ANY_NUMBER.fullmatch(text) is None:
        return text
    try:
        exact = Decimal(text)
    except InvalidOperation:
        return text
    if exact in (Decimal(canonical), Decimal(value), Decimal(repr(value))):
        return canonical
    # Java writes two digits at least, and before 19 often all 17 (Double.toString, JDK-4511638):
    # 4.9E-324 for 5e-324, 7.4449557257619597E17 for 7.44495572576196e17. Both are the float's own
    # value, rounded to as many digits as the text has.
    digits = len(exact.as_tuple().digits)
    if "." in text and digits <= _MOST_DIGITS and exact == Decimal(f"{value:.{digits - 1}e}"):
        return canonical
    return text


def _as_java(text: str) -> str:
    """Java's `1.0E22` and `2.5E-246` as Python writes them; spares most of them a comparison."""
    short = text.replace(".0E", "E")
    return short.replace("E-", "e-") if "E-" in short else short.replace("E", "e+")


def to_float32(value: float) -> float:
    """The float32 nearest to a float64.

    Raises:
        OverflowError: it is out of range.
    """
    nearest: float = _FLOAT32.unpack(_FLOAT32.pack(value))[0]
    return nearest


def _nearest_float32(text: str) -> float:
    """The float32 nearest to the exact value of a text, rounded once."""
    value = float(text)
    nearest = to_float32(value)
    if nearest != value and _DOUBLE_BITS.unpack(_DOUBLE.pack(value))[0] & _HALF == _HALF_WAY:
        # The float64 stands half way between two float32: the digits it lost decide.
        exact, half_way = Decimal(text), Decimal(value)
        if exact != half_way:
            towards = _INFINITY if exact > half_way else -_INFINITY
            nearest = to_float32(_next_after(value, towards))
    return nearest


def _next_after(value: float, towards: float) -> float:
    from math import nextafter

    return nextafter(value, towards)


_INFINITY = float("inf")
_MOST_DIGITS = 17
"""No two float64 have the same first 17 digits."""
_SMALLEST_NORMAL = 2.0**-126
_FLOAT32 = struct.Struct(">f")
_DOUBLE = struct.Struct(">d")
_DOUBLE_BITS = struct.Struct(">Q")
_HALF = (1 << 29) - 1
_HALF_WAY = 1 << 28


# Bytes


def base64_text(data: bytes) -> str:
    """Base64 with padding and without line breaks."""
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def base64_bytes(text: str) -> bytes:
    """The bytes of Base64 text; nothing but the alphabet and the padding is accepted.

    Raises:
        Refusal: kind `value`, for anything else.
    """
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:
        raise Refusal("value", f"a value is not Base64: {error}") from None


def bits_text(value: int, bits: int) -> str:
    """Base64 of a bit string: big-endian, as many bytes as its width needs.

    Raises:
        Refusal: kind `value`, when the value is negative or has more bits.
    """
    if value < 0 or value.bit_length() > bits:
        raise Refusal("value", f"a value does not fit bit({bits})")
    return base64_text(value.to_bytes((bits + 7) // 8, "big"))


def bits_value(text: str) -> int:
    """The number that the Base64 of a bit string stands for.

    Raises:
        Refusal: kind `value`, when it is not Base64.
    """
    return int.from_bytes(base64_bytes(text), "big")


def bits_digits(text: str) -> str:
    """The digits of the number that the Base64 of a bit string stands for.

    Raises:
        Refusal: kind `encoding`, when it is not Base64, or the number has too many digits to be one
            for readers.
    """
    try:
        return str(bits_value(text))
    except Refusal as refusal:
        raise Refusal("encoding", refusal.sentence) from None
    except ValueError:
        raise Refusal("encoding", "a bit string whose number has thousands of digits") from None


# JSON


def json_refusal(error: Exception) -> Refusal:
    """What to answer when msgspec (or `check_json`) could not decode a message.

    Args:
        error: a msgspec error, UnicodeDecodeError or RecursionError.
    """
    if isinstance(error, Refusal):
        return error
    if isinstance(error, msgspec.ValidationError):
        return Refusal("shape", f"the message has the wrong shape: {error}")
    if isinstance(error, RecursionError):
        return Refusal("json", "the message is nested too deeply")
    if isinstance(error, UnicodeDecodeError):
        return Refusal("json", f"the message is not UTF-8 (byte {error.start} of a text)")
    return Refusal("json", f"the message is not JSON: {error}")


MAX_DEPTH = 900
"""Arrays and objects inside each other; what Python versions take without a limit differs."""

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.S)
_NO_BRACKETS = bytes({*range(256)}.difference(b"[]{}"))
_STEPS = [1 if mark in b"[{" else -1 for mark in range(256)]

JSON_ERRORS = (ValueError, RecursionError)
"""What decoding hostile JSON with msgspec raises: catch these, pass them to `json_refusal`."""


def check_json(value: bytes) -> None:
    """Refuse what fast decoders let pass: a name twice in one object, bytes that are not UTF-8.

    This is slow (about ten times a typed decode); `quotes_of` tells when it is needed.

    Raises:
        Refusal: kind `json`.
    """
    try:
        text = value.decode("utf-8")
        if value.count(b"[") + value.count(b"{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
            raise RecursionError
        _strict(text)
    except JSON_ERRORS as error:
        raise json_refusal(error) from None
    half = _half_pair(text)
    if half is not None:
        sentence = f"a text of the message holds {half}, half of a surrogate pair"
        raise Refusal("json", f"{sentence}, which is no character")


def in_one_line(text: bytes) -> bytes:
    """JSON that is carried on as it came, without the line breaks between its tokens.

    Texts and digits stay as they are. A line of a file cannot hold a line break, and JSON means the
    same without it; most messages have none.

    Raises:
        ValueError, RecursionError: it has line breaks and is no JSON (`JSON_ERRORS`).
    """
    return msgspec.json.format(text, indent=-1) if _LINE_FEED in text or _RETURN in text else text


# Bytes by number: they are found in a quarter of the time that bytes of length one take.
_LINE_FEED, _RETURN = b"\n\r"


_HIGH, _LOW = r"[dD][89abAB][0-9a-fA-F]{2}", r"[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPES = re.compile(rf"\\u{_HIGH}\\u{_LOW}|(\\u(?:{_HIGH}|{_LOW}))|\\.", re.S)
"""Escapes of JSON, whole pairs in one; in the group what is half of one."""


def _half_pair(text: str) -> str | None:
    """The first escape in JSON that is half of a surrogate pair without the other half."""
    if "\\u" not in text:
        return None
    return next((match[1] for match in _ESCAPES.finditer(text) if match[1]), None)


def _depth(value: bytes) -> int:
    """How deep arrays and objects are nested."""
    brackets = _STRING.sub(b"", value).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0)


def quotes_of(value: bytes) -> int:
    """How many quotes of a JSON text open or close a name or a string.

    A decoder knows how many names and strings it understood; if this is exactly twice that number,
    no name stood twice and nothing was passed over, so `check_json` is not needed.
    """
    quotes = value.count(b'"')
    if b"\\" not in value:
        return quotes
    return quotes - value.replace(b"\\\\", b"").count(b'\\"')


def _unique(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise Refusal("json", f"the name {name[:100]!r} stands twice in one object")
            seen.add(name)


def _no_constant(text: str) -> None:
    raise Refusal("json", f"{text} is not JSON")


_strict: Callable[[str], Any] = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=len, parse_float=len, parse_constant=_no_constant
).decode
