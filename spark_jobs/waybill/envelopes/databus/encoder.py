"""Changes as Databus events, whatever these are written in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal
from zlib import crc32

import msgspec

from waybill.caches import Bounded
from waybill.envelopes.database_kinds import count_kind
from waybill.envelopes.databus.decoder import (
    FULL,
    OPERATION_HEADER,
    SCHEMA_HEADER,
    TRANSACTION_HEADER,
)
from waybill.envelopes.databus.event import DELETE, END_OF_PERIOD, NO_TIME, UPSERT, Event, Part
from waybill.envelopes.databus.family import Carried, carried_of
from waybill.envelopes.databus.row_writers import (
    Present,
    RowWriter,
    made_writer,
    presence,
    registered_writer,
)
from waybill.envelopes.databus.rows import RowPlan
from waybill.envelopes.databus.schemas import schema_book
from waybill.envelopes.databus.settings import DatabusReadSettings
from waybill.envelopes.sequence.written import DATAWORKS_DIGITS, SIGNED, WrittenSequence
from waybill.errors import Refusal
from waybill.protocol import Encoded
from waybill.records import ROW_OPERATIONS, Change, key_of
from waybill.tables import TableRules
from waybill.types import INTEGER_RANGE

if TYPE_CHECKING:
    from waybill.envelopes.databus.settings import DatabusWriteSettings
    from waybill.records import TableSchema

LONG_RANGE = INTEGER_RANGE["int64"]
SHORTS = 1 << 15
VERSIONS = 1 << 16
"""Versions that fit the two bytes of an id."""
MAX_SHAPES = 1_000
"""How many tables, and sets of columns of a table, are kept at once."""
_LOST = {"truncate": "truncate", "ddl": "ddl", "heartbeat": "heartbeat", "other": "other"}
_TEXTS = frozenset({"string", "enum", "decimal", "number", "date"})

_json = msgspec.json.Encoder().encode
Frame = Callable[[list[Event]], bytes]


class _TableEncoder:
    """What a table decides for writing its changes."""

    def __init__(self, schema: TableSchema, encoder: EventEncoder) -> None:
        self.schema = schema
        self.present = presence(schema)
        self.writers: dict[tuple[Present, bool], RowWriter] = {}
        book = encoder.book
        self.by_version = book.by_version
        self.registered = book.by_table.get(schema.qualified_name) or book.by_table.get(
            schema.table or ""
        )
        self.losses: list[str] = []
        source = encoder.settings.sources.get(
            schema.qualified_name, encoder.settings.sources.get(schema.table or "")
        )
        if self.registered is not None:
            source = self.registered.source_id if source is None else source
            self.losses = _registered_losses(self.registered, schema)
        if source is None:
            source = (
                crc32(schema.qualified_name.encode("utf-8", "surrogatepass")) % (SHORTS - 1) + 1
            )
        self.source = source

    def version_id(self, source: int, order: Literal["little", "big"]) -> bytes:
        """The id of the table's schema where ids are versions, as those of REPL_DBUS are.

        Raises:
            Refusal: kind `encoding`; readers would not find the schema by source and version.
        """
        registered, name = self.registered, self.schema.qualified_name
        if registered is None or not 0 < registered.version < VERSIONS:
            message = (
                f"there is no schema with a version for {name}; put one under `schemas`, named "
                "by its source and version, or set `schema_ids: digest`"
            )
            raise Refusal("encoding", message)
        if self.by_version.get((source, registered.version)) is not registered:
            message = (
                f"version {registered.version} of the schema of {registered.source} is not known "
                f"for the source id {source} of {name}; name the source's id under `sources`"
            )
            raise Refusal("encoding", message)
        return registered.version.to_bytes(2, order).ljust(16, b"\0")

    def writer(self, image: Any, delete: bool) -> RowWriter:
        present = self.present(image)
        found = self.writers.get((present, delete))
        if found is None:
            if self.registered is None:
                found = made_writer(self.schema, present)
            else:
                found = registered_writer(self.registered, self.schema, present, delete)
            if len(self.writers) >= MAX_SHAPES:
                self.writers.clear()
            self.writers[present, delete] = found
        return found


def _registered_losses(registered: Any, schema: TableSchema) -> list[str]:
    """What readers of a registered schema take the table for that it is not."""
    read = RowPlan(registered, TableRules(), DatabusReadSettings()).schema
    types = {column.name: column.type for column in read.columns}
    lost = []
    if any(types.get(column.name) != column.type for column in schema.columns):
        lost.append("types")
    if (read.key or ()) != (schema.key or ()):
        lost.append("key_columns")
    if schema.schema is not None:
        lost.append("schema_name")
    return lost


class EventEncoder:
    """Turns changes into events and events into messages.

    Args:
        settings: those of the envelope.
        little: whether numbers are little-endian.
        lines: whether a message is one line of a file, so that it holds one event.
        json_values: whether values are Avro JSON.
        frame: makes the bytes of a message's events.
    """

    def __init__(
        self,
        settings: DatabusWriteSettings,
        frame: Frame,
        *,
        little: bool = False,
        lines: bool = False,
        json_values: bool = False,
    ) -> None:
        self.settings = settings
        self.version: int = settings.version
        self.ids = WrittenSequence(settings, DATAWORKS_DIGITS, SIGNED, positions=False)
        self.little = little
        self.lines = lines
        self.json_values = json_values
        self.frame = frame
        self.book = schema_book(settings.schemas, settings.sources)
        self._tables: Bounded[TableSchema, _TableEncoder] = Bounded()

    def encode(self, change: Change, losses: list[str]) -> list[Encoded]:
        """The messages of one change; two where a change gave the row another key."""
        count_kind(change, losses)
        if change.operation in ROW_OPERATIONS:
            change = self.ids.packed.as_own_message(change, losses)
        carried = carried_of(change.extra)
        if change.operation in ROW_OPERATIONS:
            return self._rows(change, carried, losses)
        if change.operation == "commit":
            return self._commit(change, carried, losses)
        if change.operation == "other" and carried is not None and carried.control:
            event = self._event(change, carried.opcode, carried.source, losses, carried)
            key = carried.event_key(self.version)
            event.key = 0 if key is None else key
            event.digest, event.schema_version, event.value = carried.value_part(self.version)
            return [Encoded(None, self.frame([event]), None)]
        losses.append(_LOST.get(change.operation, "transactions"))
        return []

    # Rows

    def _rows(self, change: Change, carried: Carried | None, losses: list[str]) -> list[Encoded]:
        table = self._tables.get(change.schema)
        if table is None:
            table = self._tables[change.schema] = _TableEncoder(change.schema, self)
        before, after = change.before, change.after
        losses += table.losses
        if change.operation == "delete" or after is None:
            if before is None:
                raise Refusal("encoding", f"there is no row to write for this {change.operation}")
            return self._row(change, table, before, True, carried, losses)
        old_key = change.old_key_image()
        if old_key is None:
            if before is not None:
                losses.append("before_image")
            return self._row(change, table, after, False, carried, losses)
        # There is no word for a change of the key: the old row leaves, the new one comes.
        losses.append("key_change")
        counted: list[str] = []
        return [
            *self._row(change, table, before, True, None, counted, closes=False),
            *self._row(change, table, after, False, None, losses),
        ]

    def _row(
        self,
        change: Change,
        table: _TableEncoder,
        image: Any,
        delete: bool,
        carried: Carried | None,
        losses: list[str],
        closes: bool = True,
    ) -> list[Encoded]:
        source = table.source if carried is None else carried.source
        event = self._event(change, DELETE if delete else UPSERT, source, losses, carried)
        writer = table.writer(image, delete)
        if writer.missing:
            losses.append("before_image")
        try:
            value = writer.write(image)
        except Refusal as refusal:
            raise writer.named(image, refusal) from None
        event.value = writer.to_json(value) if self.json_values else value
        event.digest, event.schema_version = writer.digest, writer.version
        if self.settings.schema_ids == "version":
            event.digest = table.version_id(source, "little" if self.little else "big")
        elif carried is not None and carried.schema_ids == "version":
            losses.append("other")
        event.json_value = self.json_values
        try:
            key = key_of(change.schema, image)
        except Refusal as refusal:
            raise Refusal("encoding", refusal.sentence) from None
        given = None if carried is None else carried.event_key(self.version)
        event.key = _event_key(change.schema, key) if given is None else given
        headers = self._headers(change, event, writer, table, delete, carried, losses) or None
        message_key = None if key is None else _json(key)
        # Of an event whose window was read its end comes too; of others it is known to nobody.
        own = carried is not None and change.transaction == str(event.sequence)
        if not closes or own or self.settings.windows != "message":
            return [Encoded(message_key, self.frame([event]), headers)]
        end = self._end(event)
        if not self.lines:
            return [Encoded(message_key, self.frame([event, end]), headers)]
        return [Encoded(message_key, self.frame([one]), headers) for one in (event, end)]

    def _headers(
        self,
        change: Change,
        event: Event,
        writer: RowWriter,
        table: _TableEncoder,
        delete: bool,
        carried: Carried | None,
        losses: list[str],
    ) -> list[tuple[str, bytes | None]]:
        """What the event has no room for."""
        if not self.settings.headers:
            if table.registered is None:
                name = change.schema.qualified_name
                message = f"there is no schema for {name}; put one under `schemas`, or use headers"
                raise Refusal("encoding", message)
            if change.operation == "read":
                losses.append("full_rows")
            if change.operation in ("read", "insert", "update"):
                losses.append("operations")
            if change.transaction is not None:
                losses.append("transactions")
            return []
        headers: list[tuple[str, bytes | None]] = []
        if table.registered is None:
            headers.append((SCHEMA_HEADER, writer.header))
        native = change.operation in ("upsert", "delete") and change.transaction == str(
            event.sequence
        )
        if carried is not None and native:
            return headers
        operation = b"delete" if delete else change.operation.encode()
        if change.full_row and not delete:
            operation = FULL
        headers.append((OPERATION_HEADER, operation))
        if change.transaction is not None:
            headers.append((TRANSACTION_HEADER, _utf8(change.transaction)))
        return headers

    # Events

    def _event(
        self,
        change: Change,
        opcode: int,
        source: int,
        losses: list[str],
        carried: Carried | None,
    ) -> Event:
        nanos = NO_TIME if change.source_time is None else change.source_time * 1000
        partition = change.message.partition % SHORTS
        event = Event(
            self.version,
            opcode,
            0,
            _sequence(change, self.ids, losses),
            nanos,
            source,
            partition,
            partition,
            little=self.little,
        )
        if carried is not None:
            carried.fill(event, losses, texts=self.json_values and opcode != 0)
        if not LONG_RANGE[0] <= event.nanos <= LONG_RANGE[1]:
            message = "the time of the change does not fit nanoseconds since 1970 in 64 bits"
            raise Refusal("encoding", message)
        if self.version == 1 and not -SHORTS <= source < SHORTS:
            message = f"the source id {source} does not fit version 1; write version 2"
            raise Refusal("encoding", message)
        return event

    def _end(self, event: Event) -> Event:
        """The end of the window of an event."""
        return Event(
            self.version,
            0,
            0,
            event.sequence,
            event.nanos,
            END_OF_PERIOD,
            event.physical,
            event.logical,
            value=b"" if self.version == 1 else None,
            little=self.little,
        )

    def _commit(self, change: Change, carried: Carried | None, losses: list[str]) -> list[Encoded]:
        event = self._event(change, 0, END_OF_PERIOD, losses, carried)
        if self.version == 1:
            event.value = b""
        if carried is not None and change.transaction == str(event.sequence):
            return [Encoded(None, self.frame([event]), None)]
        if not self.settings.headers:
            if change.transaction != str(event.sequence):
                losses.append("transactions")
            return [Encoded(None, self.frame([event]), None)]
        headers: list[tuple[str, bytes | None]] = [(OPERATION_HEADER, b"commit")]
        if change.transaction is not None:
            headers.append((TRANSACTION_HEADER, _utf8(change.transaction)))
        return [Encoded(None, self.frame([event]), headers)]


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Refusal("encoding", "the transaction's id is not UTF-8") from None


def _sequence(change: Change, ids: WrittenSequence, losses: list[str]) -> int:
    """The window: the source's own id where it is one number of 64 bits, else the position."""
    sequence = change.sequence
    if sequence is not None and len(sequence) == 1 and LONG_RANGE[0] <= sequence[0] < 0:
        # The window of an event of Databus has a sign.
        return sequence[0]
    if change.full_row:
        if sequence is None or not ids.packed.has_room(
            ids.packed.layout(change.extra, len(sequence))
        ):
            if sequence is not None:
                losses.append("sequence_id")
            return 0
        if sequence[0] == 0:
            losses.append("sequence_id")
    number = ids.of(change, losses)
    if number > LONG_RANGE[1]:
        raise Refusal(
            "encoding", f"the sequence {number} made from the position is no number of 64 bits"
        )
    return number


def _event_key(schema: TableSchema, key: Any) -> int | bytes | Part:
    """A long for one column of integers, bytes of the text for one other column.

    Several columns are a JSON array of their texts; a table without key has empty bytes.
    """
    if key is None or not schema.key:
        return b""
    values = (key.f0,) if len(schema.key) == 1 else msgspec.structs.astuple(key)
    if len(values) == 1 and values[0] is not None:
        kind, text = schema.columns[schema.key_places[0]].type.kind, values[0]
        if kind in INTEGER_RANGE and len(text) < 21 and text.lstrip("-").isdigit():
            number = int(text)
            if LONG_RANGE[0] <= number <= LONG_RANGE[1]:
                return number
        if kind in _TEXTS:
            return _utf8(text)
    return _json(values)
