"""Writes JSON data as Avro binary, by functions that are made once per schema.

The source of a function holds nothing but numbered names. They raise one of `WRITE_ERRORS` for a
value that is none of its type; nothing is cut.
"""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING, Any, NoReturn

from waybill.avro.schema import without_null
from waybill.avro.writing import (
    SMALL,
    Write,
    exact_float32,
    varint,
    write_boolean,
    write_bytes,
    write_double,
    write_float,
    write_int,
)
from waybill.counting import counted
from waybill.values.generated import later

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from waybill.avro.schema import Node

_SPECIAL = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def json_writer(node: Node) -> Write:
    """A function that writes values as JSON has them: bytes are Base64, floats may be texts.

    Raises:
        ValueError: the schema has a union of more than null and one type.
    """
    maker = Maker()
    return maker.function(node)


class Maker:
    """Makes the text of functions that write to `out`."""

    def __init__(self) -> None:
        self.scope: dict[str, Any] = {
            "SMALL": SMALL,
            "varint": varint,
            "no_text": _no_text,
            "no_field": _no_field,
            "no_record": _no_record,
        }
        self.named: dict[Node, str] = {}

    def function(self, node: Node) -> Write:
        """The function that writes a type."""
        made: Write = self.scope[self.name_of(node)]
        return made

    def name_of(self, node: Node) -> str:
        """The name of the function that writes a type, made when it is first needed."""
        name = self.named.get(node)
        if name is None:
            name = self.named[node] = f"w{len(self.named)}"
            lines = self._record(node, name) if node.kind == "record" else self.value(node, "v")
            self.compile(f"{name}(out, v)", lines)
        return name

    def compile(self, head: str, lines: list[str]) -> Any:
        """A function of statements; `head` is its name and its arguments."""
        made = later(head, lines, self.scope)
        self.scope[head.partition("(")[0]] = made
        return made

    def kept(self, value: Any) -> str:
        """The name under which functions find a value."""
        name = f"k{len(self.scope)}"
        self.scope[name] = value
        return name

    def _record(self, node: Node, name: str) -> list[str]:
        names = self.kept(frozenset(field.name for field in node.fields))
        lines = ["if v.__class__ is not dict: no_record(v)"]
        lines += [f"if not {names}.issuperset(v): no_field(v, {names})", "get = v.get"]
        for field in node.fields:
            lines += [f"x = get({self.kept(field.name)})", *self.value(field.node, "x")]
        return lines

    def value(self, node: Node, v: str) -> list[str]:
        """Statements that write the value of a variable."""
        kind = node.kind
        if kind == "union":
            return self._union(node, v)
        if kind == "string":
            return [
                f"if {v}.__class__ is not str: no_text({v})",
                f"t = {v}.encode(); n = len(t)",
                "out += SMALL[n] if n < 1024 else varint(n); out += t",
            ]
        if kind == "long":
            return [f"out += SMALL[{v}] if 0 <= {v} < 1024 else varint({v})"]
        if kind == "record":
            return [f"{self.name_of(node)}(out, {v})"]
        return [f"{self.kept(self._other(node))}(out, {v})"]

    def _union(self, node: Node, v: str) -> list[str]:
        inner = without_null(node)
        if inner is node:
            raise ValueError("only unions of null and one type are written")
        return self.optional(node, v, self.value(inner, v))

    def optional(self, node: Node, v: str, lines: list[str]) -> list[str]:
        """Statements that write a value that may be null, `lines` those of one that is not."""
        if node.kind != "union":
            return lines
        null = [branch.kind for branch in node.branches].index("null")
        return [
            f"if {v} is None: out.append({2 * null})",
            "else:",
            f"    out.append({2 - 2 * null})",
            *(f"    {line}" for line in lines),
        ]

    def _other(self, node: Node) -> Write:
        kind = node.kind
        if kind in ("array", "map"):
            assert node.items is not None
            return _repeated(self.function(node.items), kind == "map")
        if kind == "enum":
            symbols = {symbol: i for i, symbol in enumerate(node.symbols)}
            return lambda out, value: write_int(out, symbols[value])
        return _fixed(node.size) if kind == "fixed" else _PLAIN[kind]


def _no_field(value: Iterable[str], names: frozenset[str]) -> NoReturn:
    unknown = sorted(set(value) - names)
    raise ValueError(f"there is no field {unknown[0]!r}")


def _no_record(value: Any) -> NoReturn:
    raise TypeError(f"{value!r:.60} is no record")


def _no_text(value: Any) -> NoReturn:
    raise TypeError(f"{value!r:.60} is no text")


def _repeated(inner: Write, is_map: bool) -> Write:
    def write(out: bytearray, value: Any) -> None:
        if value:
            out += varint(len(value))
            for item in value:
                if is_map:
                    write_bytes(out, item.encode())
                    inner(out, value[item])
                else:
                    inner(out, item)
        out.append(0)

    return write


def _fixed(size: int) -> Write:
    def write(out: bytearray, value: str) -> None:
        data = binascii.a2b_base64(value, strict_mode=True)
        if len(data) != size:
            raise ValueError(f"{counted(len(data), 'byte is', 'bytes are')} not {size}")
        out += data

    return write


def _null(_out: bytearray, value: Any) -> None:
    if value is not None:
        raise ValueError("a value where null belongs")


def _base64(out: bytearray, value: str) -> None:
    write_bytes(out, binascii.a2b_base64(value, strict_mode=True))


def _number(value: Any) -> float:
    if isinstance(value, str):
        return _SPECIAL[value]
    number = float(value)
    if number != value and value == value:
        raise ValueError(f"{value} is not exactly a floating point number")
    return number


_PLAIN: dict[str, Callable[[bytearray, Any], None]] = {
    "null": _null,
    "boolean": write_boolean,
    "int": write_int,
    "float": lambda out, value: write_float(out, exact_float32(_number(value))),
    "double": lambda out, value: write_double(out, _number(value)),
    "bytes": _base64,
}
