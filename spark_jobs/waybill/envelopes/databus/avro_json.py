"""Rows in Avro's JSON notation: a value of a union of several types is `{"type": value}`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from waybill.envelopes.avro.reading import Leaf, float_value, row_reader
from waybill.envelopes.avro.schema import Node, without_null
from waybill.envelopes.notation.values import (
    JSON_ERRORS,
    check_json,
    json_refusal,
    to_float32,
)
from waybill.errors import Refusal

if TYPE_CHECKING:
    from waybill.envelopes.databus.rows import RowPlan

_INTEGERS = {"int": 31, "long": 63}
_FLOATS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def image_of_json(plan: RowPlan, text: str) -> Any:
    """The image of a row in Avro's JSON notation.

    Raises:
        Refusal: kind `json` or `value`; the text is no row of the plan's schema.
    """
    data = text.encode("utf-8", "surrogatepass")
    check_json(data)
    try:
        row = msgspec.json.decode(data, type=dict[str, Any])
    except JSON_ERRORS as error:
        raise json_refusal(error) from None
    fields = plan.node.fields
    if row.keys() != {field.name for field in fields}:
        strange = sorted(row.keys() ^ {field.name for field in fields})[0]
        raise Refusal("value", f"the row and its Avro schema differ in the field {strange!r}")
    values: dict[str, str | None] = {}
    for field, at, column, convert in zip(
        fields, plan.places, plan.columns, plan.texts, strict=True
    ):
        value = row[field.name]
        if column.kind != "complex":
            value = _value(value, field.node, field.name)
        values[f"f{at}"] = value if value is None or convert is None else convert(value)
    return plan.schema.Image(**values)


def _value(value: Any, node: Node, name: str) -> Any:
    inner = without_null(node)
    if inner is not node:
        if value is None:
            return None
        # A union's value is named by its type: {"long": 1}.
        names = {inner.kind, inner.name, inner.name.rpartition(".")[2]} - {""}
        if not isinstance(value, dict) or len(value) != 1 or not names & value.keys():
            raise _wrong(name, "is of no type of its union")
        (value,) = value.values()
    return _plain(value, inner, name)


def _plain(value: Any, node: Node, name: str) -> Any:
    kind = node.kind
    if kind in _INTEGERS:
        bits = _INTEGERS[kind]
        good = type(value) is int and -(1 << bits) <= value < 1 << bits
    elif kind in ("float", "double"):
        value = _FLOATS.get(value) if isinstance(value, str) else value
        good = type(value) in (int, float)
        value = _float(value, kind, name) if good else value
    elif kind in ("bytes", "fixed"):
        value = _bytes(value, name)
        good = kind == "bytes" or len(value) == node.size
    elif kind == "boolean":
        good = isinstance(value, bool)
    else:
        good = isinstance(value, str) and (kind != "enum" or value in node.symbols)
    if not good:
        raise _wrong(name, f"is no {kind}")
    return value


def _bytes(value: Any, name: str) -> bytes:
    try:
        data: bytes = value.encode("latin-1")
    except (AttributeError, UnicodeEncodeError):
        raise _wrong(name, "is not bytes as characters") from None
    return data


def _float(value: float, kind: str, name: str) -> float:
    try:
        return to_float32(float(value)) if kind == "float" else float(value)
    except OverflowError:
        raise _wrong(name, f"is out of the range of a {kind}") from None


def _wrong(name: str, what: str) -> Refusal:
    return Refusal("value", f"the value of the field {name!r} {what}")


def json_writer(node: Node) -> Callable[[bytes], bytes]:
    """A function from a row in Avro binary to the same in Avro's JSON notation.

    Args:
        node: the record; unions are of null and one type.
    """
    leaves = [_LEAVES.get(without_null(field.node).kind, Leaf()) for field in node.fields]
    values = "".join(f"v{i}, " for i in range(len(leaves)))
    read = row_reader(node, leaves, f"({values})", {})
    named = []
    for field in node.fields:
        inner = without_null(field.node)
        named.append((field.name, None if inner is field.node else inner.name or inner.kind))

    def write(data: bytes) -> bytes:
        row, _end = read(data, 0, len(data))
        return msgspec.json.encode(
            {
                name: value if kind is None or value is None else {kind: value}
                for (name, kind), value in zip(named, row, strict=True)
            }
        )

    return write


def _characters(data: bytes) -> str:
    return data.decode("latin-1")


_LEAVES = {
    **dict.fromkeys(("float", "double"), Leaf(float_value)),
    **dict.fromkeys(("bytes", "fixed"), Leaf(_characters)),
}
