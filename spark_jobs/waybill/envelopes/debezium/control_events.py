"""Messages of Debezium without a row: schema changes, transactions, heartbeats, log messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from waybill.envelopes.debezium.source import (
    Long,
    Millis,
    Source,
    is_snapshot,
    sequence_of,
    source_time,
)
from waybill.errors import Refusal
from waybill.records import NO_TABLE, Change, Message, TableSchema, intern_schema
from waybill.values.values import in_one_line, json_refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

CONTROL = b'{"debezium_message":'
"""How `extra` of a change without a row begins; the message's own JSON follows."""

EXTRA = b'{"debezium":{'
MOVED = b'{"debezium_oldkey":true,"debezium":{'
LEFT = b'{"debezium_newkey":'
"""How `extra` begins: of a row, of the insert and of the delete of a change of the key. What
follows are the fields of the envelope besides its images, as they were sent."""

TIMES = ("ts_ms", "ts_us", "ts_ns")
"""When the connector made a message, as newer versions count it three times."""
_TIMES = frozenset(TIMES)

FLATTENED = (
    "the message is no Debezium envelope; flattened records (ExtractNewRecordState) have no "
    "envelope: read the topic without that transformation"
)


_NULL = Raw(b"null")
_time = msgspec.json.Decoder(Long | None).decode


Number = Long | str | None
"""A count that is only carried on; Debezium's documentation shows some as texts."""


class TransactionBlock(msgspec.Struct, gc=False):
    """What an envelope says of its transaction."""

    id: str | None = None
    total_order: Number = None
    data_collection_order: Number = None


COUNTS = ("total_order", "data_collection_order")
"""The place of an event in its transaction, of all events and of those of its table."""

_block = msgspec.json.Decoder(TransactionBlock | None).decode


def before_nothing(op: str) -> str:
    """What is wrong with an event of a new row that tells one before it."""
    return f"op {op!r} with a row in `before`, which an inserted row has not"


def check_envelope(fields: Mapping[str, Raw]) -> None:
    """Refuse (kind `shape`) an envelope whose numbers are no integers: targets carry them on.

    Args:
        fields: the names of the envelope, values untouched.
    """
    _check_times(fields)
    try:
        _block(fields.get("transaction", _NULL))
    except msgspec.ValidationError as error:
        raise Refusal("shape", f"the transaction of the envelope: {error}") from None


def _check_times(fields: Mapping[str, Raw]) -> None:
    for name in TIMES:
        if name in fields:
            try:
                _time(fields[name])
            except ValueError:
                shown = bytes(fields[name])[:60].decode(errors="replace")
                sentence = f"{name} of the envelope is {shown}, not an integer of 64 bits"
                raise Refusal("shape", sentence) from None


class _Made(msgspec.Struct):
    """When a message was made."""

    ts_ms: Millis | None = None
    ts_us: Long | None = None
    ts_ns: Long | None = None


class _SchemaChange(_Made):
    """A message of the schema-change topic."""

    databaseName: str | None = None
    schemaName: str | None = None
    ddl: str | None = None
    source: Source | None = None
    tableChanges: list[Raw] | None = None


class _Counted(msgspec.Struct):
    """How many events of one table a transaction has."""

    event_count: Number = None


class _Transaction(_Made, kw_only=True):
    """A message of the transaction topic."""

    status: str
    id: str
    event_count: Number = None
    data_collections: list[_Counted] | None = None


class _Logged(msgspec.Struct):
    """What a logical decoding message says."""

    prefix: str | None = None


class _LogMessage(_Made):
    """A logical decoding message (`op` m)."""

    source: Source | None = None
    message: _Logged | None = None


def control_change(message: Message, payload: bytes, fields: Mapping[str, Raw]) -> Change:
    """The change of a message that is no row event.

    Args:
        message: where it came from.
        payload: the JSON object without its schema.
        fields: the names in it.

    Raises:
        Refusal: it is none of Debezium's messages, or not as they should be.
    """
    try:
        if "op" in fields:
            _check_no_rows("op 'm'", fields)
            return _log_message(message, payload)
        if "ddl" in fields and _is_schema_change(fields):
            _check_no_rows("a schema change", fields)
            return _schema_change(message, payload)
        if "status" in fields and "id" in fields and _is_transaction(fields):
            return _transaction(message, payload)
        if fields and _TIMES.issuperset(fields):
            beat = msgspec.json.decode(payload, type=_Made)
            return _control("heartbeat", NO_TABLE, message, payload, source_time=_micros(beat))
    except ValueError as error:
        raise json_refusal(error) from None
    raise Refusal("shape", no_envelope(fields))


