"""How a column is written in Debezium JSON: its Connect type and the conversion from text.

Decided once per schema. A conversion raises ValueError for a text that the notation cannot hold
exactly: nothing is rounded, cut or replaced.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from waybill.envelopes.debezium.connect import (
    BITS,
    DECIMAL,
    ENUM,
    ENUM_SET,
    SQL_LENGTH,
    SQL_SCALE,
    SQL_TYPE,
    TIMESTAMP_UNITS,
    VARIABLE,
)
from waybill.envelopes.debezium.values import times
from waybill.envelopes.debezium.values.json import (
    Convert,
    base64_value,
    bits_value,
    boolean_value,
    float_value,
    geometry_value,
    integer_writer,
    iso_text,
    json_number,
    structure,
    unscaled_base64,
    unscaled_digits,
    unsigned_long,
    unsigned_value,
    variable_value,
    wrapped_value,
)
from waybill.types import INTEGER_RANGE, STRING, LogicalType
from waybill.values.notation import KNOWN_INTEGERS, integers, wall_clocks_to_units
from waybill.values.values import base64_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.envelopes.debezium.settings import DebeziumWriteSettings
    from waybill.records import Column
    from waybill.values.notation import ColumnForm


_NANOSECONDS = 9
"""Digits of the second in a unit that compiled code does not know."""


class Writing(NamedTuple):
    """How one column is written.

    Attributes:
        connect: its Kafka Connect type, without name and optionality.
        convert: text to JSON value, None where the text is the value.
        textual: whether the JSON value is a string that could be any text, so that the placeholder
            may stand in its place.
        integer: whether digits without sign may be written by `int` directly.
        mark: the placeholder, which no text of the column may be.
        unsigned: whether a number below zero is refused.
        document: whether the text is JSON, which stands as it is.
    """

    connect: dict[str, Any]
    convert: Convert | None = None
    textual: bool = False
    integer: bool = False
    mark: str = ""
    unsigned: bool = False
    document: bool = False

    @property
    def column(self) -> ColumnForm | None:
        """The column form of `convert`."""
        if self.integer:
            return integers(0 if self.unsigned else KNOWN_INTEGERS[0], KNOWN_INTEGERS[1])
        digits = TIMESTAMP_UNITS.get(self.connect.get("name", ""), _NANOSECONDS)
        return wall_clocks_to_units(digits) if digits < _NANOSECONDS else None


class Writings:
    """Decides how the columns of a table are written.

    Args:
        settings: those of the envelope.
        dialect: which names the source types are.
    """

    def __init__(self, settings: DebeziumWriteSettings, dialect: str) -> None:
        self.settings = settings
        self.dialect = dialect

    def of(self, column: Column) -> Writing:
        """The writing of a column."""
        writing = self._as_it_came(column) or self._by_kind(column)
        stated = self._type_parameters(column)
        if stated:
            connect = writing.connect
            parameters = {**stated, **connect.get("parameters", {})}
            writing = writing._replace(connect={**connect, "parameters": parameters})
        return writing

    # What a Debezium source said

    def _as_it_came(self, column: Column) -> Writing | None:
        source = column.source_type
        if source is None:
            return None
        if self.dialect == "json" and not self.settings.schemas and source in UNDECLARED:
            return UNDECLARED[source]
        if self.dialect not in ("json", "connect"):
            return None
        if source.startswith("{"):
            return Writing(msgspec.json.decode(source), structure, document=True)
        name, _, allowed = source.partition("(")
        if name in (ENUM, ENUM_SET):
            parameters = {"parameters": {"allowed": allowed[:-1]}} if allowed else {}
            return Writing(_named("string", name, **parameters), textual=True)
        found = _AS_IT_CAME.get(name)
        if found is None and self.settings.temporal == "adaptive":
            found = _TIMES.get(name)
        if found is None or (found.convert and column.type == STRING and not self.settings.schemas):
            # A column declared a string is one: without schema nothing would say what a count is.
            return None
        return found

    # By the logical type

    def _by_kind(self, column: Column) -> Writing:
        type_ = column.type
        kind = type_.kind
        if kind in INTEGER_RANGE:
            return self._integer(kind)
        if kind in ("decimal", "number"):
            return self._number(type_)
        if kind == "bytes":
            return self._bytes()
        if kind == "bit":
            length = {"length": str(type_.precision)}
            return Writing(_named("bytes", BITS, parameters=length), bits_value, True)
        if kind in ("date", "time", "timestamp"):
            return self._time(column)
        if kind in ("enum", "set"):
            name = ENUM if kind == "enum" else ENUM_SET
            values = re.findall(r"'((?:[^']|'')*)'", column.source_type or "")
            allowed = ",".join(value.replace("''", "'") for value in values)
            parameters = {"parameters": {"allowed": allowed}} if allowed else {}
            return Writing(_named("string", name, **parameters), None, True)
        return _KINDS.get(kind, _TEXT)

    def _integer(self, kind: str) -> Writing:
        if kind != "uint64":
            convert = integer_writer(kind, self.settings.schemas)
            return Writing({"type": _HOLDERS[kind]}, convert, integer=not self.settings.schemas)
        mode = self.settings.unsigned or ("precise" if self.settings.schemas else "number")
        if mode == "precise":
            return _decimal(LogicalType("decimal", 20, 0), "uint64")
        if mode == "long":
            return Writing({"type": "int64"}, wrapped_value)
        if self.settings.schemas:
            return Writing({"type": "int64"}, unsigned_long)
        return Writing({"type": "int64"}, unsigned_value, integer=True, unsigned=True)

    def _number(self, type_: LogicalType) -> Writing:
        if self.settings.decimals == "string":
            return _TEXT
        if type_.kind == "number":
            return _VARIABLE
        # A schema promises that there are no more digits; Avro's own writers refuse longer ones.
        return _decimal(type_, limit=10 ** (type_.precision or 0) if self.settings.schemas else 0)

    def _bytes(self) -> Writing:
        mode = self.settings.binary
        return Writing({"type": "bytes" if mode == "bytes" else "string"}, _BINARY[mode], True)

    def _time(self, column: Column) -> Writing:
        mode, kind = self.settings.temporal, column.type.kind
        if mode == "isostring":
            name = f"io.debezium.time.Iso{kind.capitalize()}"
            return Writing(_named("string", name), partial(iso_text, _CHECKS[kind]), True)
        if kind == "date":
            name = "org.apache.kafka.connect.data.Date" if mode == "connect" else _DATE
            return Writing(_named("int32", name), _DAYS)
        if mode == "connect":
            name = f"org.apache.kafka.connect.data.{kind.capitalize()}"
            return _TIMES[name]
        if mode in ("microseconds", "nanoseconds"):
            digits = 6 if mode == "microseconds" else 9
        else:
            digits = self._digits(column)
        return _TIMES[f"io.debezium.time.{_PREFIXES[digits]}{kind.capitalize()}"]

    def _digits(self, column: Column) -> int:
        """Digits of the second of the unit that the MySQL connector would take."""
        precision = column.type.precision
        if precision is None and self.dialect in ("mysql", "postgresql"):
            found = re.search(r"\(\s*(\d+)\s*\)", column.source_type or "")
            default = 0 if self.dialect == "mysql" else 6
            precision = int(found[1]) if found else default
        if precision is None or 3 < precision <= 6:
            return 6
        if precision > 6:
            return 9
        return 6 if column.type.kind == "time" else 3

    def _type_parameters(self, column: Column) -> dict[str, str]:
        """The source's type as schema parameters, and what a Connect type alone would not say."""
        if self.dialect in ("mysql", "postgresql") and column.source_type:
            return sql_parameters(column.source_type)
        kind = column.type.kind
        if kind.startswith("uint"):
            return {SQL_TYPE: _UNSIGNED[kind]}
        if self.settings.decimals == "string" and kind == "decimal":
            # A text says neither; the number of digits and the scale go beside it.
            precision, scale = str(column.type.precision), str(column.type.scale)
            return {SQL_TYPE: "DECIMAL", SQL_LENGTH: precision, SQL_SCALE: scale}
        if self.settings.decimals == "string" and kind == "number":
            return {SQL_TYPE: "NUMERIC"}
        if self.settings.binary != "bytes" and kind == "bytes":
            return {SQL_TYPE: "BLOB"}
        return {}


