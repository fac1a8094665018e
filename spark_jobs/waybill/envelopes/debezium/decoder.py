"""Reads Debezium JSON messages, with and without inline schema.

Messages of a topic share a shape, so the way of the last message is tried first: the bytes of the
inline schema are compared, not parsed, and rows go through what was compiled for their table.
Whatever does not fit takes the way through `_settle`, which looks at everything and says what is
wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from waybill.caches import Bounded
from waybill.envelopes.debezium.control_events import (
    EXTRA,
    FLATTENED,
    LEFT,
    MOVED,
    TransactionBlock,
    before_nothing,
    check_envelope,
    control_change,
)
from waybill.envelopes.debezium.events import Event
from waybill.envelopes.debezium.message_keys import (
    NEW_KEY,
    OLD_KEY,
    check_message_key,
    keys_of_headers,
)
from waybill.envelopes.debezium.mongodb import document_change, holds_documents
from waybill.envelopes.debezium.row_readers import NO_KEY_COLUMNS, fields_of, to_json
from waybill.envelopes.debezium.schema_envelope import Opened, opening
from waybill.envelopes.debezium.source import (
    STREAMING,
    Source,
    is_postgresql,
    position,
    sequence_of,
    source_time,
)
from waybill.envelopes.debezium.table_plans import KEY_UNKNOWN, NO_ROW, Identity, Plans, is_whole
from waybill.errors import Refusal
from waybill.records import Change, Message, intern_schema, skipped
from waybill.values.values import JSON_ERRORS, check_json, in_one_line, json_refusal

if TYPE_CHECKING:
    from waybill.envelopes.debezium.row_readers import RowPlan
    from waybill.envelopes.debezium.settings import DebeziumReadSettings
    from waybill.tables import TableRules

_NULL = Raw(b"null")


class _Peek(msgspec.Struct, gc=False):
    """What tells whose rows a message holds."""

    source: Source | None = None


_peek = msgspec.json.Decoder(_Peek).decode
_source = msgspec.json.Decoder(Source | None).decode
_transaction = msgspec.json.Decoder(TransactionBlock).decode

TOMBSTONE = "tombstone"
"""Why a message without a value is skipped: it lets a compacted topic forget a key."""

ROWS = {"c": "insert", "r": "read", "u": "update", "d": "delete"}
"""Operations of rows by `op`."""
_NAMES = frozenset(
    {"before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns", "message"}
)
_BRACE = ord("}")


class _Topic:
    """What the messages of one topic looked like so far."""

    def __init__(self, name: str) -> None:
        self.fallback = _source_by_topic(name)
        self.prefix = b""
        self.prefixes: list[bytes] = []
        self.event: Event | None = None
        self.events: Bounded[tuple[bytes, Identity], Event] = Bounded()
        self.layouts: Bounded[tuple[RowPlan, tuple[str, ...], tuple[str, ...]], Event] = Bounded()

    def known_prefix(self, value: bytes) -> bytes | None:
        """The opening of a message among those seen; its events go first from now on."""
        for prefix in self.prefixes:
            if value.startswith(prefix):
                self.prefix, self.event = prefix, None
                return prefix
        return None

    def body(self, value: bytes) -> bytes | None:
        """A message without its schema, None where the schema is a new one."""
        prefix: bytes | None = self.prefix
        if not value.startswith(self.prefix):
            prefix = self.known_prefix(value)
        if prefix is None or value[-1] != _BRACE:
            return None
        return value[len(prefix) : -1]

    def other_event(self, body: bytes) -> Event | None:
        """The event of another table among those seen; it goes first from now on."""
        source = _peek(body).source or self.fallback
        event = self.events.get((self.prefix, (source.db, source.schema, source.table)))
        if event is not None:
            self.event = event
        return event

    def layout(self, plan: RowPlan, names: tuple[str, ...], source_names: tuple[str, ...]) -> Event:
        """The event of a plan in one layout."""
        found = self.layouts.get((plan, names, source_names))
        if found is None:
            found = Event(plan, names, source_names)
            self.layouts[plan, names, source_names] = found
        return found

    def learn(self, prefix: bytes, event: Event) -> None:
        """Take this way first for the next message."""
        plan = event.plan
        if prefix and prefix not in self.prefixes:
            self.prefixes = [prefix, *self.prefixes[: _PREFIXES - 1]]
        self.prefix, self.event = prefix, event
        self.events[prefix, (plan.database, plan.namespace, plan.table)] = event


_PREFIXES = 256
"""How many inline schemas are compared with a message, one after the other."""


class DebeziumDecoder:
    """Reads messages of the envelope `debezium-json`.

    Args:
        settings: how the connector was configured.
        rules: declared keys and column types.
    """

    def __init__(self, settings: DebeziumReadSettings, rules: TableRules) -> None:
        self.settings = settings
        self.rules = rules
        self._plans = Plans(settings, rules)
        self._topics: dict[str, _Topic] = {}
        self._oldest = settings.snapshots == "oldest"

    def decode(self, message: Message) -> list[Change]:
        """The change of one message; tombstones are skipped.

        Raises:
            Refusal: the message is not one of Debezium's, or its row cannot be taken.
        """
        value = message.value
        if value is None:
            return [skipped(message, TOMBSTONE)]
        topic = self._topics.get(message.topic)
        if topic is None:
            topic = self._topics[message.topic] = _Topic(message.topic)
        else:
            try:
                change = self._as_before(topic, message, value)
            except (ValueError, RecursionError, Refusal):
                change = None  # the exact way below finds out what is wrong
            if change is not None:
                return [change]
        return self._read(topic, message, value)

    def exact(self, message: Message) -> list[Change]:
        """See `protocol.Shortened`."""
        if message.value is None:
            return [skipped(message, TOMBSTONE)]
        topic = self._topics.setdefault(message.topic, _Topic(message.topic))
        return self._read(topic, message, message.value)

    def _read(self, topic: _Topic, message: Message, value: bytes) -> list[Change]:
        """The change of a message of which nothing is taken for known."""
        try:
            return [self._settle(topic, message, value)]
        except JSON_ERRORS as error:
            raise json_refusal(error) from None

    def plan_of(self, topic: str) -> RowPlan | None:
        """The plan of the row that was read last from a topic, where later ones will be like it."""
        known = self._topics.get(topic)
        return None if known is None or known.event is None else known.event.plan

    def reads_as_sent(self, topic: str, identity: Identity, names: tuple[str, ...]) -> bool:
        """Whether a usual message without schema is read in its own order.

        One that has the same fields as the last one of its table is read in the order of that.

        Args:
            topic: the topic of the message.
            identity: its table.
            names: the columns of its rows.
        """
        known = self._topics.get(topic)
        event = None if known is None else known.events.get((b"", identity))
        return event is None or (event.cut and event.plan.schema.names == names)

    def _as_before(self, topic: _Topic, message: Message, value: bytes) -> Change | None:
        """The change of a message like those before it, None if it is another one."""
        if topic.prefix:
            body = topic.body(value)
            if body is None:
                return None
            value = body
        event = topic.event
        if event is None:
            event = topic.other_event(value)
            if event is None:
                return None
        try:
            parsed = event.decode(value)
            source = parsed.source or topic.fallback
            plan = event.plan
            fits = (
                plan.table == source.table
                and plan.database == source.db
                and plan.namespace == source.schema
                and plan.connector == source.connector
            )
        except ValueError:
            fits = False
        if not fits:
            event = topic.other_event(value)
            if event is None:
                return None
            parsed = event.decode(value)
            source, plan = parsed.source or topic.fallback, event.plan
            if plan.connector != source.connector:
                return None
        operation = ROWS.get(parsed.op)
        row = parsed.before if parsed.after is None else parsed.after
        if operation is None or not plan.fits_key(message.key, row):
            return None
        return self._change(message, event, value, parsed, source, operation)

    def _change(
        self, message: Message, event: Event, body: bytes, parsed: Any, source: Any, operation: str
    ) -> Change:
        """The change of a row event.

        Args:
            message: where it came from.
            event: how it was read.
            body: its JSON without schema.
            parsed: what was read.
            source: its source block.
            operation: what happened to the row.

        Raises:
            ValueError: a value is not as the plan expects.
            Refusal: it cannot be taken.
        """
        plan = event.plan
        head, rank, moved, before, after = EXTRA, 1, None, parsed.before, None
        tail = event.tail(body, parsed)
        if operation == "delete":
            before = self._deleted(message, plan, parsed)
            if message.headers:
                head, rank = self._left(message, plan)
        else:
            after = parsed.after
            if after is None or (before is not None and operation != "update"):
                raise _misfit(parsed)
            if before is None:
                after = plan.after(after)
            else:
                before, after = plan.both(before, after)
                if plan.key_only:
                    before = plan.only_key(before)
            if operation == "insert" and message.headers:
                moved = self._header(message, plan, OLD_KEY)
                if moved is not None:
                    operation, head = "update", MOVED
        try:
            sequence = plan.rule(source) or position(source, plan.rule)
        except (ValueError, TypeError):
            sequence = position(source, plan.rule)  # says what is wrong
        full_row = False
        if operation == "read" or source.snapshot not in STREAMING:
            operation, full_row = self.snapshot_of(operation, source, sequence)
        return Change(
            operation,
            plan.schema,
            message,
            before=before,
            after=after,
            sequence=sequence,
            rank=rank,
            full_row=full_row,
            moved_from=moved,
            source_time=source_time(source) if source.ts_us is None else source.ts_us,
            transaction=_transaction_id(parsed.transaction, source),
            extra=_carried(head, tail) if parsed.source is not None else None,
        )

    def _left(self, message: Message, plan: RowPlan) -> tuple[bytes, int]:
        """How `extra` of a delete begins, and its rank: it may be half of a change of the key.

        Both halves stand at one position, the delete first.
        """
        new_key = self._header(message, plan, NEW_KEY)
        if new_key is None:
            return EXTRA, 1
        return LEFT + to_json(new_key) + b',"debezium":{', 0

    def snapshot_of(
        self, operation: str, source: Source, sequence: tuple[int, ...] | None
    ) -> tuple[str, bool]:
        """Operation and full-row flag of a row that a snapshot read; old ones wrote op c."""
        if operation == "insert":
            operation = "read"
        if sequence is None:
            return operation, operation == "read"
        streamed = source.snapshot in STREAMING
        return operation, not streamed and self._oldest and is_postgresql(source)

    def _deleted(self, message: Message, plan: RowPlan, parsed: Any) -> Any:
        """The image of a deleted row: what can be trusted of it, at least its key."""
        if parsed.after is not None:
            raise Refusal("shape", "op 'd' with a row in `after`, which a deleted row has not")
        before = None if parsed.before is None else plan.before(parsed.before)
        if before is None or before == plan.schema.empty:
            # An object without columns tells as little as null.
            return self._row_of_key(message, plan)
        if not plan.key_only or is_whole(message, plan, before):
            return before
        if not plan.schema.key:
            raise Refusal("key", KEY_UNKNOWN)
        return plan.only_key(before)

    def _row_of_key(self, message: Message, plan: RowPlan) -> Any:
        """The image of a deleted row that nothing but the message key tells."""
        if message.key is None:
            raise Refusal("key", NO_ROW)
        if not plan.schema.key:
            raise Refusal("key", NO_KEY_COLUMNS)
        return plan.row_of_key(self._plans.key_of(plan, message.key))

    def _header(self, message: Message, plan: RowPlan, name: str) -> Any:
        """The key image that a header carries, None where it is not there."""
        for header, value in message.headers or ():
            if header == name and value is not None and plan.schema.key:
                return self._plans.key_of(plan, value)
        return None

    def _other(self, message: Message, payload: bytes, fields: dict[str, Raw]) -> Change:
        """The change of a message that holds a document, or neither that nor a row."""
        if holds_documents(fields):
            check_envelope(fields)
            return document_change(message, fields, self._plans.rules)
        return control_change(message, payload, fields)

    def _settle(self, topic: _Topic, message: Message, value: bytes) -> Change:
        """The change of any message."""
        check_json(value)
        opened = opening(value)
        if opened is None:
            return skipped(message, TOMBSTONE)
        fields, body = opened.fields, bytes(opened.payload)
        if not _is_row_event(opened):
            return self._other(message, body, fields)
        source = _source_of(fields, topic)
        op = msgspec.json.decode(fields["op"], type=str)
        if op == "t":
            return _truncated(message, fields, source)
        operation = ROWS.get(op)
        if operation is None:
            raise Refusal("operation", f"op {op[:40]!r} is none of c, u, d, r, t and m")
        if not source.table:
            raise Refusal("shape", "a message with a row names no table in source.table")
        rows = (fields.get("after", _NULL), fields.get("before", _NULL))
        if operation != "delete" and bytes(rows[0]) == b"null":
            raise Refusal("shape", f"op {op!r} without a row in `after`")
        known = topic.events.get((opened.prefix, (source.db, source.schema, source.table)))
        plan = self._plans.plan(
            opened.schema,
            source,
            rows,
            message.key,
            None if known is None else known.plan,
            keys_of_headers(message),
        )
        block = bytes(fields.get("source", _NULL))
        event = topic.layout(
            plan, tuple(fields), () if block == b"null" else tuple(fields_of(block))
        )
        try:
            parsed = event.decode(body)
            change = self._change(message, event, body, parsed, source, operation)
            check_message_key(plan, message.key, (change.after, change.before))
        except Refusal as refusal:
            raise plan.explain(rows, refusal) if refusal.kind == "value" else refusal from None
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise plan.explain(rows, error) from None
        self._plans.remember()
        if opened.whole and plan.lasting:
            topic.learn(opened.prefix, event)
        return change


def _is_row_event(opened: Opened) -> bool:
    """Whether a message is an envelope by its structure.

    A table may have columns named op, before, after, source or payload, so names alone do not
    tell: the blocks have to be objects. Writers that know no source (Flink) leave it out, and then
    nothing but an envelope's names may stand there.

    Raises:
        Refusal: it looks like one and cannot be.
    """
    fields = opened.fields
    if "op" not in fields or bytes(fields["op"]) == b'"m"' or holds_documents(fields):
        return False
    images = [bytes(fields.get(name, _NULL)) for name in ("before", "after")]
    source = bytes(fields.get("source", _NULL))
    if source[:1] == b"{":
        if any(image[:1] == b'"' for image in images):
            sentence = "a row is a text, which only the documents of MongoDB's connector are"
            raise Refusal("shape", sentence)
        if all(image[:1] in (b"{", b"n") for image in images):
            return True
    elif source == b"null" and _NAMES.issuperset(fields):
        kinds = {image[:1] for image in images}
        if b"{" in kinds and kinds <= {b"{", b"n"}:
            return True
    raise Refusal("shape", FLATTENED)


def _source_of(fields: dict[str, Raw], topic: _Topic) -> Source:
    """The source block of a row event, or what the topic's name tells where there is none."""
    source = _source(fields.get("source", _NULL)) or topic.fallback
    if source.connector is None and source.table is None:
        raise Refusal("shape", FLATTENED)
    check_envelope(fields)
    return source


