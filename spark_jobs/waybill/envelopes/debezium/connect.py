"""Column types of Kafka Connect schemas: their fields, semantic names and JSON notation.

The names are those of Debezium's documentation ("Data type mappings" of each connector).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Raw

from waybill.envelopes.debezium.values import texts as values
from waybill.envelopes.debezium.values import times
from waybill.types import BOOLEAN, INTEGER_RANGE, NUMBER, STRING, LogicalType

if TYPE_CHECKING:
    from collections.abc import Callable

DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE = "io.debezium.data.VariableScaleDecimal"
BITS = "io.debezium.data.Bits"
ENUM, ENUM_SET = "io.debezium.data.Enum", "io.debezium.data.EnumSet"
SQL_TYPE = "__debezium.source.column.type"
SQL_LENGTH = "__debezium.source.column.length"
SQL_SCALE = "__debezium.source.column.scale"

DATE = LogicalType("date")
TIME = LogicalType("time")
TIMESTAMP = LogicalType("timestamp")
TIMESTAMPTZ = LogicalType("timestamptz")
INTERVAL = LogicalType("interval")
JSON = LogicalType("json")
GEOMETRY = LogicalType("geometry")

TEXT = str | None
INTEGER = int | None
"""JSON types of values, null included."""


class Field(msgspec.Struct, frozen=True):
    """One field of a Kafka Connect schema.

    Attributes:
        raw: the whole field as JSON, for types that are kept as they are.
    """

    type: str
    optional: bool = False
    name: str | None = None
    field: str | None = None
    parameters: dict[str, str] = {}
    fields: list[Raw] = []
    raw: bytes = b""

    @staticmethod
    def read(raw: bytes | Raw) -> Field:
        """The field of its JSON text.

        Raises:
            msgspec.DecodeError: it is none.
        """
        text = bytes(raw)
        return msgspec.structs.replace(_field(text), raw=text)


_field = msgspec.json.Decoder(Field).decode


def sql_type(field: Field) -> str | None:
    """The column type in the source, where the connector was set to pass it on."""
    name = field.parameters.get(SQL_TYPE)
    if name is None:
        return None
    length = field.parameters.get(SQL_LENGTH)
    scale = field.parameters.get(SQL_SCALE)
    if length is None:
        return name
    size = length if scale is None else f"{length},{scale}"
    first, blank, rest = name.partition(" ")
    return f"{first}({size}){blank}{rest}"


def structure_schema(field: Field) -> str:
    """The Connect schema of a structure, so that it can be written again."""
    schema = msgspec.json.decode(field.raw)
    for name in ("field", "optional", "default", "doc"):
        schema.pop(name, None)
    return msgspec.json.encode(schema).decode()


INTEGERS: dict[str, Any] = {
    kind: Annotated[int, Meta(ge=low, le=high)] | None
    for kind, (low, high) in INTEGER_RANGE.items()
    if kind != "uint64"
}
FLAT: dict[str, tuple[LogicalType, Any, Callable[[Any], Any], bool]] = {
    "boolean": (BOOLEAN, bool | None, values.bool_text, False),
    "float": (LogicalType("float32"), Raw, values.float32_raw, True),
    "double": (LogicalType("float64"), Raw, values.float64_raw, True),
    "float32": (LogicalType("float32"), Raw, values.float32_raw, True),
    "float64": (LogicalType("float64"), Raw, values.float64_raw, True),
}
SEMANTIC: dict[str, tuple[LogicalType, Any, Callable[[Any], Any] | None]] = {
    VARIABLE: (NUMBER, values.VariableScale | None, values.variable_text),
    "io.debezium.time.Date": (DATE, INTEGER, times.date_text),
    "io.debezium.time.Time": (TIME, INTEGER, times.millis_time_text),
    "io.debezium.time.MicroTime": (TIME, INTEGER, times.micros_time_text),
    "io.debezium.time.NanoTime": (TIME, INTEGER, times.nanos_time_text),
    "io.debezium.time.Timestamp": (TIMESTAMP, INTEGER, times.millis_text),
    "io.debezium.time.MicroTimestamp": (TIMESTAMP, INTEGER, times.micros_text),
    "io.debezium.time.NanoTimestamp": (TIMESTAMP, INTEGER, times.nanos_text),
    "io.debezium.time.ZonedTimestamp": (TIMESTAMPTZ, TEXT, times.zoned_text),
    # There is no logical type for a time of day with a zone.
    "io.debezium.time.ZonedTime": (STRING, TEXT, None),
    "io.debezium.time.IsoDate": (DATE, TEXT, times.local_text),
    "io.debezium.time.IsoTime": (TIME, TEXT, times.local_text),
    "io.debezium.time.IsoTimestamp": (TIMESTAMP, TEXT, times.local_text),
    "io.debezium.time.Year": (LogicalType("int16"), INTEGERS["int16"], str),
    "io.debezium.time.MicroDuration": (INTERVAL, INTEGER, partial(times.duration_text, digits=6)),
    "io.debezium.time.NanoDuration": (INTERVAL, INTEGER, partial(times.duration_text, digits=9)),
    "io.debezium.time.Interval": (INTERVAL, TEXT, None),
    "io.debezium.data.Json": (JSON, TEXT, None),
    "io.debezium.data.Xml": (LogicalType("xml"), TEXT, None),
    "io.debezium.data.Uuid": (STRING, TEXT, None),
    "io.debezium.data.Ltree": (STRING, TEXT, None),
    "io.debezium.data.TsVector": (STRING, TEXT, None),
    "io.debezium.data.geometry.Geometry": (
        GEOMETRY,
        values.Geometry | None,
        values.geometry_text,
    ),
    "org.apache.kafka.connect.data.Date": (DATE, INTEGER, times.date_text),
    "org.apache.kafka.connect.data.Time": (TIME, INTEGER, times.millis_time_text),
    "org.apache.kafka.connect.data.Timestamp": (TIMESTAMP, INTEGER, times.millis_text),
}
TIMESTAMP_UNITS = {
    "io.debezium.time.Timestamp": 3,
    "org.apache.kafka.connect.data.Timestamp": 3,
    "io.debezium.time.MicroTimestamp": 6,
    "io.debezium.time.NanoTimestamp": 9,
}
"""Counts of time without zone, and the digits of the second in their unit."""
for _name in ("Geography", "Point"):
    SEMANTIC[f"io.debezium.data.geometry.{_name}"] = SEMANTIC["io.debezium.data.geometry.Geometry"]
