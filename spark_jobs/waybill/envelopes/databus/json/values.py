"""Rows in Avro's JSON notation: a value of a union of several types is `{"type": value}`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from waybill.avro.reading import Leaf, float_value, row_reader
from waybill.avro.schema import Node, without_null
from waybill.avro.writing import exact_float, exact_float32
from waybill.envelopes.databus.values.reading import text_of
from waybill.errors import Refusal
from waybill.values.declared import shown
from waybill.values.values import JSON_ERRORS, check_json, json_refusal

if TYPE_CHECKING:
    from waybill.envelopes.databus.rows import RowPlan


class _Digits(msgspec.Struct):
    """A number of a point, an exponent or more than 64 bits, as it stands in the JSON."""

    text: str


_parse = msgspec.json.Decoder(dict[str, Any], float_hook=_Digits).decode
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
        row = _parse(data)
    except JSON_ERRORS as error:
        raise json_refusal(error) from None
    fields = plan.node.fields
    if row.keys() != {field.name for field in fields}:
        strange = sorted(row.keys() ^ {field.name for field in fields})[0]
        raise Refusal("value", f"the row and its Avro schema differ in the field {strange!r}")
    # By place: a struct looks through all of its fields for each one that is named.
    values: list[Any] = [UNSET] * len(plan.schema.columns)
    for field, at, leaf in zip(fields, plan.places, plan.leaves, strict=True):
        convert = text_of(leaf)
        value = _value(row[field.name], field.node, field.name)
        try:
            values[at] = value if value is None or convert is None else convert(value)
        except Refusal as refusal:
            raise Refusal(refusal.kind, f"field {field.name!r}: {refusal.sentence}") from None
    return plan.schema.Image(*values)


def _value(value: Any, node: Node, name: str, inside: bool = False) -> Any:
    """What the binary notation gives for a value.

    Args:
        value: as `msgspec.json.decode` gives it.
        node: its type.
        name: the field of the row that it belongs to.
        inside: whether it is a part of the field's value.
    """
    kind = node.kind
    if kind == "union":
        return _branch(value, node, name, inside)
    if kind == "null":
        if value is not None:
            raise _wrong(name, "is no null")
        return None
    if kind == "record":
        fields = {field.name for field in node.fields}
        if not isinstance(value, dict) or value.keys() != fields:
            raise _wrong(name, f"has not the fields of {node.name}")
        return {f.name: _value(value[f.name], f.node, name, True) for f in node.fields}
    if kind in ("array", "map"):
        assert node.items is not None
        if kind == "array" and isinstance(value, list):
            return [_value(item, node.items, name, True) for item in value]
        if kind == "map" and isinstance(value, dict):
            return {key: _value(item, node.items, name, True) for key, item in value.items()}
        raise _wrong(name, f"is no {kind}")
    value = _plain(value, node, name)
    # The text of a whole field's value is made by its column.
    return float_value(value) if inside and isinstance(value, float) else value


def _branch(value: Any, node: Node, name: str, inside: bool) -> Any:
    """A union's value, which is named by its type unless it is null: {"long": 1}."""
    if value is None:
        if all(branch.kind != "null" for branch in node.branches):
            raise _wrong(name, "is null, and its union has no null")
        return None
    branch_name = next(iter(value)) if isinstance(value, dict) and len(value) == 1 else ""
    # Some writers leave the namespace out; the full name goes before that.
    for named in (_full_name, _last_name, _kind):
        for branch in node.branches:
            if branch_name and branch.kind != "null" and named(branch) == branch_name:
                return _value(value[branch_name], branch, name, inside)
    raise _wrong(name, "is of no type of its union")


def _full_name(node: Node) -> str:
    return node.name or node.kind


def _last_name(node: Node) -> str:
    return node.name.rpartition(".")[2]


def _kind(node: Node) -> str:
    return node.kind


def _plain(value: Any, node: Node, name: str) -> Any:
    kind = node.kind
    if kind in _INTEGERS:
        bits = _INTEGERS[kind]
        good = type(value) is int and -(1 << bits) <= value < 1 << bits
    elif kind in ("float", "double"):
        value = _FLOATS.get(value) if isinstance(value, str) else _float(value, kind, name)
        good = value is not None
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


def _float(value: Any, kind: str, name: str) -> float | None:
    """The float of a JSON number, None for anything else."""
    if type(value) not in (int, _Digits):
        return None
    text = str(value) if type(value) is int else value.text
    try:
        number = exact_float(text)
        return exact_float32(number) if kind == "float" else number
    except OverflowError:
        raise _wrong(name, f"is out of the range of a {kind}") from None
    except ValueError:
        raise _wrong(name, f"({shown(text)}) is not exactly a {kind}") from None


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
