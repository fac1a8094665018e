"""Writes images as JSON objects of the six types of StreamX, compiled once per table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw

from waybill.envelopes.datahub.blob.values import type_for, value_writer
from waybill.records import key_of
from waybill.values.generated import FEW, Few, function
from waybill.values.row_functions import AS_IT_IS, Step, one_row

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.records import Change, TableSchema
    from waybill.values.instants import Zone


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
