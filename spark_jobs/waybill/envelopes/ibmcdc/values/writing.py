"""How the columns of a row are written: the Avro type with its hints, and texts to bytes.

Decided once per schema. A text that the Avro type does not hold exactly is refused: nothing is
rounded, cut or replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.avro import writing
from waybill.avro.column_forms import scaled
from waybill.avro.writing import Write
from waybill.envelopes.debezium.values.json import boolean_value, unscaled_digits
from waybill.envelopes.debezium.values.texts import number_or_special
from waybill.envelopes.ibmcdc.hints import DIALECT, hint_attributes
from waybill.envelopes.ibmcdc.values.reading import MOST_DIGITS
from waybill.types import INTEGER_RANGE, LogicalType
from waybill.values.notation import KNOWN_INTEGERS, Notation, digits, integers
from waybill.values.values import (
    base64_bytes,
    float32_text,
    float32_value,
    float64_text,
    float64_value,
    is_integer_text,
    to_float32,
)
from waybill.values.wall_clocks import WITH_BLANK

if TYPE_CHECKING:
    from waybill.records import Column
    from waybill.values.notation import ColumnForm

_DIALECTS = frozenset({DIALECT, "mysql", "postgresql"})
"""Dialects whose source types are column types that a hint may repeat."""


class ColumnWriting(NamedTuple):
    """How one column is written.

    Attributes:
        type: its Avro type, null apart.
        default: the default value of the type.
        write: appends the value of a text.
        text: how the value stands in a string of Avro; None where it is none.
        form: the column form of `write`, which leaves out the length of bytes.
    """

    type: dict[str, Any]
    default: Any
    write: Write
    text: Notation | None
    form: ColumnForm | None = None


def column_writing(column: Column, dialect: str) -> ColumnWriting:
    """The writing of a column."""
    kind, write, default, text = _holder(column.type)
    source = column.source_type if dialect in _DIALECTS else None
    type_: dict[str, Any] = {"type": kind}
    if kind == "decimal":
        sizes = column.type if column.type.kind == "decimal" else _UINT64
        type_ = {"type": "bytes", "logicalType": "decimal"}
        type_.update(precision=sizes.precision, scale=sizes.scale)
    hints = hint_attributes(source, kind, column.type)
    type_ = {**hints, **type_, "dbColumnName": column.name}
    return ColumnWriting(type_, default, write, text, _form(kind, column.type))


def _form(kind: str, type_: LogicalType) -> ColumnForm | None:
    """What compiled code writes of most values that are no strings of Avro."""
    if kind in ("int", "long"):
        low, high = INTEGER_RANGE[type_.kind]
        return integers(max(low, KNOWN_INTEGERS[0]), high)
    if kind != "decimal":
        return None
    if type_.kind == "uint64":
        return scaled(0, 2**64, 0)
    limit = 10 ** (type_.precision or 0)
    return scaled(type_.scale or 0, limit, -limit)


_UINT64 = LogicalType("decimal", 20, 0)
_HOLDERS = {
    **dict.fromkeys(("int8", "int16", "int32", "uint8", "uint16"), "int"),
    **dict.fromkeys(("int64", "uint32"), "long"),
}


_Holder = tuple[str, Write, Any, Notation | None]
"""Avro type (or `decimal`), writer and default, and the notation of texts."""


def _holder(type_: LogicalType) -> _Holder:
    """What holds the values of a logical type."""
    kind = type_.kind
    if kind in _HOLDERS:
        return _HOLDERS[kind], _integer(kind, _HOLDERS[kind]), 0, None
    if kind == "uint64":
        return "decimal", _decimal(_UINT64, 2**64), "", None
    if kind == "decimal" and 0 <= (type_.scale or 0) <= (type_.precision or 0):
        return "decimal", _decimal(type_, 10 ** (type_.precision or 0)), "", None
    return _KINDS.get(kind, _TEXT)


def _integer(kind: str, avro: str) -> Write:
    low, high = INTEGER_RANGE[kind]
    append = writing.write_int if avro == "int" else writing.write_long

    def write(out: bytearray, text: str) -> None:
        if is_integer_text(text) is None:
            raise ValueError(f"{text[:40]!r} is not an integer")
        value = int(text) if len(text) < 25 else high + 1
        if not low <= value <= high:
            raise ValueError(f"{text[:40]} is out of the range of {kind}")
        append(out, value)

    return write


def _decimal(type_: LogicalType, limit: int) -> Write:
    scale = type_.scale or 0
    unsigned = limit == 2**64

    def write(out: bytearray, text: str) -> None:
        value = unscaled_digits(text, scale)
        if not -limit < value < limit or (unsigned and value < 0):
            raise ValueError(f"{text[:60]} does not fit its type")
        if value == 0 and text.startswith("-"):
            raise ValueError("a negative zero has no unscaled digits")
        size = (value if value >= 0 else ~value).bit_length() // 8 + 1
        writing.write_bytes(out, value.to_bytes(size, "big", signed=True))

    return write


def _exact(
    text: str, canonical: Callable[[str], str], shown: Callable[[float], str], fit: Any
) -> float:
    """The float whose digits a text is.

    Raises:
        ValueError: no float is exactly the number.
    """
    value: float = fit(float(text))
    if shown(value) == text:
        return value
    plain = canonical(text)
    value = fit(float(plain))
    if shown(value) != plain:
        raise ValueError(f"{text[:60]} is not exactly a floating point number")
    return value


@lru_cache(maxsize=50_000)
def _float32(text: str) -> float:
    # The shortest digits are searched for, and measurements repeat.
    return _exact(text, float32_text, float32_value, to_float32)


def _write_float32(out: bytearray, text: str) -> None:
    writing.write_float(out, _float32(text))


def _write_float64(out: bytearray, text: str) -> None:
    writing.write_double(out, _exact(text, float64_text, float64_value, float))


def _write_boolean(out: bytearray, text: str) -> None:
    writing.write_boolean(out, boolean_value(text))


def _write_base64(out: bytearray, text: str) -> None:
    writing.write_bytes(out, base64_bytes(text))


def _number(text: str) -> str:
    """A number in plain digits."""
    if number_or_special(text) != text:
        raise ValueError(f"{text[:60]!r} is not a number in plain digits")
    return text


def _string(notation: Notation) -> _Holder:
    """A string of Avro that holds values in a notation."""
    convert = notation.write
    if convert is None:
        return "string", writing.write_text, "", notation

    def write(out: bytearray, text: str) -> None:
        writing.write_text(out, convert(text))

    return "string", write, "", notation


_TEXT = _string(Notation("text"))
_KINDS: dict[str, _Holder] = {
    "boolean": ("boolean", _write_boolean, False, None),
    "float32": ("float", _write_float32, 0.0, None),
    "float64": ("double", _write_float64, 0.0, None),
    **dict.fromkeys(("bytes", "bit", "geometry"), ("bytes", _write_base64, "", None)),
    **dict.fromkeys(
        ("number", "decimal"),
        _string(Notation("text", None, _number, None, digits(MOST_DIGITS, MOST_DIGITS))),
    ),
    "timestamp": _string(WITH_BLANK),
}
