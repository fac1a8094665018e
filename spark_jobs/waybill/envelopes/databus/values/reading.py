"""What the types of an Avro schema are as columns, and how their values become exact text.

Dates and times stay the integers they are on the wire, and decimals the bytes, until they are
exact text.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from waybill.avro.column_forms import instants, integers, unscaled, wall_clocks
from waybill.avro.reading import Leaf, float_value
from waybill.avro.schema import Node, without_null
from waybill.errors import Refusal
from waybill.types import BOOLEAN, BYTES, INTEGER_RANGE, STRING, LogicalType
from waybill.values.declared import check_for
from waybill.values.instants import EPOCH_DAY, instant_text
from waybill.values.notation import ColumnForm, digits_of
from waybill.values.values import base64_text, float32_value, float64_value

ToText = Callable[[Any], str]


class AvroColumn(NamedTuple):
    """One field of a record as a column.

    Attributes:
        type: what the values are.
        leaf: makes the text of a value that is not null.
        kind: the Avro type of a value that is not null (`long`, `string`, …), `complex` for one
            that is no column's.
        logical: the logical type of the schema that was understood, or None.
        nullable: whether null is a branch.
    """

    type: LogicalType
    leaf: Leaf
    kind: str
    logical: str | None
    nullable: bool


def column_of(node: Node) -> AvroColumn:
    """The column of a field's type."""
    inner = without_null(node)
    nullable = inner is not node
    kind, attributes = inner.kind, inner.attributes
    logical = attributes.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = attributes.get("precision"), attributes.get("scale", 0)
        if type(precision) is int and type(scale) is int and 0 <= scale <= precision < 10_000:
            found = LogicalType("decimal", precision, scale)
            leaf = Leaf(_decimal(scale), column=unscaled(scale))
            return AvroColumn(found, leaf, kind, "decimal", nullable)
    if isinstance(logical, str) and (kind, logical) in _LOGICAL:
        plain = _LOGICAL[kind, logical]
        return AvroColumn(plain[0], plain[1], kind, logical, nullable)
    if kind not in _PLAIN:
        return AvroColumn(LogicalType("json"), Leaf(json_value), "complex", None, nullable)
    plain = _PLAIN[kind]
    return AvroColumn(plain[0], plain[1], kind, None, nullable)


def text_of(leaf: Leaf) -> ToText | None:
    """What makes the text of one value; None where it is that text already."""
    return str if leaf.integer else leaf.convert


def json_value(value: Any) -> str:
    """A value of a type that is no column's, as JSON: bytes are Base64."""
    if isinstance(value, float):
        value = float_value(value)
    return msgspec.json.encode(value).decode()


# Values as text


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _decimal(scale: int) -> ToText:
    def text(value: bytes) -> str:
        if not value:
            raise Refusal("value", "a decimal of no bytes")
        number = int.from_bytes(value, "big", signed=True)
        digits = str(abs(number)).rjust(scale + 1, "0") if scale else str(abs(number))
        whole = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
        return f"-{whole}" if number < 0 else whole

    return text


def _date(days: int) -> str:
    try:
        return (EPOCH_DAY + timedelta(days=days)).isoformat()
    except OverflowError:
        raise _out_of_range("date") from None


def _out_of_range(what: str) -> Refusal:
    return Refusal("value", f"a {what} is out of the years 1 to 9999")


def millis_text(value: int) -> str:
    """A wall clock of milliseconds since 1970."""
    try:
        return instant_text(value)[:-1]
    except OverflowError:
        raise _out_of_range("timestamp") from None


def _units(per_milli: int, digits: int, zone: str) -> ToText:
    def text(value: int) -> str:
        milli, rest = divmod(value, per_milli)
        return f"{millis_text(milli)}{rest:0{digits}d}{zone}"

    return text


def _time(per_second: int, digits: int) -> ToText:
    def text(value: int) -> str:
        seconds, rest = divmod(abs(value), per_second)
        sign = "-" if value < 0 else ""
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        return f"{sign}{clock}.{rest:0{digits}d}"

    return text


def _zulu_text(value: int) -> str:
    """An instant of milliseconds since 1970."""
    return f"{millis_text(value)}Z"


_PLAIN = {
    "boolean": (BOOLEAN, Leaf(_boolean)),
    "int": (LogicalType("int32"), Leaf(integer=True)),
    "long": (LogicalType("int64"), Leaf(integer=True)),
    "float": (LogicalType("float32"), Leaf(float32_value)),
    "double": (LogicalType("float64"), Leaf(float64_value)),
    "string": (STRING, Leaf()),
    "enum": (LogicalType("enum"), Leaf()),
    "bytes": (BYTES, Leaf(base64_text)),
    "fixed": (BYTES, Leaf(base64_text)),
}
_TIME, _WALL, _UTC = LogicalType("time"), LogicalType("timestamp"), LogicalType("timestamptz")
_WALLS = {
    digits: Leaf(text, column=wall_clocks(digits))
    for digits, text in ((3, millis_text), (6, _units(1000, 3, "")), (9, _units(1_000_000, 6, "")))
}
_INSTANTS = {
    digits: Leaf(text, column=instants(digits))
    for digits, text in ((3, _zulu_text), (6, _units(1000, 3, "Z")), (9, _units(1_000_000, 6, "Z")))
}
_LOGICAL = {
    ("int", "date"): (LogicalType("date"), Leaf(_date)),
    ("int", "time-millis"): (_TIME, Leaf(_time(1000, 3))),
    ("long", "time-micros"): (_TIME, Leaf(_time(1_000_000, 6))),
    ("long", "timestamp-millis"): (_UTC, _INSTANTS[3]),
    ("long", "timestamp-micros"): (_UTC, _INSTANTS[6]),
    ("long", "timestamp-nanos"): (_UTC, _INSTANTS[9]),
    ("long", "local-timestamp-millis"): (_WALL, _WALLS[3]),
    ("long", "local-timestamp-micros"): (_WALL, _WALLS[6]),
    ("long", "local-timestamp-nanos"): (_WALL, _WALLS[9]),
}
_DECLARED_TIMES = {"timestamp": _WALLS[3], "timestamptz": _INSTANTS[3]}


def declared_leaf(column: AvroColumn, declared: LogicalType) -> Leaf:
    """How a value becomes text of a type that is declared for its column.

    Databus writes dates and times of a database as milliseconds in a long: a long that is declared
    as a timestamp is one.
    """
    if column.kind == "long" and column.logical is None and declared.kind in _DECLARED_TIMES:
        return _DECLARED_TIMES[declared.kind]
    check = check_for(declared)
    if check is None or declared == column.type:
        return column.leaf
    to_text = text_of(column.leaf)
    if to_text is None:
        return Leaf(check, column=_checked_texts(declared) if column.kind == "string" else None)
    form = None
    if column.leaf.integer and declared.is_integer:
        form = integers(*INTEGER_RANGE[declared.kind])
    return Leaf(lambda value: check(to_text(value)), column=form)


def _checked_texts(declared: LogicalType) -> ColumnForm | None:
    """The form of texts that are values of a declared type."""
    scale, precision = declared.scale or 0, declared.precision or 0
    if declared.kind == "decimal" and 0 < scale < precision:
        return digits_of(declared)
    return WALL_CLOCKS if declared.kind == "timestamp" else None


WALL_CLOCKS = ColumnForm("waybill.envelopes.databus.bulk.reading:wall_clocks")
"""Wall clocks with a T as they are, and those with a blank."""
