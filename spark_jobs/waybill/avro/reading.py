"""Reads Avro binary data by functions that are made once per schema.

The functions trust no byte: indexes of unions and enums, lengths, counts and the bits of integers
are checked, and nothing is read or made beyond the bytes that are there. They raise one of
`READ_ERRORS`; what was wrong and where is found by `faults`, which is slow and only asked then.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from waybill.avro.schema import Node
from waybill.errors import Refusal
from waybill.values.generated import later
from waybill.values.values import float64_value

if TYPE_CHECKING:
    from waybill.values.notation import ColumnForm

READ_ERRORS = (ValueError, IndexError, KeyError, ArithmeticError, struct.error)
"""What damaged data raises: catch these, and ask `faults.explain`."""

Reader = Callable[[bytes, int, int], tuple[Any, int]]
"""From data, position and end to a value and the position behind it."""


class Damaged(ValueError):
    """The bytes are no value of the type."""


class Leaf(NamedTuple):
    """How a column's value becomes text.

    Attributes:
        convert: from the value that is not null to its text; None where the value is the text.
        integer: whether the value is an integer and its digits are the text.
        structure: whether `convert` takes what `object_reader` gives, to write it as JSON.
        mark: a value that stands for one that was not sent; None where there is none.
        column: the column form of the conversion, see `values.notation`.
    """

    convert: Callable[[Any], Any] | None = None
    integer: bool = False
    structure: bool = False
    mark: Any = None
    column: ColumnForm | None = None


def _varint() -> Callable[[bytes, int, int], tuple[int, int]]:
    """Makes `varint`: one test for each byte, and the bits that say more are taken off at once."""
    lines, more = [], 0
    for n in range(1, 10):
        more += 128 << 7 * (n - 1)
        total = " + ".join(["b", *(f"(c{i} << {7 * i})" for i in range(1, n + 1))])
        # The tenth byte has one bit of the 64.
        lines += [f"c{n} = d[p + {n - 1}]", f"if c{n} < {128 if n < 9 else 2}:"]
        lines += [f"    return {total} - {more}, p + {n}"]
    body = "".join(f"    {line}\n" for line in lines)
    scope: dict[str, Any] = {"Damaged": Damaged}
    exec(f"def varint(d, p, b):\n{body}    raise Damaged\n", scope)
    made: Callable[[bytes, int, int], tuple[int, int]] = scope["varint"]
    return made


varint = _varint()
"""The unsigned number of a variable-length integer in `d` whose first byte `b` was read before `p`,
and the position behind it."""


def float_value(value: float) -> Any:
    """A number as JSON has it; NaN and the infinities as texts."""
    return value if isfinite(value) else float64_value(value)


_SMALL = [str((n >> 1) ^ -(n & 1)) for n in range(128)]
_HELPERS: dict[str, Any] = {
    "varint": varint,
    "Damaged": Damaged,
    "F": struct.Struct("<f").unpack_from,
    "D": struct.Struct("<d").unpack_from,
    "number": float_value,
    "B": {0: False, 1: True},
    "S": _SMALL,
    "UNSET": msgspec.UNSET,
}
_SIGNED = "(~(b >> 1) if b & 1 else b >> 1)"


def object_reader(node: Node) -> Reader:
    """A function that reads values as objects that `msgspec.json.encode` writes.

    Records become structs; bytes stay bytes, which JSON has as Base64.
    """
    maker = Maker()
    return maker.function_of(node)


def row_reader(
    node: Node, leaves: Sequence[Leaf | None], result: str, names: Mapping[str, Any]
) -> Reader:
    """A function that reads records as texts.

    Args:
        node: the record.
        leaves: how each field becomes text; None for those taken as they are.
        result: what the function gives, an expression of the fields' texts `v0`, `v1`, ….
        names: what the expression calls.
    """
    maker = Maker()
    maker.scope.update(names)
    lines: list[str] = []
    for i, (field, leaf) in enumerate(zip(node.fields, leaves, strict=True)):
        lines += maker.value(field.node, f"v{i}", leaf)
    return maker.compile("row", [*lines, f"return {result}, p"])


class Maker:
    """Makes the text of functions; it holds nothing but numbered names.

    In it `d` is the data, `p` the position, `e` the end; a value ends up in the variable `v`.
    """

    def __init__(self) -> None:
        self.scope: dict[str, Any] = dict(_HELPERS)
        self.functions: dict[Node, str] = {}
        self.count = 0

    def compile(self, name: str, lines: list[str]) -> Reader:
        """A function of statements that return what it gives."""
        made: Reader = later(f"{name}(d, p, e)", lines, self.scope)
        self.scope[name] = made
        return made

    def function_of(self, node: Node) -> Reader:
        """The function that reads a type."""
        name = self.named(node)
        made: Reader = self.scope[name]
        return made

    def know(self, node: Node, read: Reader) -> None:
        """Take a function for a type, instead of making one."""
        name = self.functions[node] = f"known{len(self.functions)}"
        self.scope[name] = read

    def named(self, node: Node) -> str:
        """The name of the function that reads a type, made when it is first needed."""
        name = self.functions.get(node)
        if name is None:
            self.count += 1
            name = self.functions[node] = f"r{self.count}"
            if node.kind == "record":
                lines = self._record(node, f"T{self.count}")
            elif node.kind in ("array", "map"):
                lines = self._repeated(node)
            else:
                lines = [*self.value(node, "v"), "return v, p"]
            self.compile(name, lines)
        return name

    def value(self, node: Node, v: str, leaf: Leaf | None = None) -> list[str]:
        """Lines that read a value into the variable `v`."""
        if node.kind == "union":
            return self._union(node, v, leaf)
        if node.kind == "null":
            return [f"{v} = None"]
        lines = self._plain(node, v, leaf)
        if leaf is None:
            return lines
        self.count += 1
        more = f"{v} = c{self.count}({v})" if leaf.convert is not None else ""
        self.scope[f"c{self.count}"] = leaf.convert
        if leaf.mark is not None:
            self.scope[f"k{self.count}"] = leaf.mark
            lines.append(f"if {v} == k{self.count}: {v} = UNSET")
            more = f"else: {more}" if more else ""
        return [*lines, more] if more else lines

    def _union(self, node: Node, v: str, leaf: Leaf | None) -> list[str]:
        # An index may have more bytes than it needs: the format asks for no shortest form.
        lines = ["b = d[p]; p += 1", "if b > 127: b, p = varint(d, p, b)"]
        for index, branch in enumerate(node.branches):
            lines.append(f"{'el' if index else ''}if b == {2 * index}:")
            lines += [f"    {line}" for line in self.value(branch, v, leaf)]
        return [*lines, "else: raise Damaged"]

    def _plain(self, node: Node, v: str, leaf: Leaf | None) -> list[str]:
        kind = node.kind
        if kind in ("int", "long"):
            return self._integer(kind, v, leaf is not None and leaf.integer)
        if kind in ("string", "bytes"):
            taken = "d[p:q].decode()" if kind == "string" else "d[p:q]"
            return [
                "b = d[p]; p += 1",
                "if b > 127: b, p = varint(d, p, b)",
                "q = p + (b >> 1)",
                "if b & 1 or q > e: raise Damaged",
                f"{v} = {taken}; p = q",
            ]
        if kind == "fixed":
            return [
                f"q = p + {node.size}",
                "if q > e: raise Damaged",
                f"{v} = d[p:q]; p = q",
            ]
        if kind == "boolean":
            return [f"{v} = B[d[p]]; p += 1"]
        if kind in ("float", "double"):
            read, size = ("F", 4) if kind == "float" else ("D", 8)
            value = f"{read}(d, p)[0]"
            if leaf is None or leaf.structure:
                value = f"number({value})"
            return [f"{v} = {value}; p += {size}"]
        if kind == "enum":
            self.count += 1
            symbols = f"e{self.count}"
            self.scope[symbols] = node.symbols
            return [
                "b = d[p]; p += 1",
                "if b > 127: b, p = varint(d, p, b)",
                "if b & 1: raise Damaged",
                f"{v} = {symbols}[b >> 1]",
            ]
        return [f"{v}, p = {self.named(node)}(d, p, e)"]

    def _integer(self, kind: str, v: str, text: bool) -> list[str]:
        value = f"str({_SIGNED})" if text else _SIGNED
        short = "S[b]" if text else _SIGNED
        lines = [
            "b = d[p]; p += 1",
            f"if b < 128: {v} = {short}",
            "else:",
            "    b, p = varint(d, p, b)",
        ]
        if kind == "int":
            lines.append("    if b >> 32: raise Damaged")
        return [*lines, f"    {v} = {value}"]

    def _record(self, node: Node, struct_name: str) -> list[str]:
        self.scope[struct_name] = _struct(tuple(field.name for field in node.fields))
        lines: list[str] = []
        for i, field in enumerate(node.fields):
            lines += self.value(field.node, f"v{i}")
        values = ", ".join(f"v{i}" for i in range(len(node.fields)))
        return [*lines, f"return {struct_name}({values}), p"]

    def _repeated(self, node: Node) -> list[str]:
        assert node.items is not None
        inner = self.value(node.items, "v")
        if node.kind == "map":
            inner = [*self._plain(Node("string"), "k", None), *inner, "x[k] = v"]
        else:
            inner.append("x.append(v)")
        return [
            f"x = {'{}' if node.kind == 'map' else '[]'}",
            "while True:",
            "    b = d[p]; p += 1",
            "    if b > 127: b, p = varint(d, p, b)",
            "    if b == 0: return x, p",
            f"    n = {_SIGNED}",
            "    if n < 0:",
            # A negative count is followed by the bytes of the block, for readers that skip it.
            "        n = -n",
            "        b = d[p]; p += 1",
            "        if b > 127: b, p = varint(d, p, b)",
            "    if n > e - p: raise Damaged",
            "    for _ in range(n):",
            *(f"        {line}" for line in inner),
        ]


def _struct(names: tuple[str, ...]) -> type[Any]:
    """A struct of a record's fields, which is written under their names."""
    try:
        return msgspec.defstruct(
            "Record",
            [(f"f{i}", Any) for i in range(len(names))],
            rename={f"f{i}": name for i, name in enumerate(names)},
            gc=False,
        )
    except ValueError as error:
        raise Refusal("schema", f"an Avro field's name cannot be read: {error}") from error
