"""Readers of data in which much is as it was before: no value is taken apart twice in a row.

Where the bytes at hand begin with those of a whole value of the same type, it is that value, since
no value of a type is the beginning of another one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from waybill.avro.reading import Leaf, Maker, Reader
from waybill.avro.schema import Node, without_null

if TYPE_CHECKING:
    from waybill.avro.schema import Field

MAX_FIELDS = 500
"""More fields than this would make functions too long to be worth it."""
_STAYING = frozenset({"string", "enum", "boolean", "null"})


def pair_reader(
    one: Node,
    other: Node,
    leaves: Sequence[Leaf | None],
    result: str,
    names: Mapping[str, Any],
) -> Callable[[bytes, int, int], Any]:
    """A function that reads two records of one type that follow each other: a row and the next.

    Args:
        one: the type of the first one: the record, or a union of null and the record.
        other: the type of the second one.
        leaves: how each field becomes text.
        result: what becomes of a record, an expression of `v0`, `v1`, ….
        names: what the expression calls.

    Returns:
        A function that gives both, None for null, and the position behind them.

    Raises:
        ValueError: they are no records of one type, or too long ones.
    """
    record = without_null(one)
    if record.kind != "record" or without_null(other) is not record:
        raise ValueError("they are no records of one type")
    if len(record.fields) > MAX_FIELDS:
        raise ValueError("the records have too many fields")
    maker = Maker()
    maker.scope.update(names)
    first, plain, again = ["o0 = p"], [], []
    for i, (field, leaf) in enumerate(zip(record.fields, leaves, strict=True)):
        read = maker.value(field.node, f"v{i}", leaf)
        plain += read
        first += [*read, f"o{i + 1} = p"]
        again += [
            f"if d.startswith(d[o{i}:o{i + 1}], p): p += o{i + 1} - o{i}",
            "else:",
            *_deeper(read),
        ]
    lines = _either(one, [*first, f"x = {result}"], ["x = None"])
    second = ["if x is None:", *_deeper(plain), "else:", *_deeper(again), f"y = {result}"]
    lines += _either(other, second, ["y = None"])
    made: Callable[[bytes, int, int], Any] = maker.compile("rows", [*lines, "return x, y, p"])
    return made


def block_reader(
    node: Node, changing: Collection[str], result: str, names: Mapping[str, Any]
) -> Reader:
    """A function that reads records most texts of which are the same in every message.

    Args:
        node: the record.
        changing: names of texts of which that is not true.
        result: what the function gives, an expression of the fields' values `v0`, `v1`, ….
        names: what the expression calls.
    """
    maker = Maker()
    maker.scope.update(names)
    lines: list[str] = []
    for run in _runs(node.fields, changing):
        read: list[str] = []
        for i in run:
            read += maker.value(node.fields[i].node, f"v{i}")
        if len(run) > 1:
            read = _remembered(maker, run, read)
        lines += read
    return maker.compile("block", [*lines, f"return {result}, p"])


def _runs(fields: Sequence[Field], changing: Collection[str]) -> list[list[int]]:
    """The places of fields, neighbours together that stay as they are."""
    runs: list[list[int]] = []
    before = False
    for i, field in enumerate(fields):
        stays = without_null(field.node).kind in _STAYING and field.name not in changing
        if stays and before:
            runs[-1].append(i)
        else:
            runs.append([i])
        before = stays
    return runs


def _remembered(maker: Maker, run: list[int], read: list[str]) -> list[str]:
    """Reads fields, or takes the values of the last time if the bytes are those of then."""
    last = f"m{run[0]}"
    maker.scope[last] = [b"", None]
    values = ", ".join(f"v{i}" for i in run)
    return [
        f"h, w = {last}",
        f"if h and d.startswith(h, p): {values} = w; p += len(h)",
        "else:",
        "    o = p",
        *_deeper(read),
        f"    {last}[:] = d[o:p], ({values})",
    ]


def _either(node: Node, present: list[str], absent: list[str]) -> list[str]:
    """Reads what may be null."""
    if node.kind != "union":
        return present
    null = [branch.kind for branch in node.branches].index("null")
    return [
        "b = d[p]; p += 1",
        "if b > 127: b, p = varint(d, p, b)",
        f"if b == {2 * null}:",
        *_deeper(absent),
        f"elif b == {2 - 2 * null}:",
        *_deeper(present),
        "else: raise Damaged",
    ]


def _deeper(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]
