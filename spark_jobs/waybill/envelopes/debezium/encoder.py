"""Writes Debezium JSON messages, with and without inline schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw

from waybill.caches import Bounded
from waybill.envelopes.database_kinds import count_kind
from waybill.envelopes.debezium.control_events import CONTROL, EXTRA, LEFT, MOVED
from waybill.envelopes.debezium.envelope_blocks import (
    Blocks,
    Shape,
    block_types,
    shape_check,
    shape_of,
)
from waybill.envelopes.debezium.row_writers import TablePlan, to_json
from waybill.envelopes.snapshot_rows import in_order
from waybill.errors import Refusal
from waybill.protocol import Encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from waybill.envelopes.debezium.settings import DebeziumWriteSettings
    from waybill.records import Change, TableSchema

ROWS = {"read": "r", "insert": "c", "upsert": "c", "update": "u", "delete": "d"}
"""`op` of operations of rows."""
_CAPABILITY = {"begin": "transactions", "commit": "transactions", "rollback": "transactions"}
_EXTRA_LENGTH = len(EXTRA)
_NULL = b"null"


class _Left(msgspec.Struct):
    """`extra` of the delete that Debezium wrote for the old key of a key change."""

    debezium_newkey: Raw
    debezium: Raw


class _Named(msgspec.Struct):
    prefix: str | None = None


class _LogMessage(msgspec.Struct):
    """A logical message, as far as its key depends on it."""

    message: _Named | None = None


class _TableEncoder(TablePlan):
    """A table with the blocks that surround its rows."""

    def __init__(self, schema: TableSchema, settings: DebeziumWriteSettings) -> None:
        super().__init__(schema, settings)
        self.blocks = Blocks(schema, settings).of
        self._shape: Shape = ()
        self._same_shape: Callable[[bytes], Any] | None = None
        self._schemas: dict[tuple[int, ...], bytes] = {}
        # Without a schema a reader sees JSON's own types only, and of a null none at all.
        self.hides_types = not settings.schemas and any(
            column.type.kind != "unknown" for column in schema.columns
        )

    def envelope_schema(self, left_out: tuple[int, ...], fields: bytes) -> bytes:
        """The schema of a message, made once for every shape that occurs.

        Args:
            left_out: columns that the after image does not have.
            fields: the fields of the envelope besides its images.
        """
        block = b"".join((b"{", fields, b"}"))
        try:
            same = self._same_shape is not None and self._same_shape(block) is not None
        except ValueError:
            same = False
        if not same:
            self._shape = shape_of(block)
            self._same_shape = shape_check(self._shape)
            self._schemas = {}
        schema = self._schemas.get(left_out)
        if schema is None:
            rows = [self.row_schema("before"), self.row_schema("after", left_out)]
            types = [*rows, *block_types(self._shape)]
            name = f"{self.name}.Envelope"
            schema = self._schemas[left_out] = to_json(
                {"type": "struct", "fields": types, "optional": False, "name": name, "version": 2}
            )
        return schema


class DebeziumEncoder:
    """Writes messages of the envelope `debezium-json`.

    Args:
        settings: how to write.
    """

    def __init__(self, settings: DebeziumWriteSettings) -> None:
        self.settings = settings
        self._tables: Bounded[TableSchema, _TableEncoder] = Bounded()

    def encode(self, change: Change, losses: list[str]) -> list[Encoded]:
        """The messages of one change: one, or more for deletes and changes of the key.

        Raises:
            Refusal: kind `encoding`; a value has no exact notation, or a row its operation needs
                is missing.
        """
        count_kind(change, losses)
        try:
            if change.operation not in ROWS:
                return self._without_row(change, losses)
            return self._with_row(change, losses)
        except Refusal as refusal:
            if refusal.kind == "encoding":
                raise
            raise Refusal("encoding", refusal.sentence) from None

    def _with_row(self, change: Change, losses: list[str]) -> list[Encoded]:
        table = self._table(change.schema)
        if table.hides_types:
            losses.append("types")
        extra = change.extra
        op = ROWS[change.operation]
        if extra is not None and extra.startswith(EXTRA):
            fields = extra[_EXTRA_LENGTH:-2]
        elif extra is not None and extra.startswith((MOVED, LEFT)):
            return self._half_of_move(change, table, extra)
        else:
            change = in_order(change, losses)
            op = ROWS[change.operation]
            if change.moved_apart:
                return [self._under_new_key(change, table, table.blocks(change, "c"))]
            fields = table.blocks(change, op)
        if op == "d":
            return self._deleted(table, change.before, fields, None)
        if op == "u" and self._moves(table, change):
            losses.append("key_change")
            return self._moved(table, change, fields)
        return [self._row(table, op, change.before, change.after, fields, None)]

    def _table(self, schema: TableSchema) -> _TableEncoder:
        table = self._tables.get(schema)
        if table is None:
            table = self._tables[schema] = _TableEncoder(schema, self.settings)
        return table

    # Rows

    def _row(
        self,
        table: _TableEncoder,
        op: str,
        before: Any,
        after: Any,
        fields: bytes,
        headers: list[tuple[str, bytes | None]] | None,
    ) -> Encoded:
        """One row event."""
        if after is None and op != "d":
            raise Refusal("encoding", f"an op {op} without a row after the change")
        table.check_nulls(before, after)
        old_row = new_row = None
        old = new = _NULL
        try:
            if before is None:
                new_row = table.after(after)
                new = to_json(new_row)
            elif after is None:
                old_row = table.before(before)
                old = to_json(old_row)
            else:
                old_row, new_row = table.both(before, after)
                old, new = to_json(old_row), to_json(new_row)
        except (ValueError, ArithmeticError, RecursionError, Refusal) as error:
            raise table.explain((after, before), error) from None
        value = b'{"before":%b,"after":%b,%b}' % (old, new, fields)
        if self.settings.schemas:
            value = self._wrapped(table, value, after, fields)
        key = None
        if table.key_of_row is not None:
            key = self._key(table, table.key_of_row(old_row if op == "d" else new_row))
        return Encoded(key, value, headers)

    def _key(self, table: _TableEncoder, key: Any) -> bytes:
        if key is None:
            raise Refusal("encoding", "a key column is not in the row, so there is no message key")
        written = to_json(key)
        if self.settings.schemas:
            return b"".join((b'{"schema":', table.key_schema, b',"payload":', written, b"}"))
        return written

    def _wrapped(self, table: _TableEncoder, payload: bytes, after: Any, fields: bytes) -> bytes:
        """A message with its schema."""
        left_out: tuple[int, ...] = ()
        if after is not None and table.lacks(after):
            left_out = tuple(
                i
                for i, stand_in in enumerate(table.stand_ins)
                if stand_in is UNSET and getattr(after, f"f{i}") is UNSET
            )
        schema = table.envelope_schema(left_out, fields)
        return b"".join((b'{"schema":', schema, b',"payload":', payload, b"}"))

    # Deletes and changes of the key

    def _deleted(
        self,
        table: _TableEncoder,
        before: Any,
        fields: bytes,
        headers: list[tuple[str, bytes | None]] | None,
    ) -> list[Encoded]:
        if before is None:
            raise Refusal("encoding", "a delete without a row before the change")
        deleted = self._row(table, "d", before, None, fields, headers)
        if deleted.key is None or not self.settings.tombstones:
            return [deleted]
        return [deleted, self._tombstone(deleted, headers)]

    def _tombstone(
        self, deleted: Encoded, headers: list[tuple[str, bytes | None]] | None
    ) -> Encoded:
        return Encoded(deleted.key, None, headers)

    def _moves(self, table: _TableEncoder, change: Change) -> bool:
        """Whether an update gives the row another key."""
        if change.moved_from is not None:
            return True
        return (
            change.before is not None
            and table.key_of_row is not None
            and bool(table.key_changed(change.before, change.after))
        )

    def _moved(self, table: _TableEncoder, change: Change, fields: bytes) -> list[Encoded]:
        """A change of the key as Debezium writes it: delete, tombstone, insert."""
        old_key, new_key = change.old_key_image(), change.key_image()
        if old_key is None:
            raise Refusal("encoding", "the old key of a changed key is not complete")
        before = change.before
        old, new = self._header_key(table, old_key), self._header_key(table, new_key)
        headers: list[tuple[str, bytes | None]] = [("__debezium.newkey", new)]
        messages = self._deleted(table, before, _with_op(fields, b"d"), headers)
        headers = [("__debezium.oldkey", old)]
        inserted = self._row(table, "c", None, change.after, _with_op(fields, b"c"), headers)
        return [*messages, inserted]

    def _header_key(self, table: _TableEncoder, key: Any) -> bytes:
        table.check_key(key)
        try:
            return self._key(table, table.key_of_key(key))
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise Refusal("encoding", f"a key cannot be written: {error}") from None

    def _half_of_move(self, change: Change, table: _TableEncoder, extra: bytes) -> list[Encoded]:
        """One of the two events that Debezium made of a change of the key."""
        if extra.startswith(MOVED):
            return [self._under_new_key(change, table, extra[len(MOVED) : -2])]
        left = msgspec.json.decode(extra, type=_Left)
        new_key = msgspec.json.decode(left.debezium_newkey, type=change.schema.Key)
        headers: list[tuple[str, bytes | None]] = [
            ("__debezium.newkey", self._header_key(table, new_key))
        ]
        fields = bytes(left.debezium)[1:-1]
        return self._deleted(table, change.before, fields, headers)

    def _under_new_key(self, change: Change, table: _TableEncoder, fields: bytes) -> Encoded:
        """The row that a change of the key left, whose source removes the old key by an event."""
        old = self._header_key(table, change.moved_from)
        headers: list[tuple[str, bytes | None]] = [("__debezium.oldkey", old)]
        return self._row(table, "c", None, change.after, fields, headers)

    # Without a row

    def _without_row(self, change: Change, losses: list[str]) -> list[Encoded]:
        operation, extra = change.operation, change.extra
        table = self._table(change.schema)
        if operation == "truncate" and self.settings.truncates:
            ours = extra is not None and extra.startswith(EXTRA)
            fields = extra[_EXTRA_LENGTH:-2] if ours and extra else table.blocks(change, "t")
            value = b'{"before":null,"after":null,' + fields + b"}"
            if self.settings.schemas:
                value = self._wrapped(table, value, None, fields)
            return [Encoded(None, value)]
        payload = None
        if self.settings.control_messages and operation != "truncate":
            if extra is not None and extra.startswith(CONTROL):
                payload = extra[len(CONTROL) : -1]
            else:
                payload = self._control(change, table)
                if payload is not None and operation != "ddl":
                    losses += _lost_without_source(change)
        if payload is None:
            losses.append(_CAPABILITY.get(operation, operation))
            return []
        key = to_json(_control_key(change, payload, self.settings))
        if self.settings.schemas:
            # These have no table whose schema is known: a null schema is a map to readers.
            key, payload = _schemaless(key), _schemaless(payload)
        return [Encoded(key, payload)]

    def _control(self, change: Change, table: _TableEncoder) -> bytes | None:
        """A message of another envelope's change without a row, None where there is no word."""
        schema, operation = change.schema, change.operation
        millis = change.message.timestamp
        if change.source_time is not None:
            millis = change.source_time // 1000
        if operation == "heartbeat":
            return to_json({"ts_ms": millis})
        if operation in ("begin", "commit") and change.transaction is not None:
            status = "BEGIN" if operation == "begin" else "END"
            fields = {"status": status, "id": change.transaction, "ts_ms": millis}
            return to_json({**fields, "event_count": None, "data_collections": None})
        if operation == "ddl":
            fields = {"databaseName": schema.database, "schemaName": schema.schema}
            tail = to_json({**fields, "ddl": change.ddl_text, "tableChanges": []})
            return b"{" + table.blocks(change, None) + b"," + tail[1:]
        return None


def _lost_without_source(change: Change) -> Iterator[str]:
    """What messages about transactions and heartbeats give up: they have no block `source`."""
    if change.sequence is not None:
        yield "sequence_id"
    if change.source_time is None or change.source_time % 1000:
        yield "source_time"


def _with_op(fields: bytes, op: bytes) -> bytes:
    """The fields of an envelope with another `op`; quotes in texts are escaped, so this is it."""
    at = fields.rindex(_OP) + len(_OP)
    return fields[:at] + op + fields[at + 1 :]


_OP = b'"op":"'


def _schemaless(payload: bytes) -> bytes:
    return b'{"schema":null,"payload":' + payload + b"}"


def _control_key(change: Change, payload: bytes, settings: DebeziumWriteSettings) -> dict[str, Any]:
    """The message key that Debezium gives a message without a row."""
    if change.operation == "heartbeat":
        return {"serverName": settings.name}
    if change.operation in ("begin", "commit"):
        return {"id": change.transaction}
    if change.operation == "ddl":
        return {"databaseName": change.schema.database or ""}
    parsed = msgspec.json.decode(payload, type=_LogMessage)
    return {"prefix": None if parsed.message is None else parsed.message.prefix}
