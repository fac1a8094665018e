"""The blocks around the rows of a written message: source, transaction, times, their schemas."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from waybill import __version__
from waybill.envelopes.debezium.row_writers import to_json
from waybill.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.envelopes.debezium.settings import DebeziumWriteSettings
    from waybill.records import Change, TableSchema


LONGEST = 2**63 // 1000
"""Microseconds whose nanoseconds may not fit 64 bits, which is where the year 2262 is."""


class Blocks:
    """The fields after the rows for changes that come from another envelope.

    Times are the change's own or the message's, never the clock.

    Args:
        schema: the table.
        settings: those of the envelope.
    """

    def __init__(self, schema: TableSchema, settings: DebeziumWriteSettings) -> None:
        def text(value: str | None) -> bytes:
            return to_json(value).replace(b"%", b"%%")

        connector = settings.connector or ("mysql" if schema.dialect == "mysql" else "waybill")
        head = b'"source":{"version":%b,"connector":%b,"name":%b,"ts_ms":%%b' % (
            text(__version__),
            text(connector),
            text(settings.name),
        )
        database = b',"db":%b,"sequence":%%b' % text(schema.database or "")
        namespace = b"" if schema.schema is None else b',"schema":%b' % text(schema.schema)
        table = b'%b,"table":%b},"transaction":' % (namespace, text(schema.table))
        self._any = b'%b,"snapshot":"%%b"%b%%b%b%%b%%b,"ts_ms":%%b' % (head, database, table)
        # What nearly every change of a stream without transactions needs.
        twice = self._any.replace(b"%%", b"%%%%")
        self._usual = {
            op: twice
            % (
                *(b"%d", b"false", b"%b", b',"ts_us":%d,"ts_ns":%d000'),
                *(b"null", _OPS[op], b"%d"),
            )
            for op in "cud"
        }

    def of(self, change: Change, op: str | None) -> bytes:
        """Source, transaction, op and time of a change, as the fields of a JSON object."""
        micros, millis = change.source_time, change.message.timestamp
        sequence, transaction, times, parts = (
            b"null",
            b"null",
            b"null",
            b',"ts_us":null,"ts_ns":null',
        )
        if change.sequence:
            sequence = _sequence_form(len(change.sequence)) % change.sequence
        if micros:
            if millis is None:
                millis = micros // 1000
            fits = -LONGEST < micros < LONGEST
            plain = change.transaction is None and change.operation != "read"
            if fits and plain and op in self._usual:
                return self._usual[op] % (micros // 1000, sequence, micros, micros, millis)
            nanos = b"%d000" % micros if fits else b"null"
            times, parts = b"%d" % (micros // 1000), b',"ts_us":%d,"ts_ns":%b' % (micros, nanos)
        elif micros == 0:
            times, parts, millis = b"0", b',"ts_us":0,"ts_ns":0', millis or 0
        if change.transaction is not None:
            transaction = b'{"id":%b,"total_order":null,"data_collection_order":null}' % to_json(
                change.transaction
            )
        return self._any % (
            times,
            b"true" if change.operation == "read" else b"false",
            sequence,
            parts,
            transaction,
            _OPS[op],
            b"null" if millis is None else b"%d" % millis,
        )


@cache
def _sequence_form(parts: int) -> bytes:
    """How a sequence id of so many numbers is written: as JSON's text of an array of texts."""
    return b'"[%b]"' % b",".join([b'\\"%d\\"'] * parts)


_OPS: dict[str | None, bytes] = {None: b"", **{op: b',"op":"%b"' % op.encode() for op in "crudt"}}

Shape = tuple[tuple[str, Any], ...]
"""Names of a block, each with its Connect type or the shape of what is inside."""


def shape_of(block: bytes) -> Shape:
    """What the schema of a JSON object of blocks depends on.

    Raises:
        Refusal: kind `encoding`; a Connect schema has no word for it.
    """
    try:
        shape = _shape(_decode(block))
        shape_check(shape)(block)
        return shape
    except (ValueError, RecursionError) as error:
        message = f"the blocks around the row cannot be described by a schema: {error}"
        raise Refusal("encoding", message) from None


