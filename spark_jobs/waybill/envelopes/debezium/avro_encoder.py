"""Writes Debezium's change events in Avro: what `debezium-json` writes with schemas, translated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from waybill.envelopes.avro.json_writing import json_writer
from waybill.envelopes.avro.schema import parse
from waybill.envelopes.avro.sinks import Sink, Stamp
from waybill.envelopes.avro.writing import WRITE_ERRORS, Write, exact_float
from waybill.envelopes.debezium.avro_connect import avro_schema, take_true_names
from waybill.envelopes.debezium.avro_settings import DebeziumAvroWriteSettings
from waybill.envelopes.debezium.encoder import DebeziumEncoder
from waybill.envelopes.debezium.settings import DebeziumWriteSettings
from waybill.envelopes.protocol import Encoded
from waybill.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.records import Change

_MANY = 20_000


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
        node = parse(text)
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


class DebeziumAvroEncoder:
    """Writes messages of the envelope `debezium-avro`.

    Args:
        settings: how to write, and where schemas go.
    """

    def __init__(self, settings: DebeziumAvroWriteSettings) -> None:
        self.sink = Sink(settings)
        names = DebeziumWriteSettings.model_fields.keys() & DebeziumAvroWriteSettings.model_fields
        told = {name: getattr(settings, name) for name in names - {"schemas"}}
        self.events = DebeziumEncoder(DebeziumWriteSettings(schemas=True, **told))
        self.name = settings.name
        self._formats: dict[tuple[bool, bytes], _Format] = {}
        self._before: dict[bool, tuple[bytes, _Format]] = {}

    def encode(self, change: Change, losses: list[str]) -> list[Encoded]:
        """The messages of one change; see `Encoder.encode`.

        Raises:
            Refusal: kind `encoding`; a value has no exact notation, or a row its operation needs
                is missing.
        """
        return [self._avro(encoded) for encoded in self.events.encode(change, losses)]

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
        found = self._formats.get((is_key, schema))
        if found is None:
            if len(self._formats) >= _MANY:
                self._formats.clear()
            found = self._format(is_key, msgspec.json.decode(schema))
            self._formats[is_key, schema] = found
        return message[: -len(bytes(opened.payload)) - 1], found

    def _format(self, is_key: bool, connect: dict[str, Any]) -> _Format:
        fallback = f"{self.name}.{'Key' if is_key else 'Envelope'}"
        return _Format(self.sink, connect, is_key, fallback)
