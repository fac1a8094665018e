"""How the columns of a row are written: the Avro type with its hints, and texts to bytes.

Decided once per schema. A text that the Avro type does not hold exactly is refused: nothing is
rounded, cut or replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.avro import writing
from waybill.envelopes.debezium.json_values import boolean_value, unscaled_digits
from waybill.envelopes.debezium.text_values import number_or_special
from waybill.envelopes.ibmcdc.hints import DIALECT, hint_attributes
from waybill.types import INTEGER_RANGE, LogicalType
from waybill.values.temporal import blank_from_iso, faithful, iso_from_blank
from waybill.values.values import (
    base64_bytes,
    float32_text,
    float32_value,
    float64_text,
    float64_value,
    is_integer_text,
    to_float32,
)

if TYPE_CHECKING:
    from waybill.avro.writing import Write
    from waybill.records import Column

_DIALECTS = frozenset({DIALECT, "mysql", "postgresql"})
"""Dialects whose source types are column types that a hint may repeat."""


class ColumnWriting(NamedTuple):
    """How one column is written.

    Attributes:
        type: its Avro type, null apart.
        default: the default value of the type.
        write: appends the value of a text.
    """

    type: dict[str, Any]
    default: Any
    write: Write


def column_writing(column: Column, dialect: str) -> ColumnWriting:
    """The writing of a column."""
    kind, write, default = _holder(column.type)
    source = column.source_type if dialect in _DIALECTS else None
    type_: dict[str, Any] = {"type": kind}
    if kind == "decimal":
        sizes = column.type if column.type.kind == "decimal" else _UINT64
        type_ = {"type": "bytes", "logicalType": "decimal"}
        type_.update(precision=sizes.precision, scale=sizes.scale)
    hints = hint_attributes(source, kind, column.type)
    type_ = {**hints, **type_, "dbColumnName": column.name}
    return ColumnWriting(type_, default, write)


_UINT64 = LogicalType("decimal", 20, 0)
_HOLDERS = {
    **dict.fromkeys(("int8", "int16", "int32", "uint8", "uint16"), "int"),
    **dict.fromkeys(("int64", "uint32"), "long"),
}


def _holder(type_: LogicalType) -> tuple[str, Write, Any]:
    """Avro type (or `decimal`), writer and default of a logical type."""
    kind = type_.kind
    if kind in _HOLDERS:
        return _HOLDERS[kind], _integer(kind, _HOLDERS[kind]), 0
    if kind == "uint64":
        return "decimal", _decimal(_UINT64, 2**64), ""
    if kind == "decimal" and 0 <= (type_.scale or 0) <= (type_.precision or 0):
        return "decimal", _decimal(type_, 10 ** (type_.precision or 0)), ""
    return _KINDS.get(kind, ("string", writing.write_text, ""))


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


def write_number(out: bytearray, text: str) -> None:
    """A number in plain digits."""
    if number_or_special(text) != text:
        raise ValueError(f"{text[:60]!r} is not a number in plain digits")
    writing.write_text(out, text)


timestamp_text = faithful(blank_from_iso, iso_from_blank)


def write_timestamp(out: bytearray, text: str) -> None:
    """A wall clock with a blank."""
    writing.write_text(out, timestamp_text(text))


_KINDS: dict[str, tuple[str, Write, Any]] = {
    "boolean": ("boolean", _write_boolean, False),
    "float32": ("float", _write_float32, 0.0),
    "float64": ("double", _write_float64, 0.0),
    **dict.fromkeys(("bytes", "bit", "geometry"), ("bytes", _write_base64, "")),
    **dict.fromkeys(("number", "decimal"), ("string", write_number, "")),
    "timestamp": ("string", write_timestamp, ""),
}
