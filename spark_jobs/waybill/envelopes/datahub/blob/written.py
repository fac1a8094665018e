"""Writes images as JSON objects of the six types of StreamX, compiled once per table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw

from waybill.envelopes.datahub.blob.columns import INT64
from waybill.envelopes.datahub.blob.values import type_for
from waybill.errors import Refusal
from waybill.records import key_of
from waybill.values.declared import SPECIAL_FLOATS, shown
from waybill.values.generated import FEW, Few, function
from waybill.values.instants import Zone, instant_ms
from waybill.values.row_functions import AS_IT_IS, Step, one_row
from waybill.values.values import base64_bytes, float64_text, is_integer_text, is_json_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.records import Change, Column, TableSchema


def _cannot(column: Column, value: Any, kind: str) -> Refusal:
    message = f"column {shown(column.name)}: {shown(str(value))} is no value of {kind}"
    return Refusal("encoding", message)


def _long_writer(column: Column) -> Callable[[Any], Any]:
    def write(value: Any) -> Any:
        if value is None or value is UNSET:
            return value
        if (
            is_integer_text(value) is not None
            and value != "-0"
            and len(value) <= 20
            and INT64[0] <= int(value) <= INT64[1]
        ):
            return Raw(value)
        if column.type.kind == "boolean" and value in ("true", "false"):
            return int(value == "true")
        raise _cannot(column, value, "LONG (64 bits)")

    return write


def _double_writer(column: Column) -> Callable[[Any], Any]:
    """A number where a consumer's double holds it, else its text, which is a legal DOUBLE too."""

    def write(value: Any) -> Any:
        if value is None or value is UNSET:
            return value
        try:
            if repr(float(value)) == value and value[-1] not in "nf":
                return Raw(value)
        except ValueError:
            pass
        if value in SPECIAL_FLOATS:
            return value
        if is_json_number(value) is None:
            raise _cannot(column, value, "DOUBLE")
        return Raw(value) if float64_text(value) != value else value

    return write


def _boolean_writer(column: Column) -> Callable[[Any], Any]:
    def write(value: Any) -> Any:
        if value is None or value is UNSET:
            return value
        if value == "true":
            return True
        if value == "false":
            return False
        raise _cannot(column, value, "BOOLEAN")

    return write


def _bytes_writer(column: Column) -> Callable[[Any], Any]:
    def write(value: Any) -> Any:
        if value:
            try:
                base64_bytes(value)
            except Refusal:
                raise _cannot(column, value, "BYTES (Base64)") from None
        return value

    return write


def _date_writer(column: Column, zone: Zone) -> Callable[[Any], Any]:
    def moment(value: str) -> int | None:
        if column.type.kind == "timestamp":
            return zone.wall_ms(value)
        if column.type.kind == "date":
            return zone.wall_ms(f"{value}T00:00:00")
        if column.type.kind == "time":
            return zone.wall_ms(f"1970-01-01T{value}")
        return instant_ms(value)

    def write(value: Any) -> Any:
        if value is None or value is UNSET:
            return value
        ms = moment(value)
        if ms is None:
            # Instants beyond the year 9999, and digits of a column declared as a number.
            if is_integer_text(value) is None or len(value) >= 20 or value == "-0":
                raise _cannot(column, value, "DATE (milliseconds since 1970)")
            return Raw(value)
        return ms

    return write


def value_writer(column: Column, kind: str, zone: Zone) -> Callable[[Any], Any] | None:
    """The exact writer of one column: text in, a JSON value out; None if the text is written."""
    if kind == "DATE":
        return _date_writer(column, zone)
    makers: dict[str, Callable[[Column], Callable[[Any], Any]]] = {
        "LONG": _long_writer,
        "DOUBLE": _double_writer,
        "BOOLEAN": _boolean_writer,
        "BYTES": _bytes_writer,
    }
    return makers[kind](column) if kind in makers else None


_DIGITS = (
    "{v} = Raw({v}) if {v} and {v}.isdigit() and {v}.isascii() and len({v}) < 19"
    ' and ({v}[0] != "0" or {v} == "0") else {c}({v})'
)
_FEW = "{v} = {t}[{v}] if {v} else {c}({v})"


def image_writer(schema: TableSchema, zone: Zone) -> Callable[[Any], Any]:
    """A function from an image to a struct whose JSON is the object of its columns.

    It raises a Refusal of kind `encoding` for a value that its type cannot carry; columns that
    the image leaves out stay out.
    """
    steps = []
    for column in schema.columns:
        kind = type_for(column, schema.dialect)
        write = value_writer(column, kind, zone)
        if write is None:
            steps.append(AS_IT_IS)
        elif column.type.kind in FEW:
            steps.append(Step((_FEW,), write, Few(write)))
        else:
            steps.append(Step((_DIGITS if kind == "LONG" else "{v} = {c}({v})",), write))
    wire = msgspec.defstruct(
        "Wire",
        [(f"f{i}", Any, UNSET) for i in range(len(steps))],
        rename={f"f{i}": column.name for i, column in enumerate(schema.columns)},
        gc=False,
    )
    return one_row(steps, wire, {"Raw": Raw})


def key_writer(schema: TableSchema) -> Callable[[Any], bytes | None]:
    """A function from an image to the message key: what messages are sharded by.

    With a primary key its values, without one the name of the table (section Sharding strategies).
    """
    if not schema.key:
        name = schema.qualified_name.encode() or None
        return lambda _image: name
    # `key_of` raises, and names the column that is missing.
    scope = {
        "encode": msgspec.json.Encoder().encode,
        "Key": schema.Key,
        "schema": schema,
        "key_of": key_of,
    }
    names = [f"k{i}" for i in range(len(schema.key))]
    lines = [
        f"{name} = image.{field}" for name, field in zip(names, schema.key_fields, strict=True)
    ]
    gaps = " or ".join(f"{name} is UNSET" for name in names)
    lines += [f"if {gaps}: key_of(schema, image)", f"return encode(Key({', '.join(names)}))"]
    return function("key(image)", lines, scope)


def row_before(change: Change) -> Any:
    """The row before a change, or its key where that is all that is stated; None without either."""
    schema = change.schema
    if change.before is not None and change.before != schema.empty:
        return change.before
    if change.moved_from is None:
        return None
    values = msgspec.structs.astuple(change.moved_from)
    return schema.Image(**dict(zip(schema.key_fields, values, strict=True)))


def same_key(schema: TableSchema) -> Callable[[Any, Any], bool]:
    """A function that tells whether two images hold one key; both lacking a column counts too."""
    test = " and ".join(f"one.{field} == other.{field}" for field in schema.key_fields)
    return function("same(one, other)", [f"return {test or True}"], {})
