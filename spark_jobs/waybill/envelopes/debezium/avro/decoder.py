"""Reads Debezium's change events in Avro.

A message is turned into the JSON that Debezium's JSON converter writes of the same event, schema
and all, and read by the rules of `debezium-json`: what a type means is decided in one place. The
rows of a table whose schemas have been met before take a shorter way, which those rules were
compiled into (see `avro_events`); nearly all messages are such rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from waybill.avro.faults import explain
from waybill.avro.framing import KEY, VALUE, Part
from waybill.avro.reading import READ_ERRORS, object_reader
from waybill.avro.schema import without_null
from waybill.avro.sources import Schemas
from waybill.caches import Bounded
from waybill.envelopes.debezium.avro.connect import connect_schema, take_true_names
from waybill.envelopes.debezium.avro.events import AvroEvents, KeyColumns
from waybill.envelopes.debezium.control_events import EXTRA
from waybill.envelopes.debezium.decoder import ROWS, DebeziumDecoder
from waybill.envelopes.debezium.message_keys import check_message_key
from waybill.envelopes.debezium.settings import DebeziumReadSettings
from waybill.envelopes.debezium.source import STREAMING, position, source_time
from waybill.errors import Refusal
from waybill.records import Change

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.avro.reading import Reader
    from waybill.avro.schema import Node
    from waybill.envelopes.debezium.avro.settings import DebeziumAvroReadSettings
    from waybill.envelopes.debezium.row_readers import RowPlan
    from waybill.records import Message
    from waybill.tables import TableRules

_json = msgspec.json.Encoder().encode
_KEYS = frozenset({"__debezium.newkey", "__debezium.oldkey"})
_NEW = frozenset({"insert", "read"})
"""Operations whose row was none before."""
MILLIS = 2**63 // 1000
"""The end of the times of sources; see `source.Millis`."""
_SINGLE = frozenset(
    {"string", "enum", "int", "long", "float", "double", "boolean", "bytes", "fixed"}
)
"""Kinds of Avro that hold one value."""
_Ids = tuple[bytes, bytes | None, bool]
_Place = tuple[str | None, str | None, str | None, str | None]
"""Connector, database, schema and table."""


class _Format:
    """Turns data of one schema into JSON.

    Args:
        node: the schema.
        part: whether it is a key or a value.
    """

    def __init__(self, node: Node, part: Part) -> None:
        self.node = node
        self.events: Bounded[RowPlan, AvroEvents | None] = Bounded()
        self._keys: Bounded[RowPlan, KeyColumns] = Bounded()
        self.check_key: Reader | None = None
        if node.kind in _SINGLE and part is KEY:
            # A transformation made it of one column; like a key of another kind it names none.
            self.prefix, self.end = b"", b""
            self.read = self.check_key = object_reader(node)
            return
        # Flink's serialization schema registers a union of null and the record.
        record = without_null(node)
        if record.kind != "record" or not record.fields:
            sentence = f"the {part.name}'s Avro schema is a {record.kind}, not a record"
            raise Refusal("schema", sentence)
        take_true_names(record)
        self.prefix, self.end = b'{"schema":%b,"payload":' % _json(connect_schema(record)), b"}"
        self.read = object_reader(node)

    def events_of(self, plan: RowPlan) -> AvroEvents | None:
        """What reads the rows of a plan without JSON; None where the schema has another shape."""
        if plan not in self.events:
            try:
                self.events[plan] = AvroEvents(self.node, plan)
            except (ValueError, KeyError):
                self.events[plan] = None
        return self.events[plan]

    def key_columns_of(self, plan: RowPlan) -> KeyColumns | None:
        """What reads message keys beside such rows; None for keys that name no columns.

        Raises:
            ValueError: the schema has another shape.
        """
        if self.check_key is not None:
            return None
        if self.node.kind != "record":
            raise ValueError("the key may be null")
        if plan not in self._keys:
            self._keys[plan] = KeyColumns(self.node, plan)
        return self._keys[plan]

    def json(self, data: bytes, start: int) -> bytes:
        """Data as JSON with its schema, where it is a record.

        Raises:
            Refusal: the data is none of the schema.
        """
        try:
            found, end = self.read(data, start, len(data))
        except READ_ERRORS as error:
            raise explain(self.node, data, start, error) from None
        if end != len(data):
            raise explain(self.node, data, start)
        return b"".join((self.prefix, _json(found), self.end))


class Way(NamedTuple):
    """How the messages of one table whose key and value have these schemas are read.

    Attributes:
        events: reads the value.
        key: reads the message key, where that is Avro and names columns.
        check_key: reads one that is Avro and names none.
    """

    events: AvroEvents
    key: KeyColumns | None
    check_key: Reader | None

    def stated_key(self, key: bytes | None) -> Any:
        """What a message key in Avro tells of the row; None if it is read to no purpose.

        Raises:
            ValueError: it has another shape.
        """
        read = self.check_key if self.key is None else self.key.read
        if read is None:
            return None
        if key is None:
            raise ValueError("the key is missing")
        values, end = read(key, 5, len(key))
        if end != len(key):
            raise ValueError("the key ends early")
        return None if self.key is None else values


class DebeziumAvroDecoder:
    """Reads messages of the envelope `debezium-avro`.

    Args:
        settings: where the schemas are, and how the connector was configured.
        rules: declared keys and column types.
    """

    def __init__(self, settings: DebeziumAvroReadSettings, rules: TableRules) -> None:
        self.schemas = Schemas(settings)
        fields = {name: getattr(settings, name) for name in DebeziumReadSettings.model_fields}
        self.events = DebeziumDecoder(DebeziumReadSettings(**fields), rules)
        self._formats: Bounded[bytes, _Format] = Bounded()
        self._framed: Bounded[bytes, _Format] = Bounded()
        self._ways: Bounded[_Ids, Way] = Bounded()
        self._others: Bounded[tuple[_Ids, _Place], Way] = Bounded()

    def decode(self, message: Message) -> list[Change]:
        """The change of one message; tombstones are skipped.

        Raises:
            Refusal: its framing, its schema or its data cannot be read, or it is no event.
        """
        value = message.value
        if value is None:
            return self.events.decode(message)
        ids = _ids(message, value)
        way = None if ids is None else self._ways.get(ids)
        if ids is not None and way is not None:
            try:
                change = self._as_before(message, value, ids, way)
            except (*READ_ERRORS, RecursionError, Refusal):
                change = None  # the exact way below finds out what is wrong
            if change is not None:
                return [change]
        return self._read(message, value, ids, self.events.decode)

    def exact(self, message: Message) -> list[Change]:
        """See `protocol.Shortened`."""
        value = message.value
        if value is None:
            return self.events.exact(message)
        return self._read(message, value, _ids(message, value), self.events.exact)

    def _read(
        self,
        message: Message,
        value: bytes,
        ids: _Ids | None,
        decode: Callable[[Message], list[Change]],
    ) -> list[Change]:
        """The changes of a message by the rules of `debezium-json`."""
        changes = self._by_json(message, value, decode)
        if ids is not None:
            self._learn(message, ids, changes)
        return changes

    def way_of(self, message: Message) -> Way | None:
        """What read a message that was read last; None where it took the exact way."""
        ids = None if message.value is None else _ids(message, message.value)
        return None if ids is None else self._ways.get(ids)

    def _as_before(self, message: Message, value: bytes, ids: _Ids, way: Way) -> Change | None:
        """The change of a row of a known table; None if it has to be looked at more closely."""
        (before, after, source, op, own, in_block, others), end = way.events.read(
            value, 5, len(value)
        )
        if end != len(value) or source is None:
            return None
        plan = way.events.plan
        if (
            source.table != plan.table
            or source.db != plan.database
            or source.schema != plan.namespace
            or source.connector != plan.connector
        ):
            place = source.connector, source.db, source.schema, source.table
            other = self._others.get((ids, place))
            if other is None:
                return None
            self._ways[ids] = other
            return self._as_before(message, value, ids, other)
        millis, key = source.ts_ms, message.key
        if millis is not None and not -MILLIS < millis < MILLIS:
            return None
        stated = way.stated_key(key)
        if way.key is not None:
            row = before if after is None else after
            if row is None or stated != way.key.of_row(row):
                return None
        elif way.check_key is None:
            if not plan.fits_key(key, None):
                return None
            check_message_key(plan, key, (after, before))
        if not in_block and source.txId is not None:
            own = str(source.txId)
        return self._row_change(message, plan, before, after, source, op, own, _json(others))

    def _row_change(
        self,
        message: Message,
        plan: RowPlan,
        before: Any,
        after: Any,
        source: Any,
        op: str,
        transaction: str | None,
        tail: bytes,
    ) -> Change | None:
        """The change of a row whose images have been read, as `debezium-json` makes it.

        Args:
            message: where it came from; it has no headers.
            plan: the plan of its table.
            before: the image before, None where there is none.
            after: the image after.
            source: its source block.
            op: Debezium's letter of the operation.
            transaction: the id of its transaction.
            tail: the JSON object of everything but the images.

        Returns:
            None where it has to be looked at more closely.

        Raises:
            Refusal: the position cannot be read.
        """
        operation = ROWS.get(op)
        if operation is None or (after is None) != (operation == "delete"):
            return None
        if before is None:
            if operation == "delete":
                return None
        elif operation in _NEW:
            return None
        elif plan.key_only:
            if operation == "delete" and not plan.schema.key:
                return None
            before = plan.only_key(before)
        try:
            sequence = plan.rule(source) or position(source, plan.rule)
        except (ValueError, TypeError):
            sequence = position(source, plan.rule)
        full_row = False
        if operation == "read" or source.snapshot not in STREAMING:
            operation, full_row = self.events.snapshot_of(operation, source, sequence)
        return Change(
            operation,
            plan.schema,
            message,
            before=before,
            after=after,
            sequence=sequence,
            full_row=full_row,
            source_time=source_time(source) if source.ts_us is None else source.ts_us,
            transaction=transaction,
            extra=b"%b%b}" % (EXTRA, tail[1:]),
        )

    def _learn(self, message: Message, ids: _Ids, changes: list[Change]) -> None:
        """Take the known-table way for the next messages that are like this one."""
        plan = self.events.plan_of(message.topic)
        if len(changes) != 1 or plan is None or changes[0].schema is not plan.schema:
            return
        value, key = self._framed.get(ids[0]), self._framed.get(ids[1] or b"")
        events = None if value is None else value.events_of(plan)
        if events is not None and (key is None) == (ids[1] is None):
            try:
                columns = None if key is None else key.key_columns_of(plan)
            except ValueError:
                return
            way = Way(events, columns, None if key is None else key.check_key)
            self._ways[ids] = way
            place = plan.connector, plan.database, plan.namespace, plan.table
            self._others[ids, place] = way

    def _by_json(
        self, message: Message, value: bytes, decode: Callable[[Message], list[Change]]
    ) -> list[Change]:
        as_json: Any = replace(message, value=self._as_json(VALUE, value, message))
        key = message.key
        if key is not None and (key[:1] in (b"\0", b"\1") or _in_header(message)):
            as_json.key = self._as_json(KEY, key, message)
        if message.headers is not None:
            as_json.headers = [
                (n, self._header(h, message) if n in _KEYS and h is not None else h)
                for n, h in message.headers
            ]
        changes = decode(as_json)
        for change in changes:
            change.message = message
        return changes

    def _as_json(self, part: Part, data: bytes, message: Message) -> bytes:
        if message.headers is None:
            # Nearly every message is framed by ids that came before.
            framed = self._framed.get(data[:5])
            if framed is not None:
                return framed.json(data, 5)
        known, start = self.schemas.open(part, data, message)
        found = self._formats.get(known.identity)
        if found is None:
            found = self._formats[known.identity] = _Format(known.node, part)
        if message.headers is None and data[0] == 0:
            self._framed[data[:5]] = found
        return found.json(data, start)

    def _header(self, content: bytes, message: Message) -> bytes:
        """A key in a header: in Avro as message keys are, or in the JSON of a header converter."""
        if content[:1] not in (b"\0", b"\1"):
            return content
        return self._as_json(KEY, content, replace(message, headers=None))


def _ids(message: Message, value: bytes) -> _Ids | None:
    """The schema ids of value and key, as far as they stand there: a key may be of another kind.

    None where headers may say something about the row or its schema.
    """
    key = message.key
    if message.headers is not None or value[:1] != b"\0" or (key and key[0] == 1):
        return None
    return value[:5], key[:5] if key and key[0] == 0 else None, key is None


def _in_header(message: Message) -> bool:
    return any(name == KEY.id_header for name, _ in message.headers or ())
