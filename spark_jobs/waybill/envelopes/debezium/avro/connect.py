"""Kafka Connect schemas as Avro schemas and back, as Confluent's Avro converter does it.

Semantic names and parameters stand beside the Avro types: `connect.name`, `connect.parameters`,
`connect.version`, and `connect.type` for the integers that Avro does not have. Optional fields are
unions of null and their type. A name that Avro does not allow is written with underscores, and the
true one stands in `waybill.name` beside the field.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from waybill.avro.names import legal, legal_fields
from waybill.avro.schema import Node, without_null
from waybill.envelopes.debezium.connect import DECIMAL
from waybill.errors import Refusal

TRUE_NAME = "waybill.name"

_INTEGERS = {"int8": "int", "int16": "int", "int32": "int", "int64": "long"}
_AVRO = {**_INTEGERS, "float32": "float", "float64": "double"}
_CONNECT = {
    "boolean": "boolean",
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "bytes": "bytes",
    "fixed": "bytes",
    "string": "string",
    "enum": "string",
    "record": "struct",
    "array": "array",
    "map": "map",
}
_LOGICAL = {
    ("int", "date"): "io.debezium.time.Date",
    ("int", "time-millis"): "io.debezium.time.Time",
    ("long", "time-micros"): "io.debezium.time.MicroTime",
    ("long", "local-timestamp-millis"): "io.debezium.time.Timestamp",
    ("long", "local-timestamp-micros"): "io.debezium.time.MicroTimestamp",
    ("long", "timestamp-millis"): "io.debezium.time.Timestamp",
    ("long", "timestamp-micros"): "io.debezium.time.MicroTimestamp",
}
"""Semantic names for Avro's own counts of time, where no `connect.name` says what they are."""
_LOGICAL_TYPES = {
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
}


# From Avro


def take_true_names(node: Node) -> None:
    """Give the fields of a schema the names that they have in the source."""
    for inner in (*node.branches, *([node.items] if node.items is not None else [])):
        take_true_names(inner)
    for field in node.fields:
        name = field.attributes.get(TRUE_NAME)
        if isinstance(name, str):
            field.name = name
        take_true_names(field.node)
    names = [field.name for field in node.fields]
    if len(set(names)) != len(names):
        raise Refusal("schema", "a field occurs twice in a record of the Avro schema")


def connect_schema(node: Node) -> dict[str, Any]:
    """The Connect schema of an Avro schema, in the notation of the JSON converter.

    Raises:
        Refusal: kind `schema`; there is none for a union of several types.
    """
    inner = without_null(node)
    optional = inner is not node
    if inner.kind not in _CONNECT:
        sentence = f"an Avro {inner.kind} of {len(inner.branches)} types has no Connect schema"
        raise Refusal("schema", sentence if inner.kind == "union" else "a field is always null")
    attributes = inner.attributes
    kind = attributes.get("connect.type") if inner.kind in ("int", "long") else None
    schema: dict[str, Any] = {
        "type": kind if kind in _INTEGERS else _CONNECT[inner.kind],
        "optional": optional,
    }
    name, parameters = _semantics(inner)
    if name is not None:
        schema.update(name=name, version=attributes.get("connect.version", 1))
    if parameters:
        schema["parameters"] = parameters
    if inner.kind == "record":
        fields = inner.fields
        schema["fields"] = [{**connect_schema(f.node), "field": f.name} for f in fields]
    elif inner.items is not None:
        items = connect_schema(inner.items)
        if inner.kind == "array":
            schema["items"] = items
        else:
            schema.update(keys={"type": "string", "optional": False}, values=items)
    return schema


def _semantics(node: Node) -> tuple[str | None, dict[str, str]]:
    """Semantic name and parameters."""
    attributes = node.attributes
    name, found = attributes.get("connect.name"), attributes.get("connect.parameters")
    parameters = found if isinstance(found, dict) else {}
    parameters = {n: v for n, v in parameters.items() if isinstance(v, str)}
    name = name if isinstance(name, str) else None
    logical, scale = attributes.get("logicalType"), attributes.get("scale", 0)
    if node.kind in ("bytes", "fixed") and (name == DECIMAL or (logical == "decimal" and not name)):
        precision = attributes.get("precision")
        if type(scale) is int and type(precision) is int and 0 <= scale <= precision:
            sizes = {"scale": str(scale), "connect.decimal.precision": str(precision)}
            parameters = {**sizes, **parameters}
        return (DECIMAL if "scale" in parameters else name), parameters
    if name is None and isinstance(logical, str):
        name = _LOGICAL.get((node.kind, logical))
    if node.kind == "record" and name is None:
        name = node.name
    return name, parameters


# To Avro


def avro_schema(connect: dict[str, Any], fallback: str) -> tuple[str, str]:
    """The Avro schema of a Connect schema.

    Args:
        connect: the schema, in the notation of the JSON converter.
        fallback: the name of a record without one.

    Returns:
        Full name and text.

    Raises:
        Refusal: kind `encoding`; a part of the schema is missing, which a source without Avro may
            have left out.
    """
    _check(connect)
    maker = _Maker()
    made = maker.type_of({**connect, "optional": False}, fallback)
    return f"{made['namespace']}.{made['name']}", json.dumps(made, ensure_ascii=False)


