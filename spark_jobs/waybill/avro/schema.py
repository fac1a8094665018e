"""Avro schemas as trees, checked for what hostile data could do with them.

Attributes that the specification does not name (`dbColumnName`, unknown `logicalType`s) have no
influence on the data and are kept as hints (Avro specification, sections Schema Declaration and
Logical Types).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from waybill.errors import Refusal

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")

MAX_DEPTH = 32
"""Deepest nesting of types; rows of tables have three or four levels."""
MAX_TYPES = 250_000
"""Most types in a schema with every named type written out where it is used.

A few bytes could name more than anybody can go through. 10,000 columns (`tables.MAX_COLUMNS`) of
whatever type Debezium has are fewer: a Point that may be null is eleven types, and stands in the
row before and in the row after.
"""
_LEAST = {"null": 0, "float": 4, "double": 8}


@dataclass(slots=True, eq=False)
class Node:
    """One type.

    Attributes:
        kind: a primitive type, or record, enum, array, map, union, fixed.
        name: full name of a record, enum or fixed.
        attributes: everything else that stands in the schema.
        fields: of a record.
        branches: of a union.
        items: of an array, or the values of a map.
        symbols: of an enum.
        size: bytes of a fixed.
        types: how many types this is, named ones written out.
        least: fewest bytes that a value takes.
    """

    kind: str
    name: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)
    fields: tuple[Field, ...] = ()
    branches: tuple[Node, ...] = ()
    items: Node | None = None
    symbols: tuple[str, ...] = ()
    size: int = 0
    types: int = 1
    least: int = 1


@dataclass(slots=True, eq=False)
class Field:
    """One field of a record."""

    name: str
    node: Node
    attributes: dict[str, Any]


def parse(text: str | bytes, references: Iterable[str] = ()) -> Node:
    """The tree of a schema.

    Args:
        text: the schema as JSON.
        references: schemas whose named types it uses, the first ones first.

    Raises:
        Refusal: kind `schema`; it is no schema, or none that data can be read safely with.
    """
    parser = _Parser()
    try:
        for reference in references:
            parser.node(msgspec.json.decode(reference), "", 0)
        return parser.node(_json(text), "", 0)
    except Refusal:
        raise
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Refusal("schema", f"the Avro schema cannot be read: {error}") from None


def _json(text: str | bytes) -> Any:
    stripped = text.strip()
    name = stripped.decode() if isinstance(stripped, bytes) else stripped
    return name if name in PRIMITIVES else msgspec.json.decode(stripped)


class _Parser:
    """Makes the tree; knows the named types met so far."""

    def __init__(self) -> None:
        self.named: dict[str, Node | None] = {}

    def node(self, data: Any, namespace: str, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise Refusal("schema", f"the Avro schema is nested deeper than {MAX_DEPTH} types")
        if isinstance(data, str):
            return self._reference(data, namespace)
        if isinstance(data, list):
            return self._union(data, namespace, depth)
        if not isinstance(data, dict) or "type" not in data:
            raise ValueError("a type is neither a name, nor an object with a type, nor a union")
        kind = data["type"]
        if not isinstance(kind, str):
            return self.node(kind, namespace, depth + 1)
        if kind in PRIMITIVES:
            rest = {name: value for name, value in data.items() if name != "type"}
            return Node(kind, attributes=rest, least=_LEAST.get(kind, 1))
        made = _MAKERS.get(kind)
        if made is None:
            return self._reference(kind, namespace)
        found: Node = made(self, data, namespace, depth)
        _check_types(found.types)
        return found

    def _reference(self, name: str, namespace: str) -> Node:
        if name in PRIMITIVES:
            return Node(name, least=_LEAST.get(name, 1))
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        for candidate in (full, name):
            if candidate in self.named:
                found = self.named[candidate]
                if found is None:
                    sentence = f"the Avro type {candidate!r} contains itself; a row cannot"
                    raise Refusal("schema", sentence)
                return found
        raise ValueError(f"there is no type {name[:200]!r}")

    def _union(self, data: list[Any], namespace: str, depth: int) -> Node:
        if not data:
            raise ValueError("a union of no types")
        branches = tuple(self.node(branch, namespace, depth + 1) for branch in data)
        if any(branch.kind == "union" for branch in branches):
            raise ValueError("a union directly inside a union")
        types = 1 + sum(branch.types for branch in branches)
        _check_types(types)
        return Node("union", branches=branches, types=types)

    def _record(self, data: dict[str, Any], namespace: str, depth: int) -> Node:
        name, inner = self._name(data, namespace)
        self.named[name] = None
        fields, types, least = [], 1, 0
        for item in data["fields"]:
            node = self.node(item["type"], inner, depth + 1)
            types, least = types + node.types, least + node.least
            _check_types(types)
            fields.append(Field(_text(item["name"]), node, _rest(item, ("name", "type"))))
        if len({f.name for f in fields}) != len(fields):
            raise ValueError(f"a field occurs twice in {name!r}")
        node = Node("record", name, _rest(data, ("type", "name", "namespace", "fields")))
        node.fields, node.types, node.least = tuple(fields), types, least
        self.named[name] = node
        return node

    def _enum(self, data: dict[str, Any], namespace: str, _depth: int) -> Node:
        name, _ = self._name(data, namespace)
        symbols = tuple(_text(symbol) for symbol in data["symbols"])
        found = Node("enum", name, _rest(data, ("type", "name", "namespace", "symbols")))
        found.symbols = symbols
        self.named[name] = found
        return found

    def _fixed(self, data: dict[str, Any], namespace: str, _depth: int) -> Node:
        name, _ = self._name(data, namespace)
        size = data["size"]
        if type(size) is not int or not 0 <= size <= 1 << 24:
            raise ValueError(f"{name!r} has no size that could be")
        found = Node("fixed", name, _rest(data, ("type", "name", "namespace", "size")))
        found.size = found.least = size
        self.named[name] = found
        return found

    def _array(self, data: dict[str, Any], namespace: str, depth: int) -> Node:
        items = self.node(data["items"], namespace, depth + 1)
        return self._repeated("array", items, _rest(data, ("type", "items")))

    def _map(self, data: dict[str, Any], namespace: str, depth: int) -> Node:
        items = self.node(data["values"], namespace, depth + 1)
        return self._repeated("map", items, _rest(data, ("type", "values")))

    def _repeated(self, kind: str, items: Node, rest: dict[str, Any]) -> Node:
        if kind == "array" and items.least == 0:
            # A few bytes could claim any number of items that take no bytes.
            raise Refusal("schema", "an Avro array has items that take no bytes")
        return Node(kind, attributes=rest, items=items, types=1 + items.types)

    def _name(self, data: dict[str, Any], namespace: str) -> tuple[str, str]:
        """Full name of a named type, and the namespace for what is inside."""
        name = _text(data["name"])
        if "." in name:
            inner = name.rpartition(".")[0]
        else:
            inner = _text(data.get("namespace", namespace) or "")
            name = f"{inner}.{name}" if inner else name
        if name in self.named or name in PRIMITIVES:
            raise ValueError(f"the name {name[:200]!r} names two types")
        return name, inner


_MAKERS: dict[str, Any] = {
    "record": _Parser._record,
    "error": _Parser._record,
    "enum": _Parser._enum,
    "fixed": _Parser._fixed,
    "array": _Parser._array,
    "map": _Parser._map,
}


def _check_types(types: int) -> None:
    """Raise Refusal if a schema has too many types."""
    if types > MAX_TYPES:
        sentence = f"the Avro schema has more than {MAX_TYPES} types, which no setting changes"
        raise Refusal("schema", sentence)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a name is {type(value).__name__}, not a text")
    return value


def _rest(data: dict[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in known}


def without_null(node: Node) -> Node:
    """The other branch of a union of one type and null; any other type is what it is."""
    if node.kind == "union" and len(node.branches) == 2:
        one, two = node.branches
        if one.kind == "null":
            return two
        if two.kind == "null":
            return one
    return node
