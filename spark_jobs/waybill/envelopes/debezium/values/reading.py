"""How a column of a Debezium row is read: its logical type, its JSON type and the conversion.

With an inline schema the Kafka Connect type and its semantic name say it. Without one the JSON
value's own kind, the declared type and the settings do. Decided once per schema, never per row.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw

from waybill.envelopes.debezium.connect import (
    BITS,
    DECIMAL,
    ENUM,
    ENUM_SET,
    FLAT,
    GEOMETRY,
    INTEGER,
    INTEGERS,
    JSON,
    SEMANTIC,
    TEXT,
    TIMESTAMP_UNITS,
    VARIABLE,
    Field,
    sql_type,
    structure_schema,
)
from waybill.envelopes.debezium.values import texts as values
from waybill.envelopes.debezium.values import times
from waybill.envelopes.debezium.values.readings import TEXT_KINDS, ColumnReading, checked, held
from waybill.order import parse_digits
from waybill.types import (
    BOOLEAN,
    BYTES,
    INTEGER_RANGE,
    NUMBER,
    STRING,
    UNKNOWN,
    LogicalType,
    parse_type,
)
from waybill.values import values as shared
from waybill.values.declared import APART, check_for, float_check

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.envelopes.debezium.settings import DebeziumReadSettings

_MAX_PRECISION = 1000
"""No database declares decimals of more digits."""


class Readings:
    """Decides how columns are read, for the tables of one connector.

    Args:
        settings: those of the envelope.
        connector: `source.connector`.
    """

    def __init__(self, settings: DebeziumReadSettings, connector: str) -> None:
        self.settings = settings
        self.mysql = connector in ("mysql", "mariadb")
        # Their TIME is counted in microseconds whatever its digits; so is what this project writes.
        self.micro_time = self.mysql or connector == "waybill"
        self.marks = values.Marks(settings.unavailable, settings.binary)
        self._placeholders: dict[tuple[str, ...], values.Placeholders] = {}

    # With a schema

    def of_field(
        self, field: Field, declared: LogicalType | None, numbers: bool = False
    ) -> ColumnReading:
        """The reading of a column of a Connect schema; a declared type goes before its own.

        Args:
            field: the column in the schema.
            declared: its declared type.
            numbers: whether a Decimal may be a JSON number (`decimal.format=NUMERIC`).
        """
        reading = self._semantic(field) or self._primitive(field)
        if numbers and field.name == DECIMAL:
            convert = values.decimal_or_number(field.parameters, check_for(reading.type))
            either = self.marks.reader(convert)
            reading = reading._replace(wire=Raw, convert=either, marks=(), raw=True)
        if declared is not None:
            return self._as_declared(reading, field, declared)
        refined_type = _refined(field, reading.type)
        if refined_type is None:
            return reading
        if refined_type.kind == "bytes" and self.settings.binary == "bytes":
            return reading
        if refined_type.is_integer or refined_type.kind == "bytes":
            return self._as_declared(reading, field, refined_type)
        return held(
            reading._replace(type=refined_type, convert=values.number_or_special, quick="plain")
        )

    def _as_declared(
        self, reading: ColumnReading, field: Field, declared: LogicalType
    ) -> ColumnReading:
        if declared == reading.type or declared.kind == "unknown":
            return reading
        if declared.kind == "timestamp" and reading.unit:
            return reading._replace(type=declared)
        if field.name is None and (field.type, declared.kind) in _PLAIN:
            found = self.of_json(_PLAIN[field.type, declared.kind], declared)
            return found._replace(source_type=reading.source_type)
        return checked(reading, declared)

    def _semantic(self, field: Field) -> ColumnReading | None:
        name, source = field.name, field.name
        if name is None:
            return None
        if name in SEMANTIC:
            type_, wire, convert = SEMANTIC[name]
            if wire is INTEGER:
                # A count is no longer than the type that Connect has for it.
                wire = INTEGERS.get(field.type, wire)
            marks = self.marks.text if wire is TEXT else ()
            unit, quick = TIMESTAMP_UNITS.get(name, 0), "str" if type_.is_integer else ""
            return ColumnReading(type_, wire, convert, source, marks, quick=quick, unit=unit)
        if name == DECIMAL:
            return self._decimal(field)
        if name == BITS:
            length = parse_digits(field.parameters.get("length", "1"))
            if not 1 <= length < 2**31:
                raise ValueError(f"there are no bit strings of {length} bits")
            convert = values.bits_reader(length)
            return ColumnReading(
                LogicalType("bit", length), TEXT, convert, source, self.marks.bytes
            )
        if name in (ENUM, ENUM_SET):
            kind = "enum" if name == ENUM else "set"
            allowed = field.parameters.get("allowed")
            source = name if allowed is None else f"{name}({allowed})"
            return ColumnReading(LogicalType(kind), TEXT, None, source, self.marks.text)
        return None

    def _decimal(self, field: Field) -> ColumnReading:
        scale = parse_digits(field.parameters.get("scale", "0"))
        precision = parse_digits(field.parameters.get("connect.decimal.precision", "0"))
        # Without precision any number of digits may come.
        fits = 0 <= scale <= precision and precision > 0
        type_ = LogicalType("decimal", precision, scale) if fits else NUMBER
        convert = values.decimal_reader(scale)
        return held(ColumnReading(type_, TEXT, convert, DECIMAL, self.marks.bytes))

    def _primitive(self, field: Field) -> ColumnReading:
        # A name that is not known says nothing about the notation: the type alone decides.
        if field.type in INTEGERS:
            wire, source = INTEGERS[field.type], _source(field)
            return ColumnReading(LogicalType(field.type), wire, str, source, quick="str")
        if field.type in FLAT:
            type_, wire, convert, raw = FLAT[field.type]
            return ColumnReading(type_, wire, convert, _source(field), raw=raw)
        if field.type == "string":
            return ColumnReading(STRING, TEXT, None, _source(field), self.marks.text)
        if field.type == "bytes":
            return ColumnReading(
                BYTES, TEXT, values.base64_checked, _source(field), self.marks.bytes
            )
        convert = self.marks.reader(values.json_raw)
        return ColumnReading(JSON, Raw, convert, structure_schema(field), raw=True)

    # Without a schema

    def of_json(
        self, kind: str, declared: LogicalType | None, loose: bool = False
    ) -> ColumnReading:
        """The reading of a column by the kind of its JSON values.

        Args:
            kind: none, bool, int, real, str, mixed, structure, variable or geometry.
            declared: its declared type.
            loose: whether the placeholder text has been seen in place of such a value.

        Raises:
            ValueError: the declared type has no such values.
        """
        if declared is None or declared.kind == "unknown":
            reading = self._undeclared(kind)
        else:
            reading = self._declared(kind, declared)
        return self._loose(reading, self.placeholders(declared)) if loose else reading

    def placeholders(self, declared: LogicalType | None) -> values.Placeholders:
        """What stands for a value that was not sent, in a column without a schema.

        Whatever the values before it were: its declared type alone decides.
        """
        texts = self._marks_of(declared)
        found = self._placeholders.get(texts)
        if found is None:
            found = self._placeholders[texts] = self.marks.known(texts)
        return found

    def _marks_of(self, declared: LogicalType | None) -> tuple[str, ...]:
        """The texts among them."""
        kind = "unknown" if declared is None else declared.kind
        if kind in ("bytes", "bit"):
            return self.marks.bytes
        if kind != "unknown" and (kind in TEXT_KINDS or kind in _COUNTED):
            return self.marks.text
        return self.marks.text + self.marks.bytes

    def _undeclared(self, kind: str) -> ColumnReading:
        if kind == "str":
            return ColumnReading(STRING, TEXT, marks=self._marks_of(None))
        if kind == "structure":
            convert = self.marks.reader(values.structure_raw, self.placeholders(None))
            return ColumnReading(JSON, Raw, convert, "structure", raw=True)
        return _UNDECLARED[kind]

    def _declared(self, kind: str, declared: LogicalType) -> ColumnReading:
        if kind == "none":
            # The schema is the same before and after the first value: a count, or a text.
            counts = self.settings.temporal != "isostring"
            return ColumnReading(
                declared, _NOTHING, source_type=self._unit(declared) if counts else None
            )
        convert = self._converter(kind, declared)
        if convert is not None:
            wire = Raw if declared.kind == "json" and kind in _OBJECTS else _WIRES[kind]
            if kind == "int":
                wire = self._count(declared)
            marks = self._marks_of(declared) if wire is TEXT else ()
            raw, known = wire is Raw, self.placeholders(declared)
            read: Callable[[Any], Any] | None = convert
            if raw:
                read = self.marks.reader(convert, known)
            source = self._unit(declared) if kind == "int" else None
            if kind == "str" and declared.kind in TEXT_KINDS:
                read = None  # every text is its own
            quick = _QUICK.get(convert, "")
            counts = kind == "int" and declared.kind == "timestamp"
            unit = self._digits(declared) if counts else 0
            return held(ColumnReading(declared, wire, read, source, marks, raw, quick, unit=unit))
        if kind == "real" and declared.kind in (*_COUNTED, "interval"):
            raise ValueError(f"a number with a fraction in a column declared {declared}")
        if kind == "mixed" and declared.kind in _TEXT_DIFFERS:
            raise ValueError(f"values of several kinds in a column declared {declared}")
        reading = checked(self._undeclared(kind), declared)._replace(source_type=None)
        if kind == "int" and declared.kind in _RANGED:
            # The range is checked where the number is decoded.
            return reading._replace(wire=_RANGED[declared.kind], quick="str", wide=INTEGER)
        return reading

    def _converter(self, kind: str, declared: LogicalType) -> Callable[[Any], Any] | None:
        """The conversion where one is better than text and check; None where there is none."""
        name = declared.kind
        if name == "json" and kind in _OBJECTS:
            return values.json_raw
        if kind == "int":
            return self._integer(declared)
        if kind == "str":
            return self._string(declared)
        if kind == "variable":
            return values.variable_text if name in ("decimal", "number") else None
        if kind == "geometry":
            return values.geometry_text if name == "geometry" else None
        if kind == "bool" and declared.is_integer:
            return _bit_digit
        if name in ("float32", "float64") and kind == "real":
            return values.float32_raw if name == "float32" else values.float64_raw
        if name in ("decimal", "number") and kind == "real":
            return values.real_raw
        if name in TEXT_KINDS - {"interval"} and kind in ("real", "structure"):
            return values.structure_raw if kind == "structure" else values.number_raw
        return None

    def _integer(self, declared: LogicalType) -> Callable[[int], str] | None:
        name = declared.kind
        if name == "uint64":
            return values.unsigned_text if self.settings.unsigned == "long" else None
        if name in ("decimal", "number", *TEXT_KINDS - {"interval"}):
            return str
        if name == "interval":
            return partial(times.duration_text, digits=6)
        if name == "date":
            return times.date_text
        if name == "time":
            return _CLOCKS[self._digits(declared)]
        if name in ("timestamp", "timestamptz"):
            convert = _TIMESTAMPS[self._digits(declared)]
            return convert if name == "timestamp" else _with_z(convert)
        return None

    def _count(self, declared: LogicalType) -> Any:
        """The JSON type of integers: a count is no longer than the type that Connect has for it."""
        if declared.kind not in (*_COUNTED, "interval"):
            return INTEGER
        short = declared.kind == "date"
        if declared.kind == "time":
            short = self._digits(declared) == 3
        return INTEGERS["int32" if short else "int64"]

    def _digits(self, declared: LogicalType) -> int:
        """Digits of the second of the unit that counts of a type are in."""
        mode = self.settings.temporal
        if mode in _UNIT_MODES:
            return _UNIT_MODES[mode]
        if declared.kind == "time" and (self.micro_time or mode == "adaptive_time_microseconds"):
            return 6
        precision = declared.precision
        if precision is None:
            precision = 0 if self.mysql else 6
        return 3 if precision <= 3 else 6 if precision <= 6 else 9

    def _unit(self, declared: LogicalType) -> str | None:
        """The semantic name that a connector would give to a count of time."""
        if declared.kind not in ("time", "timestamp"):
            return None
        prefix = {3: "", 6: "Micro", 9: "Nano"}[self._digits(declared)]
        return f"io.debezium.time.{prefix}{declared.kind.capitalize()}"

    def _string(self, declared: LogicalType) -> Callable[[str], str] | None:
        name, scale, settings = declared.kind, declared.scale, self.settings
        if name in TEXT_KINDS:
            return _as_is
        if name in ("decimal", "number"):
            if settings.decimals in ("string", "double"):
                return values.number_or_special
            return None if scale is None else values.unscaled_reader(scale, settings.decimals)
        if name == "uint64" and settings.unsigned == "precise":
            return values.decimal_reader(0)
        if name == "bytes":
            return _BINARY[settings.binary]
        if name == "bit":
            return values.bits_reader(declared.precision or 1)
        return _STRINGS.get(name)

    def _loose(self, reading: ColumnReading, known: values.Placeholders) -> ColumnReading:
        """The same values, or the placeholder in their place."""
        if reading.raw and reading.convert is not None:
            return reading._replace(convert=self.marks.reader(reading.convert, known))
        decode = msgspec.json.Decoder(reading.wire).decode
        convert, marks = reading.convert or _as_is, reading.marks

        def read(raw: Raw) -> Any:
            value = decode(raw)
            if value is None:
                return None
            return UNSET if value in marks else convert(value)

        convert_raw = self.marks.reader(read, known)
        return reading._replace(wire=Raw, convert=convert_raw, marks=(), raw=True, quick="", unit=0)


def _refined(field: Field, found: LogicalType) -> LogicalType | None:
    """A type that the source's type says and the Connect type does not: unsigned, decimal text."""
    sql = sql_type(field)
    try:
        declared = UNKNOWN if sql is None else parse_type(sql)
    except ValueError:
        return None
    if declared.kind.startswith("uint") and (found.is_integer or field.name == DECIMAL):
        return declared
    if field.type == "string" and found == STRING and declared.kind in ("decimal", "number"):
        # PostgreSQL gives a NUMERIC without precision an impossible length.
        return declared if (declared.precision or 0) <= _MAX_PRECISION else NUMBER
    return declared if field.type == "string" and declared.kind == "bytes" else None


