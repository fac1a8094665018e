"""The known-table way of `debezium-avro`: from Avro to the images of a row, without JSON between.

What a column's type means is decided by the plan that the JSON of an event of the same schema led
to; here it is compiled for Avro's values. Whatever does not fit raises an error or gives None, and
takes the exact way, which looks at everything and says what is wrong.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw

from waybill.avro.column_forms import TEXTS, counted, integers
from waybill.avro.reading import Leaf, Maker, Reader, row_reader
from waybill.avro.repeated_values import block_reader, pair_reader
from waybill.avro.schema import Node, without_null
from waybill.envelopes.debezium.control_events import COUNTS, TIMES
from waybill.envelopes.debezium.source import CHANGING, Source
from waybill.envelopes.debezium.values import texts as text_values
from waybill.errors import Refusal
from waybill.types import INTEGER_RANGE
from waybill.values.generated import function
from waybill.values.values import base64_bytes, base64_text, float32_value, float64_value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from waybill.envelopes.debezium.row_readers import RowPlan
    from waybill.envelopes.debezium.values.readings import ColumnReading

_SOURCE = {field.name: field.type for field in msgspec.structs.fields(Source)}
_SAMPLES: dict[str, Any] = {
    "int": 0,
    "long": 0,
    "string": "",
    "enum": "",
    "boolean": False,
    "float": 0.5,
    "double": 0.5,
    "bytes": b"",
    "fixed": b"",
}
_RANGES = {"int": 2**31, "long": 2**63}
_NUMBERS = frozenset({*_RANGES, "string"})
_to_json = msgspec.json.Encoder().encode


class AvroEvents:
    """Reads the row events of one table in one Avro schema.

    Args:
        node: the schema of their values.
        plan: what the schema decides about the rows.

    Attributes:
        plan: the plan.
        rows: for `before` and `after`, as far as the schema has them, the record and how each of
            its fields becomes text.
        read: from data, position and end to an event and the position behind it. The event is
            a tuple: the row before, the row after, the `source` block with the attributes of
            `Source`, `op`, the id in the block `transaction`, whether there is such a block, and
            everything but the rows, to be written as it was sent. Raises one of `READ_ERRORS` or a
            Refusal for data that is none of the schema or holds a value that is none of its type.

    Raises:
        ValueError: the schema has another shape than row events have.
    """

    def __init__(self, node: Node, plan: RowPlan) -> None:
        self.plan = plan
        self.rows: dict[str, tuple[Node, list[Leaf | None]]] = {}
        names = [field.name for field in node.fields]
        if not {"after", "source", "op"} <= set(names):
            raise ValueError("no envelope of row events")
        place = {name: f"v{i}" for i, name in enumerate(names)}
        others = [name for name in names if name not in ("before", "after")]
        transaction = place.get("transaction", "None")
        parts = [
            place.get("before", "None"),
            place["after"],
            place["source"],
            place["op"],
            _transaction_id(node, transaction),
            f"{transaction} is not None",
            f"Others({', '.join(place[name] for name in others)})",
        ]
        maker = Maker()
        maker.scope["Others"] = _others(others)
        lines: list[str] = []
        for i, field in enumerate(node.fields):
            inner = without_null(field.node)
            _check_field(field.name, field.node)
            if field.name == "source":
                maker.know(inner, _source_reader(inner))
            elif field.name in ("before", "after"):
                row = _row(inner, plan, whole=field.name == "after")
                self.rows[field.name] = inner, row[0]
                if names[i : i + 2] == ["before", "after"] and _same_record(node, i):
                    maker.scope["rows"] = pair_reader(field.node, node.fields[i + 1].node, *row)
                    lines.append(f"v{i}, v{i + 1}, p = rows(d, p, e)")
                    continue
                if names[i - 1 : i + 1] == ["before", "after"] and _same_record(node, i - 1):
                    continue
                maker.know(inner, row_reader(inner, *row))
            lines += maker.value(field.node, f"v{i}")
        self.read = maker.compile("event", [*lines, f"return ({', '.join(parts)}), p"])


def _check_field(name: str, node: Node) -> None:
    """Leave fields of the envelope to their JSON where that may be refused for their type."""
    if name == "op" and node.kind != "string":
        raise ValueError("op is no text")
    if name in TIMES and without_null(node).kind not in _RANGES:
        raise ValueError(f"{name} is no integer")


class KeyColumns:
    """Reads the message keys of one table in one Avro schema.

    Args:
        node: the schema of the keys, a record.
        plan: what is decided about the rows.

    Attributes:
        node: the schema.
        leaves: for each field of the key how its value becomes the text of its column; None for
            one that tells no column.
        read: from data, position and end to the values that tell columns, and the position behind.
        of_row: the same values of an image of the row.

    Raises:
        ValueError: a field is none that its column could be.
    """

    def __init__(self, node: Node, plan: RowPlan) -> None:
        self.node = node
        names = [field.name for field in node.fields]
        if not set(plan.stated_key) <= set(names):
            raise ValueError("the plan is of another schema")
        self.leaves: list[Leaf | None] = [
            _leaf(without_null(field.node), plan.columns[field.name])
            if field.name in plan.stated_key
            else None
            for field in node.fields
        ]
        values = "".join(f"v{names.index(name)}, " for name in plan.stated_key)
        self.read = row_reader(node, self.leaves, f"({values})", {})
        own = "".join(f"i.f{plan.schema.names.index(name)}, " for name in plan.stated_key)
        self.of_row: Callable[[Any], Any] = function("of_row(i)", [f"return ({own})"], {})


def _others(names: list[str]) -> type[Any]:
    """The struct of what is carried on."""
    fields = [f"f{i}" for i in range(len(names))]
    rename = dict(zip(fields, names, strict=True))
    return msgspec.defstruct("Others", [(f, Any) for f in fields], rename=rename, gc=False)


def _source_reader(node: Node) -> Reader:
    """Reads source blocks: the fields that are known have their names, missing ones are None."""
    if node.kind != "record":
        raise ValueError("the source is no record")
    names = [field.name for field in node.fields]
    for field in node.fields:
        if field.name in _SOURCE:
            # What the JSON of the block would be refused for is left to that.
            msgspec.convert(_SAMPLES[without_null(field.node).kind], _SOURCE[field.name])
    fields = {name if name in _SOURCE else f"f{i}": name for i, name in enumerate(names)}
    struct = msgspec.defstruct(
        "Source",
        [(field, Any) for field in fields],
        rename=fields,
        namespace={name: None for name in _SOURCE if name not in fields},
        gc=False,
    )
    values = ", ".join(f"v{i}" for i in range(len(names)))
    return block_reader(node, CHANGING, f"Source({values})", {"Source": struct})


def _transaction_id(node: Node, block: str) -> str:
    """The expression of the id in a transaction block, which is in the variable `block`."""
    for field in node.fields:
        if field.name != "transaction":
            continue
        record = without_null(field.node)
        names = [inner.name for inner in record.fields]
        kinds = {inner.name: without_null(inner.node).kind for inner in record.fields}
        if any(kinds.get(name, "long") not in _NUMBERS for name in COUNTS):
            raise ValueError("a place in a transaction is no integer")
        if record.kind != "record" or "id" not in names:
            break
        if kinds["id"] != "string":
            raise ValueError("a transaction's id is no text")
        return f"None if {block} is None else {block}.f{names.index('id')}"
    return "None"


# Rows


def _same_record(node: Node, i: int) -> bool:
    """Whether a field and the next one are records of one type."""
    one, other = (without_null(field.node) for field in node.fields[i : i + 2])
    return one is other


def _row(node: Node, plan: RowPlan, whole: bool) -> tuple[list[Leaf | None], str, dict[str, Any]]:
    """How the columns of a row become texts, the expression of its image, and what that calls.

    Only the row before may lack columns.
    """
    if node.kind != "record":
        raise ValueError("rows are no records")
    places = {field.name: i for i, field in enumerate(node.fields)}
    if not places.keys() <= plan.columns.keys():
        raise ValueError("the plan is of another schema")
    if whole and len(places) < len(plan.columns):
        raise ValueError("the row after lacks columns")
    leaves: list[Leaf | None] = [
        _leaf(without_null(field.node), plan.columns[field.name]) for field in node.fields
    ]
    values = [f"v{places[name]}" if name in places else "UNSET" for name in plan.columns]
    return leaves, f"Image({', '.join(values)})", {"Image": plan.schema.Image}


def _leaf(node: Node, reading: ColumnReading) -> Leaf:
    """How a column's value in Avro becomes what its JSON would."""
    convert, kind = reading.convert, node.kind
    if reading.raw:
        return _of_raw(kind, reading)
    if kind in _RANGES and convert is not None:
        leaf = _integer(kind, reading, convert)
        if leaf is not None:
            return leaf
    if kind in ("string", "enum") and _takes("", reading.wire):
        text = TEXTS if convert is None else reading.texts
        form = text if kind == "string" else None
        return Leaf(convert, mark=_only(reading.marks), column=form)
    if kind in ("bytes", "fixed") and _takes("", reading.wire):
        mark = _only([data for data in map(_bytes_of, reading.marks) if data is not None])
        if convert is None or convert is text_values.base64_checked:
            return Leaf(base64_text, mark=mark)
        return Leaf(lambda data: convert(base64_text(data)), mark=mark)
    if kind == "boolean" and convert is not None and _takes(False, reading.wire):
        return Leaf(convert)
    return _by_json(reading)


