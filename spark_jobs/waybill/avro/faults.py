"""Says what is wrong with Avro data that a compiled reader could not read, and where."""

from __future__ import annotations

from collections.abc import Callable

from waybill.avro.reading import Damaged, varint
from waybill.avro.schema import Node
from waybill.counting import counted
from waybill.errors import Refusal


def explain(node: Node, data: bytes, start: int, error: Exception | None = None) -> Refusal:
    """The refusal for data that is no value of a type.

    Args:
        node: the type.
        data: the whole key or value.
        start: where the Avro data begins.
        error: what the reader raised, None where it read to its end.
    """
    walk = _Walk(data, start)
    try:
        walk.value(node, "")
    except Refusal as refusal:
        return refusal
    except IndexError:
        return Refusal("binary", f"the Avro data ends inside {walk.place()} (byte {len(data)})")
    if walk.at != len(data):
        rest = len(data) - walk.at
        left = counted(rest, "byte is", "bytes are")
        return Refusal("binary", f"{left} left behind the Avro data (byte {walk.at})")
    if isinstance(error, Refusal):
        return error
    reason = str(error) or "its bytes are no value of the schema"
    return Refusal("value", f"the Avro data cannot be read: {reason}")


class _Walk:
    """Goes through data step by step and remembers where it is."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at
        self.path = ""

    def place(self) -> str:
        return f"field {self.path!r}" if self.path else "the value"

    def number(self) -> int:
        """The next integer, sign resolved."""
        first, at = self.data[self.at], self.at + 1
        if first > 127:
            try:
                first, at = varint(self.data, at, first)
            except Damaged:
                raise self.refusal("an integer has more than 64 bits") from None
        self.at = at
        return (first >> 1) ^ -(first & 1)

    def refusal(self, what: str) -> Refusal:
        return Refusal("value", f"{self.place()}: {what} (byte {self.at})")

    def value(self, node: Node, path: str) -> None:
        self.path = path
        step = _STEPS.get(node.kind)
        if step is not None:
            step(self, node, path)
        else:
            self._skip({"float": 4, "double": 8}.get(node.kind, 0))

    def _record(self, node: Node, path: str) -> None:
        for field in node.fields:
            self.value(field.node, f"{path}.{field.name}" if path else field.name)

    def _union(self, node: Node, path: str) -> None:
        index = self.number()
        if not 0 <= index < len(node.branches):
            raise self.refusal(f"the union has no type number {index}")
        self.value(node.branches[index], path)

    def _integer(self, node: Node, _path: str) -> None:
        number = self.number()
        if node.kind == "int" and not -(2**31) <= number < 2**31:
            raise self.refusal("an integer has more than 32 bits")

    def _boolean(self, _node: Node, _path: str) -> None:
        if self.data[self.at] > 1:
            raise self.refusal("a boolean is neither 0 nor 1")
        self.at += 1

    def _enum(self, node: Node, _path: str) -> None:
        index = self.number()
        if not 0 <= index < len(node.symbols):
            raise self.refusal(f"the enum has no symbol number {index}")

    def _skip(self, size: int) -> None:
        if size > len(self.data) - self.at:
            left = len(self.data) - self.at
            wanted = counted(size, "byte")
            text = f"the Avro data ends inside {self.place()}: {wanted} told, {left} left"
            raise Refusal("binary", text)
        self.at += size

    def _bytes(self, node: Node, _path: str) -> None:
        size = node.size if node.kind == "fixed" else self.number()
        if size < 0:
            raise self.refusal("a length is negative")
        start = self.at
        self._skip(size)
        if node.kind == "string":
            try:
                self.data[start : self.at].decode("utf-8")
            except UnicodeDecodeError:
                raise self.refusal("a text is not UTF-8") from None

    def _repeated(self, node: Node, path: str) -> None:
        assert node.items is not None
        while count := self.number():
            if count < 0:
                count = -count
                self.number()
            if count > len(self.data) - self.at:
                raise self.refusal(f"{counted(count, 'item')} told and not as many bytes left")
            for _ in range(count):
                if node.kind == "map":
                    self._bytes(Node("string"), path)
                self.value(node.items, path)
                self.path = path


_STEPS: dict[str, Callable[[_Walk, Node, str], None]] = {
    "record": _Walk._record,
    "union": _Walk._union,
    "int": _Walk._integer,
    "long": _Walk._integer,
    "string": _Walk._bytes,
    "bytes": _Walk._bytes,
    "fixed": _Walk._bytes,
    "boolean": _Walk._boolean,
    "enum": _Walk._enum,
    "array": _Walk._repeated,
    "map": _Walk._repeated,
}