def no_envelope(fields: Mapping[str, Raw]) -> str:
    """Why a message without `op` is refused: it is of another envelope, or flattened."""
    for name, hint in _OTHERS.items():
        if hint <= fields.keys():
            sentence = f"the message is no Debezium envelope; its members are those of {name}"
            return f"{sentence}: `waybill detect` says which envelope a file is in"
    return FLATTENED


_OTHERS = {
    "canal or oms-canal": {"data", "old", "isDdl", "type"},
    "maxwell": {"database", "table", "type", "data"},
    "ogg": {"table", "op_type"},
    "dms": {"data", "metadata"},
    "oms-default or oms-extended": {"allMetaData", "recordType"},
    "oms-shareplex": {"data", "meta"},
    "databus-json": {"opcode", "srcId", "sequence"},
}
"""Members that messages of other envelopes of JSON have beside each other."""


def _check_no_rows(what: str, fields: Mapping[str, Raw]) -> None:
    """Refuse a message that tells of no row and holds one, which no one would see."""
    for name in ("before", "after"):
        if bytes(fields.get(name, _NULL)) != b"null":
            raise Refusal("shape", f"{what} with a row in `{name}`, which it cannot have")


def _is_schema_change(fields: Mapping[str, Raw]) -> bool:
    """A flattened row may have columns of these names, but no block that tells its source."""
    named = "databaseName" in fields or "tableChanges" in fields
    return named and bytes(fields.get("source", b""))[:1] == b"{"


_TRANSACTION = frozenset({"status", "id", "event_count", "data_collections", *TIMES})


def _is_transaction(fields: Mapping[str, Raw]) -> bool:
    counted = "event_count" in fields or "data_collections" in fields
    return counted and _TRANSACTION.issuperset(fields)


def _micros(parsed: Any) -> int | None:
    return None if parsed.ts_ms is None else parsed.ts_ms * 1000


def _control(
    operation: str, schema: TableSchema, message: Message, payload: bytes, **more: Any
) -> Change:
    payload.decode()
    extra = CONTROL + in_one_line(payload.strip()) + b"}"
    return Change(operation, schema, message, extra=extra, **more)


def _log_message(message: Message, payload: bytes) -> Change:
    parsed = msgspec.json.decode(payload, type=_LogMessage)
    source = parsed.source or Source()
    return _control(
        "other",
        NO_TABLE,
        message,
        payload,
        sequence=sequence_of(source),
        source_time=source_time(source),
        transaction=None if source.txId is None else str(source.txId),
    )


def _schema_change(message: Message, payload: bytes) -> Change:
    """One statement; the table is stated only where the statement concerns exactly one."""
    parsed = msgspec.json.decode(payload, type=_SchemaChange)
    source = parsed.source or Source()
    table = source.table or None
    if parsed.tableChanges is not None and len(parsed.tableChanges) > 1:
        table = None
    database = parsed.databaseName or source.db or None
    schema = parsed.schemaName or source.schema or None
    sequence = sequence_of(source)
    return _control(
        "ddl",
        intern_schema(database, schema, table),
        message,
        payload,
        ddl_text=parsed.ddl,
        sequence=sequence,
        full_row=is_snapshot(source) and sequence is None,
        source_time=source_time(source),
    )


def _transaction(message: Message, payload: bytes) -> Change:
    parsed = msgspec.json.decode(payload, type=_Transaction)
    operation = {"BEGIN": "begin", "END": "commit"}.get(parsed.status)
    if operation is None:
        raise Refusal("operation", f"a transaction message says {parsed.status[:40]!r}")
    return _control(
        operation, NO_TABLE, message, payload, source_time=_micros(parsed), transaction=parsed.id
    )