def sql_parameters(sql: str) -> dict[str, str]:
    """A column type as the parameters that connectors pass on: name, length, scale."""
    match = re.fullmatch(r"\s*([^(]*?)\s*(?:\((.*)\))?\s*([^()]*?)\s*", sql, re.S)
    if match is None:
        return {SQL_TYPE: sql}
    name = f"{match[1]} {match[3]}".strip().upper()
    sizes = re.fullmatch(r"\s*(\d+)\s*(?:,\s*(\d+)\s*)?", match[2] or "")
    parameters = {SQL_TYPE: name}
    if sizes:
        parameters[SQL_LENGTH] = sizes[1]
        if sizes[2]:
            parameters[SQL_SCALE] = sizes[2]
    return parameters


def _decimal(type_: LogicalType, name: str = "", limit: int = 0) -> Writing:
    scale = type_.scale or 0
    parameters = {"scale": str(scale), "connect.decimal.precision": str(type_.precision)}

    def write(text: str) -> str:
        value = unscaled_digits(text, scale)
        if name == "uint64" and not 0 <= value < 2**64:
            raise ValueError(f"{text[:40]} is out of the range of 64 bits without sign")
        if limit and not -limit < value < limit:
            raise ValueError(f"{text[:60]} does not fit {type_}")
        if value == 0 and text.startswith("-"):
            raise ValueError("a negative zero has no unscaled digits")
        return unscaled_base64(value)

    return Writing(_named("bytes", DECIMAL, parameters=parameters), write, True)


# Types