def _integer(kind: str, reading: ColumnReading, convert: Callable[[int], Any]) -> Leaf | None:
    """The same for integers; None where the JSON type takes other ones than it should."""
    wire, end = reading.wire, _RANGES[kind]
    if _takes(-end, wire) and _takes(end - 1, wire):
        if reading.quick == "str":
            return Leaf(integer=True)
        form = reading.counts
        return Leaf(convert, column=None if form is None else counted(form))
    if reading.type.is_integer:
        low, high = INTEGER_RANGE[reading.type.kind]
        if _takes(low, wire) and _takes(high, wire):
            form = integers(low, high) if reading.quick == "str" else None
            return Leaf(_ranged(convert, low, high), column=form)
    return None


def _ranged(convert: Callable[[int], str], low: int, high: int) -> Callable[[int], str]:
    def read(value: int) -> str:
        if not low <= value <= high:
            raise ValueError(f"{value} is out of range")
        return convert(value)

    return read


def _of_raw(kind: str, reading: ColumnReading) -> Leaf:
    """A conversion that takes JSON text."""
    convert = reading.convert
    if convert is None or convert(Raw(b"null")) is not None:
        raise ValueError("null is a value")
    known = _FLOATS.get(convert)
    if known is not None and known[0] == kind:
        return Leaf(known[1])
    return Leaf(lambda value: convert(Raw(_to_json(value))), structure=True)


