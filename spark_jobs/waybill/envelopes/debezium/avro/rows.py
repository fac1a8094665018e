"""Writes `debezium-avro` in the known-table way: rows of a table into Avro, without JSON between.

It takes what `debezium-json` makes of the images before it writes them as JSON, and the same rules
decide everything else. Functions are made once for a schema; their source holds nothing but
numbered names.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from waybill.avro.json_writing import Maker
from waybill.avro.schema import Node, without_null
from waybill.avro.writing import Write, exact_float, varint, write_int
from waybill.caches import LIMIT, Bounded
from waybill.envelopes.debezium.row_writers import to_json
from waybill.envelopes.debezium.source import CHANGING

if TYPE_CHECKING:
    from waybill.envelopes.debezium.envelope_blocks import Shape

_FLOATS = frozenset({"float", "double"})
_NESTED = frozenset({"record", "array", "map", "union"})
_MANY = 2_000
"""Numbers that are kept as they are written."""
_LONG = 200
"""Bytes of a text that is not worth to be kept."""
_TRANSACTION = ("id", "total_order", "data_collection_order")
EventWrite = Callable[[bytearray, Any, Any, Any], None]
"""Appends an event: the row before, the row after, and the struct of what is around them."""
# Digits that no float holds must not be rounded on the way.
parse_json: Callable[[bytes | Raw], Any] = msgspec.json.Decoder(float_hook=exact_float).decode


def row_writer(node: Node) -> Write:
    """A function that writes the struct of a row or key: its values are as JSON has them."""
    maker = _Maker()
    made: Write = maker.compile("row(out, v)", maker.row(node, "v"))
    return made


def event_writer(node: Node, shape: Shape) -> EventWrite:
    """A function that writes an event: both rows and the struct of what is around them.

    Args:
        node: the schema of events.
        shape: what stands around the rows, in the order of the schema.
    """
    maker = _Maker()
    lines: list[str] = []
    for i, (field, v) in enumerate(zip(node.fields[:2], ("old", "new"), strict=True)):
        record = without_null(field.node)
        write = maker.kept(maker.compile(f"row{i}(out, v)", maker.row(record, "v")))
        lines += maker.optional(field.node, v, [f"{write}(out, {v})"])
    blocks = node.fields[2:]
    for i, (field, (_, kind)) in enumerate(zip(blocks, shape, strict=True)):
        lines += [f"x0 = others.f{i}", *maker.block(field.name, field.node, kind, 0)]
    made: EventWrite = maker.compile("event(out, old, new, others)", lines)
    return made


class _Maker(Maker):
    """Makes the text of functions; what comes again and again is kept as it is written."""

    def __init__(self) -> None:
        super().__init__()
        self.scope.update(Raw=Raw, parse=parse_json, to_json=to_json, write_int=write_int)
        self.scope["longs"] = lru_cache(maxsize=_MANY)(varint)
        self.texts: dict[int | None, str] = {}

    def row(self, node: Node, v: str) -> list[str]:
        """Statements that write the attributes `f0` … of a struct."""
        lines: list[str] = []
        for i, field in enumerate(node.fields):
            kind = without_null(field.node).kind
            lines.append(f"x = {v}.f{i}")
            if kind in _FLOATS:
                lines.append("if x.__class__ is Raw: x = parse(x)")
            elif kind in _NESTED:
                lines.append("if x is not None: x = parse(to_json(x))")
            lines += self.value(field.node, "x")
        return lines or ["pass"]

    def block(self, name: str, node: Node, kind: Any, depth: int) -> list[str]:
        """Statements that write a value of a block, which is in a variable of its depth."""
        v, record = f"x{depth}", without_null(node)
        if record.kind == "record":
            transaction = not isinstance(kind, tuple)
            names = _TRANSACTION if transaction else [f"f{i}" for i in range(len(kind))]
            kinds = [None] * len(names) if transaction else [inner for _, inner in kind]
            inside: list[str] = []
            for field, attribute, inner in zip(record.fields, names, kinds, strict=True):
                inside.append(f"x{depth + 1} = {v}.{attribute}")
                inside += self.block(field.name, field.node, inner, depth + 1)
            return self.optional(node, v, inside)
        if record.kind == "string" and name not in CHANGING:
            # Most texts around rows are the same in all messages.
            return [f"out += {self._texts(node)}[{v}]"]
        return self.value(node, v)

    def value(self, node: Node, v: str) -> list[str]:
        """Statements that write the value of a variable."""
        if node.kind == "long":
            # In rows a number is often in both of them and in the key.
            write = "longs" if v == "x" else "varint"
            return [f"out += SMALL[{v}] if 0 <= {v} < 1024 else {write}({v})"]
        if node.kind == "int":
            return [f"if 0 <= {v} < 1024: out += SMALL[{v}]", f"else: write_int(out, {v})"]
        if node.kind == "union" and without_null(node).kind == "string":
            null = _null(node)
            heads = self.kept(_heads(null))
            other = self.optional(node, v, super().value(without_null(node), v))
            return [
                f"if {v}.__class__ is str:",
                f"    t = {v}.encode(); n = len(t)",
                f"    if n < {_LONG}: out += {heads}[n]",
                f"    else: out.append({2 - 2 * null}); out += varint(n)",
                "    out += t",
                "else:",
                *(f"    {line}" for line in other),
            ]
        return super().value(node, v)

    def _texts(self, node: Node) -> str:
        """Under which name functions find texts of a type as they are written."""
        null = _null(node) if node.kind == "union" else None
        name = self.texts.get(null)
        if name is None:
            name = self.texts[null] = self.kept(_Texts(null))
        return name


@cache
def _heads(null: int) -> list[bytes]:
    """What stands before texts of so many bytes, of a union with null in this place."""
    return [bytes((2 - 2 * null,)) + varint(n) for n in range(_LONG)]


def _null(node: Node) -> int:
    return [branch.kind for branch in node.branches].index("null")


class _Texts(Bounded[str | None, bytes]):
    """Texts as they are written.

    Args:
        null: the place of null in their union; None where they are never null.
    """

    def __init__(self, null: int | None) -> None:
        super().__init__()
        self.head = b"" if null is None else bytes((2 - 2 * null,))
        if null is not None:
            self[None] = bytes((2 * null,))

    def __missing__(self, text: str | None) -> bytes:
        if text.__class__ is not str:
            raise TypeError(f"{text!r:.60} is no text")
        assert text is not None
        data = text.encode()
        written = b"%b%b%b" % (self.head, varint(len(data)), data)
        if len(data) < _LONG:
            if len(self) > LIMIT - 2:
                null = self.get(None)
                self.clear()
                if null is not None:
                    self[None] = null
            self[text] = written
        return written