def _named(type_: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": type_, "name": name, "version": 1, **more}


def _counting(value: Callable[[str], int], type_: str) -> Convert:
    """A count that Connect's integer type for it holds; readers of others would overflow."""
    low, high = INTEGER_RANGE[type_]

    def write(text: str) -> int:
        count = value(text)
        if not low <= count <= high:
            raise ValueError(f"{text[:40]!r} is a count beyond {type_}")
        return count

    return write


_DATE = "io.debezium.time.Date"
_PREFIXES = {3: "", 6: "Micro", 9: "Nano"}
_TEXT = Writing({"type": "string"}, textual=True)
_VARIABLE = Writing(
    _named(
        "struct",
        VARIABLE,
        fields=[
            {"type": "int32", "optional": False, "field": "scale"},
            {"type": "bytes", "optional": False, "field": "value"},
        ],
    ),
    variable_value,
)
_GEOMETRY = [
    {"type": "bytes", "optional": False, "field": "wkb"},
    {"type": "int32", "optional": True, "field": "srid"},
]
UNDECLARED = {
    "number": Writing({"type": "string"}, json_number, integer=True),
    "structure": Writing({"type": "string"}, structure, document=True),
    VARIABLE: _VARIABLE,
}
"""Columns of messages without schema, written as they came where there is none again."""

_DAYS = _counting(times.date_value, "int32")
_TIMES = {
    _DATE: Writing(_named("int32", _DATE), _DAYS),
    **{
        f"io.debezium.time.{prefix}{kind}": Writing(
            _named(type_, f"io.debezium.time.{prefix}{kind}"),
            _counting(partial(value, digits=digits), type_),
        )
        for kind, value in (("Time", times.time_value), ("Timestamp", times.timestamp_value))
        for digits, prefix in _PREFIXES.items()
        for type_ in ("int32" if (kind, digits) == ("Time", 3) else "int64",)
    },
    **{
        f"org.apache.kafka.connect.data.{kind}": Writing(
            _named(type_, f"org.apache.kafka.connect.data.{kind}"),
            _counting(partial(value, digits=3), type_),
        )
        for kind, type_, value in (
            ("Time", "int32", times.time_value),
            ("Timestamp", "int64", times.timestamp_value),
        )
    },
}
_MICROS = "io.debezium.time.MicroTimestamp"
_TIMES[_MICROS] = _TIMES[_MICROS]._replace(
    convert=times.micros_writer(_counting(partial(times.timestamp_value, digits=6), "int64"))
)
_CHECKS: dict[str, Convert] = {
    "date": times.date_value,
    "time": partial(times.time_value, digits=12),
    "timestamp": partial(times.timestamp_value, digits=12),
}
_AS_IT_CAME = {
    **{
        name: Writing(_named("string", name), textual=True)
        for name in (
            "io.debezium.time.ZonedTime",
            "io.debezium.time.Interval",
            "io.debezium.data.Json",
            "io.debezium.data.Xml",
            "io.debezium.data.Uuid",
            "io.debezium.data.Ltree",
            "io.debezium.data.TsVector",
        )
    },
    "io.debezium.time.Year": Writing(
        _named("int32", "io.debezium.time.Year"), integer_writer("int16", True)
    ),
    **{
        f"io.debezium.time.{prefix}Duration": Writing(
            _named("int64", f"io.debezium.time.{prefix}Duration"),
            _counting(partial(times.duration_value, digits=digits), "int64"),
        )
        for digits, prefix in ((6, "Micro"), (9, "Nano"))
    },
    **{
        f"io.debezium.data.geometry.{name}": Writing(
            _named("struct", f"io.debezium.data.geometry.{name}", fields=_GEOMETRY), geometry_value
        )
        for name in ("Geometry", "Geography")
    },
}
_KINDS = {
    "boolean": Writing({"type": "boolean"}, boolean_value),
    "float32": Writing({"type": "float"}, float_value),
    "float64": Writing({"type": "double"}, float_value),
    "geometry": _AS_IT_CAME["io.debezium.data.geometry.Geometry"],
    "json": _AS_IT_CAME["io.debezium.data.Json"],
    "xml": _AS_IT_CAME["io.debezium.data.Xml"],
    "interval": _AS_IT_CAME["io.debezium.time.Interval"],
    "timestamptz": Writing(_named("string", "io.debezium.time.ZonedTimestamp"), textual=True),
}
_HOLDERS = {
    **{f"int{n}": f"int{n}" for n in (8, 16, 32, 64)},
    "uint8": "int16",
    "uint16": "int32",
    "uint32": "int64",
}
"""The Connect type that holds every value of an integer type."""
_UNSIGNED = {
    "uint8": "TINYINT UNSIGNED",
    "uint16": "SMALLINT UNSIGNED",
    "uint32": "INT UNSIGNED",
    "uint64": "BIGINT UNSIGNED",
}
_BINARY: dict[str, Convert] = {
    "bytes": base64_value,
    "base64": base64_value,
    "base64-url-safe": lambda text: base64_value(text).replace("+", "-").replace("/", "_"),
    "hex": lambda text: base64_bytes(text).hex(),
}
