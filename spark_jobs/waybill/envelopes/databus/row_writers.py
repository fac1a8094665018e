"""Rows as Avro binary: with a schema made for the table, or with a registered one."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from waybill.avro.schema import Node, parse, without_null
from waybill.envelopes.databus.event import PART_VERSIONS
from waybill.envelopes.databus.json.values import json_writer
from waybill.envelopes.databus.rows import TABLE, attribute
from waybill.envelopes.databus.schemas import Registered, digest, json_text
from waybill.envelopes.databus.values.writing import Write, write_for
from waybill.errors import Refusal
from waybill.records import Column, intern_schema
from waybill.values.generated import function

if TYPE_CHECKING:
    from waybill.records import TableSchema

_NOT_A_NAME = re.compile(r"[^A-Za-z0-9_]")
_TYPES = {
    "boolean": "boolean",
    **dict.fromkeys(("int8", "int16", "int32", "uint8", "uint16"), "int"),
    **dict.fromkeys(("int64", "uint32"), "long"),
    "float32": "float",
    "float64": "double",
    **dict.fromkeys(("bytes", "geometry", "bit"), "bytes"),
}
"""Avro types that hold every value of a logical type; the others are written as their exact text:
decimals, numbers and 64 bits without sign, dates and times."""


Writers = list[tuple[int, Node, Write]]
"""Of each field of a schema its column (-1 for none), its type, and what writes a value."""


class RowWriter:
    """Writes rows that have certain columns.

    Attributes:
        header: the schema's text.
        digest: its id.
        version: its version in the registry.
        missing: whether columns of the schema are written as null because the row lacks them.
        steps: the columns that are written: place, name and what writes one.
    """

    def __init__(
        self, text: str, id_: bytes, version: int, schema: TableSchema, writers: Writers
    ) -> None:
        self.header = text.encode("utf-8", "surrogatepass")
        self.digest = id_
        self.version = version
        self.write = _function(schema, writers)
        self.steps = [(at, schema.names[at], write) for at, _, write in writers if at >= 0]
        self.missing = False

    @cached_property
    def to_json(self) -> Callable[[bytes], bytes]:
        """A function from what was written to the same in Avro's JSON notation."""
        return json_writer(parse(self.header))

    def named(self, image: Any, refusal: Refusal) -> Refusal:
        """The refusal of a row, with the name of the column whose value cannot be written."""
        for at, name, write in self.steps:
            value = getattr(image, f"f{at}")
            if value is None:
                continue
            try:
                write(bytearray(), value)
            except Refusal as fault:
                return Refusal("encoding", f"column {name!r}: {fault.sentence}")
        return refusal


Present = tuple[bool, ...]


def made_writer(schema: TableSchema, present: Present) -> RowWriter:
    """A writer with a schema of exactly the columns that the row has.

    A column that was left out is no field, so it stays apart from null. Fields are unions of null
    and the type, null first.
    """
    kinds = [_TYPES.get(column.type.kind, "string") for column in schema.columns]
    names = _field_names(schema)
    fields: list[dict[str, Any]] = [
        {
            "name": names[i],
            "type": ["null", kinds[i]],
            "dbFieldName": column.name,
            TABLE: i,
        }
        for i, column in enumerate(schema.columns)
        if present[i]
    ]
    data: dict[str, Any] = {"type": "record", "name": _name(schema.table or "row")}
    space = ".".join(_name(part) for part in (schema.database, schema.schema) if part)
    if space:
        data["namespace"] = space
    if schema.key:
        data["pk"] = ",".join(names[place] for place in schema.key_places)
    data["fields"] = fields
    data[TABLE] = msgspec.json.decode(_portable(schema).to_json())
    text = json_text(data)
    places = [i for i, there in enumerate(present) if there]
    node = parse(text)
    writers = [
        (i, field.node, write_for(field.node, schema.columns[i].type))
        for i, field in zip(places, node.fields, strict=True)
    ]
    return RowWriter(text, digest(text), 0, schema, writers)


def _portable(schema: TableSchema) -> TableSchema:
    """The table as any target may see it: source types only where they are a database's.

    Names that another envelope gave to its own notations mean nothing without its messages.
    """
    if schema.dialect in _DATABASES:
        return schema
    columns = tuple(Column(c.name, c.type, None, c.nullable) for c in schema.columns)
    return intern_schema(schema.database, schema.schema, schema.table, columns, schema.key)


_DATABASES = ("", "mysql", "postgresql")


def _field_names(schema: TableSchema) -> list[str]:
    """Names of fields, no two of them the same: a second one gets the place of its column."""
    found: dict[str, None] = {}
    for i, name in enumerate(schema.names):
        made = _name(name)
        while made in found:
            # A column may be called what another one is called with its place, too.
            made = f"{made}_{i}"
        found[made] = None
    return list(found)


def _name(text: str) -> str:
    made = _NOT_A_NAME.sub("_", text)
    return f"_{made}" if not made or made[0].isdigit() else made


def registered_writer(
    registered: Registered, schema: TableSchema, present: Present, delete: bool
) -> RowWriter:
    """A writer with a registered schema.

    Raises:
        Refusal: kind `encoding`; the schema has no field for a column, or the row no value for a
            field (of a row that is deleted, such a field is null).
    """
    node = parse(registered.text)
    left = {name for name, there in zip(schema.names, present, strict=True) if there}
    writers, missing = [], False
    for field in node.fields:
        name = next(
            (n for n in (field.name, attribute(field.attributes, "dbFieldName")) if n in left), None
        )
        if name is None:
            if not delete or without_null(field.node) is field.node:
                message = f"the schema {registered.source} has a field {field.name!r}, the row none"
                raise Refusal("encoding", message)
            missing = True
            writers.append((-1, field.node, write_for(field.node, None)))
            continue
        left.discard(name)
        at = schema.index[name]
        writers.append((at, field.node, write_for(field.node, schema.columns[at].type)))
    if left:
        message = f"the schema {registered.source} has no field for the column {min(left)!r}"
        raise Refusal("encoding", message)
    version = registered.version if registered.version in PART_VERSIONS else 0
    made = RowWriter(registered.text, registered.id, version, schema, writers)
    made.missing = missing
    return made


def _function(schema: TableSchema, writers: Writers) -> Callable[[Any], bytes]:
    """A function from an image to Avro binary; fields of no column (-1) are null."""
    lines = ["out = bytearray()"]
    names: dict[str, Any] = {"no_null": _no_null}
    for place, (at, node, write) in enumerate(writers):
        names[f"w{place}"] = write
        kinds = [branch.kind for branch in node.branches]
        if at < 0:
            lines.append(f"out.append({2 * kinds.index('null')})")
            continue
        lines.append(f"v = image.f{at}")
        if "null" in kinds:
            null = kinds.index("null")
            lines.append(f"if v is None: out.append({2 * null})")
            lines.append(f"else: out.append({2 - 2 * null}); w{place}(out, v)")
        else:
            names[f"n{place}"] = schema.names[at]
            lines.append(f"if v is None: no_null(n{place})")
            lines.append(f"w{place}(out, v)")
    return function("write(image)", [*lines, "return bytes(out)"], names)


def _no_null(name: str) -> None:
    raise Refusal("encoding", f"the column {name!r} is null, and its Avro schema has no null")


def presence(schema: TableSchema) -> Callable[[Any], Present]:
    """A function that tells which columns an image has."""
    values = "".join(f"image.f{i} is not UNSET, " for i in range(len(schema.columns)))
    return function("present(image)", [f"return ({values})"], {"UNSET": UNSET})