def _source_by_topic(topic: str) -> Source:
    """The table as the name of the topic tells it: database and table are its last two parts."""
    parts = topic.split(".")
    return Source(db=parts[-2] if len(parts) > 1 else None, table=parts[-1])


def _misfit(parsed: Any) -> Refusal:
    """The refusal for images that the operation cannot have."""
    if parsed.after is None:
        return Refusal("shape", f"op {parsed.op!r} without a row in `after`")
    # Most targets have no place for it, so it would be gone without a word.
    return Refusal("shape", before_nothing(parsed.op))


def _truncated(message: Message, fields: dict[str, Raw], source: Source) -> Change:
    if any(bytes(fields.get(name, _NULL)) != b"null" for name in ("before", "after")):
        raise Refusal("shape", "op 't' with a row: a TRUNCATE has none")
    if not source.table:
        raise Refusal("shape", "op 't' without source.table: it names the table that is emptied")
    names = [name for name in fields if name not in ("before", "after")]
    tail = b",".join(b"%b:%b" % (to_json(name), bytes(fields[name])) for name in names)
    sequence = sequence_of(source)
    return Change(
        "truncate",
        intern_schema(source.db, source.schema, source.table),
        message,
        sequence=sequence,
        source_time=source_time(source),
        transaction=_transaction_id(fields.get("transaction"), source),
        extra=_carried(EXTRA, tail) if source.connector is not None else None,
    )


def _transaction_id(block: Raw | None, source: Any) -> str | None:
    """The id in the transaction block, else the one that PostgreSQL's source block has."""
    if block is not None and block != _NULL:
        found: str | None = _transaction(block).id
        return found
    return None if source.txId is None else str(source.txId)


def _carried(head: bytes, tail: bytes) -> bytes:
    """The fields of the envelope that a Debezium target carries on, as they were sent."""
    extra = in_one_line(b"%b%b}}" % (head, tail))
    if not extra.isascii():
        extra.decode()  # bytes that are no UTF-8 must not reach the lake
    return extra
