"""Reads Debezium's change events in Avro.

A message is turned into the JSON that Debezium's JSON converter writes of the same event, schema
and all, and read by the rules of `debezium-json`: what a type means is decided in one place. The
schema's JSON is made once, and a message costs one call of a function made for its schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from waybill.envelopes.avro.faults import explain
from waybill.envelopes.avro.framing import KEY, VALUE, Part
from waybill.envelopes.avro.reading import READ_ERRORS, object_reader
from waybill.envelopes.avro.sources import Schemas
from waybill.envelopes.debezium.avro_connect import connect_schema, take_true_names
from waybill.envelopes.debezium.decoder import DebeziumDecoder
from waybill.envelopes.debezium.settings import DebeziumReadSettings
from waybill.errors import Refusal

if TYPE_CHECKING:
    from waybill.envelopes.avro.schema import Node
    from waybill.envelopes.debezium.avro_settings import DebeziumAvroReadSettings
    from waybill.records import Change, Message
    from waybill.tables import TableRules

_json = msgspec.json.Encoder().encode
_KEYS = frozenset({"__debezium.newkey", "__debezium.oldkey"})
_MANY = 2000


class _Format:
    """Turns data of one schema into JSON.

    Args:
        node: the schema.
        part: whether it is a key or a value.
    """

    def __init__(self, node: Node, part: Part) -> None:
        if node.kind != "record" or not node.fields:
            sentence = f"the {part.name}'s Avro schema is a {node.kind}, not a record"
            raise Refusal("schema", sentence)
        take_true_names(node)
        self.node = node
        self.prefix = b'{"schema":%b,"payload":' % _json(connect_schema(node))
        self.read = object_reader(node)

    def json(self, data: bytes, start: int) -> bytes:
        """Data as JSON with its schema.

        Raises:
            Refusal: the data is none of the schema.
        """
        try:
            found, end = self.read(data, start, len(data))
        except READ_ERRORS as error:
            raise explain(self.node, data, start, error) from None
        if end != len(data):
            raise explain(self.node, data, start)
        return b"".join((self.prefix, _json(found), b"}"))


class DebeziumAvroDecoder:
    """Reads messages of the envelope `debezium-avro`.

    Args:
        settings: where the schemas are, and how the connector was configured.
        rules: declared keys and column types.
    """

    def __init__(self, settings: DebeziumAvroReadSettings, rules: TableRules) -> None:
        self.schemas = Schemas(settings)
        told = {name: getattr(settings, name) for name in DebeziumReadSettings.model_fields}
        self.events = DebeziumDecoder(DebeziumReadSettings(**told), rules)
        self._formats: dict[bytes, _Format] = {}
        self._framed: dict[bytes, _Format] = {}

    def decode(self, message: Message) -> list[Change]:
        """The change of one message; tombstones are skipped.

        Raises:
            Refusal: its framing, its schema or its data cannot be read, or it is no event.
        """
        value = message.value
        if value is None:
            return self.events.decode(message)
        told: Any = replace(message, value=self._json(VALUE, value, message))
        key = message.key
        if key is not None and (key[:1] in (b"\0", b"\1") or _in_header(message)):
            told.key = self._json(KEY, key, message)
        if message.headers is not None:
            told.headers = [
                (n, self._header(h, message) if n in _KEYS and h is not None else h)
                for n, h in message.headers
            ]
        changes = self.events.decode(told)
        for change in changes:
            change.message = message
        return changes

    def _json(self, part: Part, data: bytes, message: Message) -> bytes:
        if message.headers is None:
            # Nearly every message is framed by ids that came before.
            framed = self._framed.get(data[:5])
            if framed is not None:
                return framed.json(data, 5)
        known, start = self.schemas.open(part, data, message)
        found = self._formats.get(known.identity)
        if found is None:
            if len(self._formats) >= _MANY:
                self._formats.clear()
            found = self._formats[known.identity] = _Format(known.node, part)
        if message.headers is None and data[0] == 0:
            if len(self._framed) >= _MANY:
                self._framed.clear()
            self._framed[data[:5]] = found
        return found.json(data, start)

    def _header(self, content: bytes, message: Message) -> bytes:
        """A key in a header: in Avro as message keys are, or in the JSON of a header converter."""
        if content[:1] not in (b"\0", b"\1"):
            return content
        return self._json(KEY, content, replace(message, headers=None))


def _in_header(message: Message) -> bool:
    return any(name == KEY.id_header for name, _ in message.headers or ())
