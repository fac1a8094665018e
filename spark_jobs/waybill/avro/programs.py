"""Avro schemas as lists of steps that compiled code goes through.

Records are written out where they are used; every value at the end of a path is one step. Schemas
with arrays or maps have no program, and their messages are read individually.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from waybill.avro.reading import varint
from waybill.bulk.value_kinds import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    ENUM,
    FIXED,
    FLOAT,
    MOST_VALUES,
    STRING,
    VARINT,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from waybill.avro.schema import Node
    from waybill.bulk.block import Path

END, LEAF, CHOICE, UNION, NOTHING, JUMP = range(6)
"""Steps: the end; a value (kind, size); one in a union of null and its type (kind, size, place of
null); any other union (how many branches, where the steps of each begin); null in such a union; and
where to go on (a place). `size` is the bytes of a fixed, the symbols of an enum, and the bits of an
integer. Places are those in the program."""

MOST_STEPS = 20_000
"""Numbers in a program."""
MOST_BRANCHES = 60
"""Branches of a union whose numbers are one byte."""

KINDS = {
    "boolean": BOOLEAN,
    "int": VARINT,
    "long": VARINT,
    "float": FLOAT,
    "double": DOUBLE,
    "fixed": FIXED,
    "enum": ENUM,
    "bytes": BYTES,
    "string": STRING,
}
"""The kind of the values of each type that has one value."""


class Program:
    """The steps of a schema.

    Args:
        node: the schema.

    Attributes:
        steps: the steps, each as some numbers.
        width: how many values a message may have.

    Raises:
        ValueError: there is no program for it.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        steps: list[int] = []
        self.width = _values(node, steps)
        if self.width > MOST_VALUES:
            raise ValueError("too many values")
        self.steps: npt.NDArray[np.int32] = np.array([*steps, END], np.int32)

    def places(self, value: bytes, start: int) -> list[tuple[Path, Node]]:
        """Where the values of a message stand that the program was gone through for.

        Args:
            value: the message.
            start: where its Avro data begins.

        Returns:
            The path and the type of each; the type is the union where it is one of null and it.
        """
        return list(_Walk(value, start).places(self.node, ()))


def choice(node: Node) -> tuple[Node, int | None]:
    """The type of a value, and the place of null where it is in a union of null and that type."""
    if node.kind == "union" and len(node.branches) == 2:
        for null in (0, 1):
            other = node.branches[1 - null]
            if node.branches[null].kind == "null" and other.kind in KINDS:
                return other, null
    return node, None


def size_of(node: Node) -> int:
    """The number that says what values of a kind there are."""
    if node.kind == "fixed":
        return node.size
    if node.kind == "enum":
        return len(node.symbols)
    return 32 if node.kind == "int" else 64


def _values(node: Node, steps: list[int]) -> int:
    """Append the steps of a type; returns how many values it has at most."""
    if len(steps) > MOST_STEPS:
        raise ValueError("too many steps")
    inner, null = choice(node)
    if null is not None:
        steps += [CHOICE, KINDS[inner.kind], size_of(inner), null]
        return 1
    if node.kind in KINDS:
        steps += [LEAF, KINDS[node.kind], size_of(node)]
        return 1
    if node.kind == "record":
        return sum(_values(field.node, steps) for field in node.fields)
    if node.kind != "union" or len(node.branches) > MOST_BRANCHES:
        raise ValueError(f"no steps for {node.kind}")
    count = len(node.branches)
    steps += [UNION, count]
    table = len(steps)
    steps += [0] * count
    jumps, most = [], 0
    for i, branch in enumerate(node.branches):
        steps[table + i] = len(steps)
        if branch.kind == "null":
            steps.append(NOTHING)
            most = max(most, 1)
        else:
            most = max(most, _values(branch, steps))
        steps += [JUMP, 0]
        jumps.append(len(steps) - 1)
    for jump in jumps:
        steps[jump] = len(steps)
    return most


class _Walk:
    """Goes through data that is known to be whole."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def places(self, node: Node, path: Path) -> Iterator[tuple[Path, Node]]:
        if node.kind == "record":
            for field in node.fields:
                yield from self.places(field.node, (*path, field.name))
        elif choice(node)[1] is not None:
            yield path, node
            branch = node.branches[self._number()]
            if branch.kind != "null":
                self._skip(branch)
        elif node.kind == "union":
            branch = node.branches[self._number()]
            yield from self.places(branch, path)
        else:
            yield path, node
            if node.kind != "null":
                self._skip(node)

    def _number(self) -> int:
        first, self.at = self.data[self.at], self.at + 1
        if first > 127:
            first, self.at = varint(self.data, self.at, first)
        return (first >> 1) ^ -(first & 1)

    def _skip(self, node: Node) -> None:
        if node.kind in ("int", "long", "enum"):
            self._number()
        elif node.kind in ("bytes", "string"):
            size = self._number()
            self.at += size
        else:
            self.at += {"boolean": 1, "float": 4, "double": 8}.get(node.kind, node.size)