class _Part(msgspec.Struct):
    """As much of a Connect schema as a type of Avro needs."""

    type: str
    items: _Part | None = None
    values: _Part | None = None
    fields: list[_Part] | None = None
    keys: _Part | None = None
    field: str | None = None
    name: str | None = None
    parameters: dict[str, str] | None = None


_TYPES = frozenset({*_INTEGERS, *_CONNECT.values(), "float32", "float64"})
_SCALE = re.compile(r"-?[0-9]{1,9}")
_NEEDED = {"array": "items", "map": "values", "struct": "fields"}


def _check(connect: dict[str, Any]) -> None:
    try:
        _check_part(msgspec.convert(connect, _Part))
    except (ValueError, RecursionError) as error:
        message = f"the schema of a structure is no Connect schema: {error}"
        raise Refusal("encoding", message) from None


def _check_part(part: _Part) -> None:
    if part.type not in _TYPES:
        raise ValueError(f"{part.type[:40]!r} is no type")
    if part.name == DECIMAL and not _SCALE.fullmatch((part.parameters or {}).get("scale", "")):
        raise ValueError("a decimal has no scale")
    needed = _NEEDED.get(part.type)
    if needed is not None and getattr(part, needed) is None:
        raise ValueError(f"a part of type {part.type} has no {needed}")
    for field in part.fields or ():
        if field.field is None:
            raise ValueError("a field has no name")
    for inner in (part.items, part.values, *(part.fields or ())):
        if inner is not None:
            _check_part(inner)


class _Maker:
    """Makes types; knows the names of the records made so far."""

    def __init__(self) -> None:
        self.made: dict[str, dict[str, Any]] = {}

    def field_type(self, connect: dict[str, Any], fallback: str) -> Any:
        inner = self.type_of(connect, fallback)
        return ["null", inner] if connect.get("optional") else inner

    def type_of(self, connect: dict[str, Any], fallback: str) -> Any:
        kind = connect["type"]
        if kind == "struct":
            return self._record(connect, fallback)
        attributes = _attributes(connect)
        if kind == "array":
            items = self.field_type(connect["items"], f"{fallback}_item")
            return {"type": "array", "items": items, **attributes}
        if kind == "map":
            if connect.get("keys", {}).get("type", "string") != "string":
                raise Refusal("encoding", "a map whose keys are no texts has no Avro notation here")
            values = self.field_type(connect["values"], f"{fallback}_value")
            return {"type": "map", "values": values, **attributes}
        avro = _AVRO.get(kind, kind)
        if kind in ("int8", "int16"):
            attributes["connect.type"] = kind
        return {"type": avro, **attributes} if attributes else avro

    def _record(self, connect: dict[str, Any], fallback: str) -> Any:
        full = _legal_full(connect.get("name") or fallback)
        namespace, _, name = full.rpartition(".")
        names = [item["field"] for item in connect["fields"]]
        fields = []
        for item, made in zip(connect["fields"], legal_fields(names), strict=True):
            inner = f"{namespace}.{made[:1].upper()}{made[1:]}" if namespace else made
            field: dict[str, Any] = {"name": made, "type": self.field_type(item, inner)}
            if item.get("optional"):
                field["default"] = None
            if made != item["field"]:
                field[TRUE_NAME] = item["field"]
            fields.append(field)
        attributes = _attributes(connect)
        record = {
            "type": "record",
            "name": name,
            "namespace": namespace,
            "fields": fields,
            **attributes,
        }
        return self._once(record, full)

    def _once(self, record: dict[str, Any], full: str) -> Any:
        """A record, or its name where the same one has been made already."""
        number, base = 1, record["name"]
        while full in self.made:
            # What is inside is made of names where it was made before.
            if _flat(self.made[full]) == _flat(record):
                return full
            number += 1
            record["name"] = f"{base}{number}"
            full = ".".join(part for part in (record["namespace"], record["name"]) if part)
        self.made[full] = record
        return record


def _flat(record: dict[str, Any]) -> list[Any]:
    """What two equal records have in common, named types by their names alone."""
    return [_named(field) for field in record["fields"]]


def _named(value: Any) -> Any:
    if isinstance(value, dict) and value.get("type") == "record":
        return f"{value['namespace']}.{value['name']}" if value["namespace"] else value["name"]
    if isinstance(value, dict):
        return {name: _named(inner) for name, inner in value.items()}
    return [_named(inner) for inner in value] if isinstance(value, list) else value


def _attributes(connect: dict[str, Any]) -> dict[str, Any]:
    """What the converter writes beside an Avro type."""
    found: dict[str, Any] = {}
    name, parameters = connect.get("name"), connect.get("parameters") or {}
    if name is not None:
        found["connect.version"] = connect.get("version", 1)
    if parameters:
        found["connect.parameters"] = parameters
    if name is not None:
        found["connect.name"] = name
    if name == DECIMAL:
        scale = int(parameters["scale"])
        precision = int(parameters.get("connect.decimal.precision", 64))
        found.update(logicalType="decimal", precision=precision, scale=scale)
    elif name in _LOGICAL_TYPES:
        found["logicalType"] = _LOGICAL_TYPES[name]
    return found


def _legal_full(name: str) -> str:
    return ".".join(legal(part) for part in name.split("."))