# Only the type of a number matters here, not whether it fits a float.
_decode: Callable[[bytes], dict[str, Any]] = msgspec.json.Decoder(float_hook=float).decode


def _shape(block: dict[str, Any]) -> Shape:
    return tuple((name, _type(name, value)) for name, value in block.items())


def _type(name: str, value: Any) -> Any:
    known = _KNOWN.get(name)
    if known in ("int64", "int32") and value is not None and type(value) is not int:
        known = None  # a producer's own notation, which is carried on as it is
    return known or _kind(name, value)


def _kind(name: str, value: Any) -> Any:
    if type(value) is dict:
        return _shape(value)
    if type(value) is list and not all(item is None or type(item) is str for item in value):
        raise ValueError(f"{name} is an array of something else than texts")
    return _KINDS[type(value)]


@lru_cache(maxsize=1_000)
def shape_check(shape: Shape) -> Callable[[bytes], Any]:
    """A function that raises ValueError for JSON of another shape; fast where it is the same."""
    check: Callable[[bytes], Any] = msgspec.json.Decoder(_shape_struct(shape)).decode
    return check


def _shape_struct(shape: Shape) -> type[Any]:
    try:
        return msgspec.defstruct(
            "Block",
            [(f"f{i}", _checked_type(kind)) for i, (_, kind) in enumerate(shape)],
            rename={f"f{i}": name for i, (name, _) in enumerate(shape)},
            forbid_unknown_fields=True,
            gc=False,
        )
    except ValueError as error:
        raise Refusal("encoding", f"a name of the envelope cannot be written: {error}") from None


def _checked_type(kind: Any) -> Any:
    return _shape_struct(kind) if isinstance(kind, tuple) else _JSON_TYPES[kind]


def block_types(shape: Shape) -> list[dict[str, Any]]:
    """The Connect types of the fields of blocks."""
    return [_field(name, kind) for name, kind in shape]


def _field(name: str, kind: Any) -> dict[str, Any]:
    if name in _FIXED:
        return _FIXED[name]
    if isinstance(kind, tuple):
        fields = block_types(kind)
        return {"type": "struct", "fields": fields, "optional": name != "source", "field": name}
    field = {"type": kind, "optional": True, "field": name}
    if kind == "array":
        field["items"] = {"type": "string", "optional": True}
    return field


_KNOWN = {
    **dict.fromkeys(("ts_ms", "ts_us", "ts_ns", "server_id", "pos", "thread"), "int64"),
    **dict.fromkeys(("txId", "lsn", "xmin", "origin_lsn", "event_serial_no"), "int64"),
    **dict.fromkeys(("total_order", "data_collection_order"), "int64"),
    "row": "int32",
    "transaction": "struct",
    "op": "string",
}
"""Fields that may be null, so that their value does not show their type."""
_KINDS: dict[type, str] = {
    str: "string",
    type(None): "string",
    int: "int64",
    bool: "boolean",
    float: "double",
    list: "array",
}


class _Transaction(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    id: str
    total_order: int | None = None
    data_collection_order: int | None = None


_JSON_TYPES: dict[str, Any] = {
    "string": str | None,
    "int64": int | None,
    "int32": int | None,
    "boolean": bool | None,
    "double": float | None,
    "array": list[str | None] | None,
    "struct": _Transaction | None,
}
_FIXED: dict[str, dict[str, Any]] = {
    "op": {"type": "string", "optional": False, "field": "op"},
    "transaction": {
        "type": "struct",
        "fields": [
            {"type": "string", "optional": False, "field": "id"},
            {"type": "int64", "optional": True, "field": "total_order"},
            {"type": "int64", "optional": True, "field": "data_collection_order"},
        ],
        "optional": True,
        "name": "event.block",
        "version": 1,
        "field": "transaction",
    },
}