def _as_is(text: str) -> str:
    return text


def _bit_digit(value: bool) -> str:
    return "1" if value else "0"


def _with_z(convert: Callable[[int], str]) -> Callable[[int], str]:
    def read(count: int) -> str:
        text = convert(count)
        return text if "infinity" in text else f"{text}Z"

    return read


def _source(field: Field) -> str:
    return field.name or field.type


_NOTHING: Any = type(None)
_OBJECTS = ("structure", "variable", "geometry")
_COUNTED = ("date", "time", "timestamp", "timestamptz")
_TEXT_DIFFERS = frozenset({*APART, "decimal", "uint64"})
"""Kinds that a text tells in another way than a number does."""
_WIRES: dict[str, Any] = {
    "bool": bool | None,
    "int": INTEGER,
    "real": Raw,
    "str": TEXT,
    "structure": Raw,
    "mixed": Raw,
    "variable": values.VariableScale | None,
    "geometry": values.Geometry | None,
}
_UNDECLARED: dict[str, ColumnReading] = {
    "none": ColumnReading(UNKNOWN, _NOTHING),
    "bool": ColumnReading(BOOLEAN, bool | None, values.bool_text),
    "int": ColumnReading(NUMBER, INTEGER, str, "number", quick="str"),
    "real": ColumnReading(NUMBER, Raw, values.real_raw, "number", raw=True),
    "mixed": ColumnReading(STRING, Raw, values.mixed_raw, raw=True),
    "variable": ColumnReading(NUMBER, values.VariableScale | None, values.variable_text, VARIABLE),
    "geometry": ColumnReading(GEOMETRY, values.Geometry | None, values.geometry_text),
}
_QUICK: dict[Any, str] = {str: "str", values.number_or_special: "plain"}
_RANGED: dict[str, Any] = {
    kind: Annotated[int, Meta(ge=low, le=high)] | None
    for kind, (low, high) in INTEGER_RANGE.items()
    if high < 2**63
}
_PLAIN = {
    **{
        (f"int{n}", kind): "int"
        for n in (8, 16, 32, 64)
        for kind in (*INTEGER_RANGE, *_COUNTED, "interval")
    },
    **{("string", kind): "str" for kind in (*_COUNTED, *TEXT_KINDS, "bytes")},
}
"""Connect types without a semantic name that are read like JSON values of a declared type."""
_TIMESTAMPS = {3: times.millis_text, 6: times.micros_text, 9: times.nanos_text}
_CLOCKS = {3: times.millis_time_text, 6: times.micros_time_text, 9: times.nanos_time_text}
_UNIT_MODES = {"connect": 3, "microseconds": 6, "nanoseconds": 9}
_BINARY = {
    "bytes": values.base64_checked,
    "base64": values.base64_checked,
    "base64-url-safe": values.base64_url_text,
    "hex": values.hex_text,
}
_STRINGS: dict[str, Callable[[str], str]] = {
    "geometry": values.base64_checked,
    "date": times.local_text,
    "time": times.local_text,
    "timestamp": times.local_text,
    "timestamptz": times.zoned_text,
    "float32": float_check(shared.float32_text),
    "float64": float_check(shared.float64_text),
}
