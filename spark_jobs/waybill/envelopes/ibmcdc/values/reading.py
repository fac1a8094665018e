"""How the columns of a row are read: Avro types and the source's hints to logical types and texts.

Decided once per schema. Counts of time follow Avro's logical types; the types that Avro does not
know leave the value as its Avro type has it (Avro specification, section Logical Types).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from waybill.avro.column_forms import instants, unscaled, wall_clocks
from waybill.avro.reading import Leaf
from waybill.avro.schema import Node, without_null
from waybill.envelopes.debezium.values import times
from waybill.envelopes.debezium.values.texts import number_or_special, scaled_text
from waybill.envelopes.ibmcdc.hints import hint_of, refined
from waybill.errors import Refusal
from waybill.types import BOOLEAN, BYTES, STRING, UNKNOWN, LogicalType
from waybill.values.declared import check_for, may_hold
from waybill.values.notation import FROM_BLANK, digits
from waybill.values.temporal import iso_from_blank, utc_from_wall, zone_named
from waybill.values.values import base64_text, float32_value, float64_value

_MAX_PRECISION = 10_000
MOST_DIGITS = 60
"""Digits of a number that is seen to be one, before the point and behind it."""


class ColumnReading(NamedTuple):
    """How one column is read.

    Attributes:
        name: its name in the source.
        type: its logical type.
        source_type: the type as the schema notes it.
        leaf: from the Avro value to text.
    """

    name: str
    type: LogicalType
    source_type: str | None
    leaf: Leaf


def column_reading(
    name: str, node: Node, declared: dict[str, LogicalType], strip: str = ""
) -> ColumnReading:
    """The reading of a column.

    Args:
        name: name of the Avro field.
        node: its type.
        declared: declared types by column name.
        strip: what the names of before columns begin with.

    Raises:
        Refusal: kind `schema`; the declared type has no such values.
    """
    inner = without_null(node)
    column = column_name(name, node, strip)
    type_, leaf = _plain(inner)
    hint = hint_of(inner.attributes)
    wanted = declared.get(column)
    if wanted is not None and wanted.kind != "unknown" and wanted.kind != type_.kind:
        return _declared(column, inner, hint, wanted, (type_, leaf))
    if wanted is not None and wanted != type_ and wanted.kind != "unknown":
        if check_for(wanted) is not None:
            return ColumnReading(column, wanted, hint, _both(inner, leaf, wanted))
        type_ = wanted
    return ColumnReading(column, type_, hint, leaf)


def in_zone(reading: ColumnReading, node: Node, zone: str) -> ColumnReading:
    """The reading of a column of instants whose texts are wall clocks of a zone.

    Args:
        reading: the reading without it.
        node: the field's type, null left out; counts since 1970 are instants already.
        zone: name of the zone.
    """
    if node.kind != "string":
        return reading
    read, to_utc = reading.leaf.convert, utc_from_wall(zone_named(zone))
    if read is None:
        return reading._replace(leaf=Leaf(to_utc))
    return reading._replace(leaf=Leaf(lambda value: to_utc(read(value))))


def column_name(name: str, node: Node, strip: str = "") -> str:
    """The name in the source of the column of a field; arguments as `column_reading`."""
    stated_name = without_null(node).attributes.get("dbColumnName")
    return stated_name if isinstance(stated_name, str) and stated_name else name.removeprefix(strip)


def _declared(
    name: str,
    node: Node,
    hint: str | None,
    wanted: LogicalType,
    found: tuple[LogicalType, Leaf],
) -> ColumnReading:
    """The reading of a column that is declared to be something else than the schema says."""
    type_, leaf = found
    if node.kind in ("bytes", "fixed") and wanted.kind == "decimal" and type_ == BYTES:
        return ColumnReading(name, wanted, hint, _decimal(wanted.scale or 0))
    check = check_for(wanted)
    strange = check is None and (node.kind != "string" or wanted.kind == "bytes")
    if strange or not may_hold(wanted, type_):
        sentence = f"column {name!r} is {type_} in its Avro schema and is declared {wanted}"
        raise Refusal("schema", f"{sentence}: declare a type that has such values")
    if check is None:
        read = Leaf(leaf.convert or str, column=leaf.column)
    else:
        read = _both(node, leaf, wanted)
    return ColumnReading(name, wanted, hint, read)


def _both(node: Node, leaf: Leaf, wanted: LogicalType) -> Leaf:
    """What reads a value and then checks its text; a text that is read twice stays as it is."""
    check = check_for(wanted)
    if check is None or (wanted.kind == "timestamp" and leaf.column == FROM_BLANK):
        return leaf
    if leaf.convert is None and node.kind == "string":
        return Leaf(check, column=FROM_BLANK if wanted.kind == "timestamp" else None)
    read = leaf.convert or str
    return Leaf(lambda value: check(read(value)))


def _plain(node: Node) -> tuple[LogicalType, Leaf]:
    """Type and conversion by the schema alone."""
    hint, kind = hint_of(node.attributes), node.kind
    if kind in ("bytes", "fixed"):
        sizes = _decimal_sizes(node)
        if sizes is not None:
            refined_type = refined("decimal", hint)
            return refined_type or LogicalType("decimal", *sizes), _decimal(sizes[1])
        return refined("bytes", hint) or BYTES, Leaf(base64_text)
    if kind in ("int", "long"):
        count = COUNTS.get((kind, str(node.attributes.get("logicalType"))))
        if count is not None:
            return count
        type_ = LogicalType("int32" if kind == "int" else "int64")
        return refined(kind, hint) or type_, Leaf(integer=True)
    if kind == "string":
        found = refined("string", hint) or STRING
        return found, _TEXTS.get(found.kind, Leaf())
    if kind in _SIMPLE:
        type_, convert = _SIMPLE[kind]
        return type_, Leaf(convert)
    return LogicalType("json"), Leaf(_structure, structure=True)


def _decimal_sizes(node: Node) -> tuple[int, int] | None:
    """Precision and scale of a decimal, whichever way its name is spelt; None for other bytes."""
    name = node.attributes.get("logicalType")
    precision, scale = node.attributes.get("precision"), node.attributes.get("scale", 0)
    if not isinstance(name, str) or name.lower() != "decimal":
        return None
    if type(precision) is not int or type(scale) is not int:
        return None
    # A decimal whose sizes cannot be is ignored (Avro specification, section Decimal).
    return (precision, scale) if 0 <= scale <= precision <= _MAX_PRECISION and precision else None


@lru_cache
def _decimal(scale: int) -> Leaf:
    """What reads the unscaled digits of decimals of a scale."""

    def read(data: bytes) -> str:
        if not data:
            raise ValueError("a decimal of no bytes")
        number = int.from_bytes(data, "big", signed=True)
        if len(data) > 60:
            return scaled_text(number, scale)
        if not scale:
            return str(number)
        digits = str(abs(number)).rjust(scale + 1, "0")
        return f"{'-' if number < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"

    return Leaf(read, column=unscaled(scale))


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _structure(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _instant(read: Callable[[int], str]) -> Callable[[int], str]:
    return lambda count: f"{read(count)}Z"


def _counted(digits: int) -> Callable[[int], str]:
    """Timestamps of a count of 10^-digits seconds since 1970, with all digits of the unit."""
    unit = 10**digits

    def read(count: int) -> str:
        seconds, fraction = divmod(count, unit)
        days, second = divmod(seconds, 86_400)
        return f"{times.date_text(days)}T{times.time_text(second, 0)}.{fraction:0{digits}}"

    return read


COUNTS: dict[tuple[str, str], tuple[LogicalType, Leaf]] = {
    ("int", "date"): (LogicalType("date"), Leaf(times.date_text)),
    ("int", "time-millis"): (LogicalType("time"), Leaf(times.millis_time_text)),
    ("long", "time-micros"): (LogicalType("time"), Leaf(times.micros_time_text)),
    **{
        ("long", f"{prefix}timestamp-{unit}"): (
            LogicalType("timestamp" if prefix else "timestamptz"),
            Leaf(read, column=wall_clocks(digits))
            if prefix
            else Leaf(_instant(read), column=instants(digits)),
        )
        for prefix in ("", "local-")
        for unit, digits in (("millis", 3), ("micros", 6), ("nanos", 9))
        for read in (_counted(digits),)
    },
}
"""Avro's own counts of time; a `timestamp` is an instant, a `local-timestamp` a wall clock."""
_SIMPLE: dict[str, tuple[LogicalType, Callable[[Any], str] | None]] = {
    "boolean": (BOOLEAN, _boolean),
    "float": (LogicalType("float32"), float32_value),
    "double": (LogicalType("float64"), float64_value),
    "enum": (LogicalType("enum"), None),
    "null": (UNKNOWN, None),
}
_NUMBER = Leaf(number_or_special, column=digits(MOST_DIGITS, MOST_DIGITS))
_TEXTS = {
    "timestamp": Leaf(iso_from_blank, column=FROM_BLANK),
    "decimal": _NUMBER,
    "number": _NUMBER,
}
"""Texts that the source writes another way than the canonical change."""