def _by_json(reading: ColumnReading) -> Leaf:
    """The way of a value whose Avro type is not one that its JSON usually comes from."""
    decode = msgspec.json.Decoder(reading.wire).decode
    convert, marks = reading.convert, reading.marks
    if convert is None:
        raise ValueError("only a text is its own text")

    def read(value: Any) -> Any:
        parsed = decode(_to_json(value))
        return UNSET if parsed in marks else convert(parsed)

    return Leaf(read, structure=True)


@lru_cache(maxsize=50_000)
def _float32_of(value: float) -> str:
    # The shortest digits are searched for, and measurements repeat.
    return float32_value(value)


def _float32(value: float) -> str:
    return _float32_of(value) if value else float32_value(value)  # a cache takes -0.0 for 0.0


_FLOATS: dict[Any, tuple[str, Callable[[Any], str]]] = {
    text_values.float64_raw: ("double", float64_value),
    text_values.float32_raw: ("float", _float32),
}


def _only(marks: Sequence[Any]) -> Any:
    """The placeholder of a column.

    Raises:
        ValueError: there are several.
    """
    if len(marks) > 1:
        raise ValueError("a column has several placeholders")
    return marks[0] if marks else None


def _bytes_of(mark: str) -> bytes | None:
    """The bytes whose Base64 is a placeholder; None where there are none."""
    try:
        data = base64_bytes(mark)
    except (ValueError, Refusal):
        return None
    return data if base64_text(data) == mark else None


def _takes(value: Any, wire: Any) -> bool:
    try:
        msgspec.convert(value, wire)
    except msgspec.ValidationError:
        return False
    return True
