"""Writes Debezium's change events in Avro: what `debezium-json` writes with schemas, translated.

Whole rows take a shorter way (see `avro_rows`): what `debezium-json` makes of their images goes
into Avro without being JSON first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from waybill.avro.framing import VALUE
from waybill.avro.json_writing import json_writer
from waybill.avro.schema import parse
from waybill.avro.sinks import Sink, Stamp
from waybill.avro.writing import WRITE_ERRORS, Write, exact_float
from waybill.caches import Bounded
from waybill.envelopes.debezium.avro.connect import avro_schema, take_true_names
from waybill.envelopes.debezium.avro.rows import event_writer, row_writer
from waybill.envelopes.debezium.avro.settings import DebeziumAvroWriteSettings
from waybill.envelopes.debezium.encoder import DebeziumEncoder
from waybill.envelopes.debezium.envelope_blocks import shape_check, shape_of
from waybill.envelopes.debezium.settings import DebeziumWriteSettings
from waybill.errors import Refusal
from waybill.protocol import Encoded
from waybill.values.generated import gaps

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.envelopes.debezium.envelope_blocks import Shape
    from waybill.records import Change, TableSchema

Headers = list[tuple[str, bytes | None]]


class _Wrapped(msgspec.Struct, gc=False):
    """A message of the JSON converter."""

    schema: Raw
    payload: Raw


_open = msgspec.json.Decoder(_Wrapped).decode
# Digits that no float holds must not be rounded on the way.
_payload: Callable[[bytes], dict[str, Any]] = msgspec.json.Decoder(
    dict[str, Any], float_hook=exact_float
).decode


class _Format:
    """Writes messages of one Connect schema.

    Args:
        sink: where its Avro schema goes.
        connect: the Connect schema.
        is_key: whether it is of keys.
        fallback: the name of a record without one.
    """

    def __init__(self, sink: Sink, connect: dict[str, Any], is_key: bool, fallback: str) -> None:
        name, text = avro_schema(connect, fallback)
        self.node = node = parse(text)
        take_true_names(node)
        self.stamp: Stamp = sink.key(name, text) if is_key else sink.value(name, text)
        self.write: Write = json_writer(node)
        self.connect = connect
        self.before = _columns_before(connect)
        self.others: dict[tuple[str, ...], _Format] = {}

    def lacking(self, row: dict[str, Any]) -> tuple[str, ...]:
        """Columns that the row before does not tell."""
        return tuple([name for name in self.before if name not in row])

    def without(self, columns: tuple[str, ...]) -> dict[str, Any]:
        """The Connect schema of messages whose row before lacks columns.

        In Avro a record has all its fields, and a null would be a value.
        """
        fields = []
        for field in self.connect["fields"]:
            if field["field"] == "before":
                kept = [inner for inner in field["fields"] if inner["field"] not in columns]
                field = {**field, "fields": kept}
            fields.append(field)
        return {**self.connect, "fields": fields}


def _columns_before(connect: dict[str, Any]) -> tuple[str, ...]:
    for field in connect["fields"]:
        if field["field"] == "before" and field["type"] == "struct":
            return tuple(inner["field"] for inner in field["fields"])
    return ()


class _Events:
    """Writes the events of one table with one shape of blocks around the rows.

    Args:
        shape: the shape of these blocks.
        value: how values with them are written.
        key: how the message keys of the table are written; None for a table without key.
    """

    def __init__(self, shape: Shape, value: _Format, key: _Format | None) -> None:
        self.read = shape_check(shape)
        self.write = event_writer(value.node, shape)
        self.stamp = value.stamp
        self.write_key = None if key is None else row_writer(key.node)
        self.key_stamp = None if key is None else key.stamp


class _Rows(DebeziumEncoder):
    """Writes rows in Avro without making JSON of them, and the rest as JSON that is translated.

    Args:
        settings: how to write.
        translated: makes Avro of a message of JSON with its schema.
        format_of: how messages of a schema are written, by its JSON.
    """

    def __init__(
        self,
        settings: DebeziumWriteSettings,
        translated: Callable[[Encoded], Encoded],
        format_of: Callable[[bool, bytes], _Format],
    ) -> None:
        super().__init__(settings)
        self._translated = translated
        self._format_of = format_of
        self._events: Bounded[TableSchema, _Events] = Bounded()
        self._shapes: Bounded[tuple[TableSchema, Shape], _Events] = Bounded()
        self._gaps: Bounded[TableSchema, Callable[[Any], bool]] = Bounded()

    def _row(
        self, table: Any, op: str, before: Any, after: Any, fields: bytes, headers: Headers | None
    ) -> Encoded:
        if self._whole(table, op, before, after):
            table.check_nulls(before, after)
            old, new = self._rows_of(table, before, after)
            written = self._written(table, old, new, fields, headers)
            if written is not None:
                return written
        return self._translated(super()._row(table, op, before, after, fields, headers))

    def _rows_of(self, table: Any, before: Any, after: Any) -> tuple[Any, Any]:
        """What is written of both images."""
        try:
            if before is None:
                return None, table.after(after)
            if after is None:
                return table.before(before), None
            old, new = table.both(before, after)
        except (ValueError, ArithmeticError, RecursionError, Refusal) as error:
            raise table.explain((after, before), error) from None
        return old, new

    def _tombstone(self, deleted: Encoded, headers: Headers | None) -> Encoded:
        kept = [header for header in deleted.headers or () if header[0] not in _OF_VALUES]
        return Encoded(deleted.key, None, kept or None)

    def _without_row(self, change: Change, losses: list[str]) -> list[Encoded]:
        return [self._translated(encoded) for encoded in super()._without_row(change, losses)]

    def _whole(self, table: Any, op: str, before: Any, after: Any) -> bool:
        """Whether the rows have all that their schema says."""
        if after is None:
            if op != "d" or before is None:
                return False
        elif table.lacks(after):
            return False
        if before is None:
            return True
        found = self._gaps.get(table.schema)
        if found is None:
            found = self._gaps[table.schema] = gaps(len(table.schema.columns))
        return not found(before)

    def _written(
        self, table: Any, old: Any, new: Any, fields: bytes, headers: Headers | None
    ) -> Encoded | None:
        """A row event; None where it has to be translated.

        Raises:
            Refusal: kind `encoding`, when a value has no notation in Avro.
        """
        block = b"{%b}" % fields
        events = self._events.get(table.schema)
        try:
            event = None if events is None else events.read(block)
        except ValueError:
            event = None
        if events is None or event is None:
            events = self._events_of(table, fields, block)
            try:
                event = None if events is None else events.read(block)
            except ValueError:
                event = None
            if events is None or event is None:
                return None
        more, key_data = list(headers or ()), None
        try:
            if events.write_key is not None and events.key_stamp is not None:
                row = table.key_of_row(old if new is None else new)
                if row is None:
                    return None
                out = bytearray(events.key_stamp.prefix)
                events.write_key(out, row)
                key_data = bytes(out)
                more += events.key_stamp.headers
            out = bytearray(events.stamp.prefix)
            events.write(out, old, new, event)
        except WRITE_ERRORS as error:
            raise Refusal("encoding", f"a row cannot be written in Avro: {error}") from None
        more += events.stamp.headers
        return Encoded(key_data, bytes(out), more or None)

    def _events_of(self, table: Any, fields: bytes, block: bytes) -> _Events | None:
        """What writes events with such blocks; None where they have to be translated."""
        shape = shape_of(block)
        if not _is_plain(shape):
            return None
        events = self._shapes.get((table.schema, shape))
        if events is None:
            value = self._format_of(False, table.envelope_schema((), fields))
            key = None if table.key_of_row is None else self._format_of(True, table.key_schema)
            events = self._shapes[table.schema, shape] = _Events(shape, value, key)
        self._events[table.schema] = events
        return events


def _is_plain(shape: Shape) -> bool:
    """Whether blocks hold neither numbers that could be rounded nor arrays."""
    return all(
        _is_plain(kind) if isinstance(kind, tuple) else kind not in ("double", "array")
        for _, kind in shape
    )


_OF_VALUES = frozenset({VALUE.id_header, VALUE.text_header})
"""Headers that say something about the value."""


class DebeziumAvroEncoder:
    """Writes messages of the envelope `debezium-avro`.

    Args:
        settings: how to write, and where schemas go.
    """

    def __init__(self, settings: DebeziumAvroWriteSettings) -> None:
        self.sink = Sink(settings)
        names = DebeziumWriteSettings.model_fields.keys() & DebeziumAvroWriteSettings.model_fields
        fields = {name: getattr(settings, name) for name in names - {"schemas"}}
        self.name = settings.name
        written = DebeziumWriteSettings(schemas=True, **fields)
        self.events = _Rows(written, self._avro, self._format_of)
        self._formats: Bounded[tuple[bool, bytes], _Format] = Bounded()
        self._before: dict[bool, tuple[bytes, _Format]] = {}

    def encode(self, change: Change, losses: list[str]) -> list[Encoded]:
        """The messages of one change; see `Encoder.encode`.

        Raises:
            Refusal: kind `encoding`; a value has no exact notation, or a row its operation needs
                is missing.
        """
        return self.events.encode(change, losses)

    def _avro(self, encoded: Encoded) -> Encoded:
        headers = list(encoded.headers or ())
        key, value = encoded.key, encoded.value
        if key is not None:
            key = self._written(True, key, headers)
        if value is not None:
            value = self._written(False, value, headers)
        return Encoded(key, value, headers or None)

    def _written(
        self, is_key: bool, message: bytes, headers: list[tuple[str, bytes | None]]
    ) -> bytes:
        before = self._before.get(is_key)
        if before is None or not message.startswith(before[0]):
            before = self._before[is_key] = self._opened(is_key, message)
        prefix, found = before
        try:
            # What stands before the payload is the same in nearly all messages.
            payload = _payload(message[len(prefix) : -1])
            if found.before and payload["before"] is not None and not is_key:
                lacking = found.lacking(payload["before"])
                if lacking:
                    other = found.others.get(lacking)
                    if other is None:
                        other = self._format(False, found.without(lacking))
                        found.others[lacking] = other
                    found = other
            out = bytearray(found.stamp.prefix)
            found.write(out, payload)
        except WRITE_ERRORS as error:
            raise Refusal("encoding", f"a row cannot be written in Avro: {error}") from None
        headers.extend(found.stamp.headers)
        return bytes(out)

    def _opened(self, is_key: bool, message: bytes) -> tuple[bytes, _Format]:
        """What stands before the payload of a message, and how messages of its schema are written.

        The JSON converter writes the schema first.
        """
        opened = _open(message)
        schema = bytes(opened.schema)
        return message[: -len(bytes(opened.payload)) - 1], self._format_of(is_key, schema)

    def _format_of(self, is_key: bool, schema: bytes) -> _Format:
        """How messages of a schema are written."""
        found = self._formats.get((is_key, schema))
        if found is None:
            found = self._format(is_key, msgspec.json.decode(schema))
            self._formats[is_key, schema] = found
        return found

    def _format(self, is_key: bool, connect: dict[str, Any]) -> _Format:
        fallback = f"{self.name}.{'Key' if is_key else 'Envelope'}"
        return _Format(self.sink, connect, is_key, fallback)
