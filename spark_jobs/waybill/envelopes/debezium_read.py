"""Reads Debezium JSON messages, with and without inline schema.

Messages of a topic look alike, so the way of the last message is tried first: the bytes of the
inline schema are compared, not parsed, and rows go through what was compiled for their table.
Whatever does not fit takes the way through `_settle`, which looks at everything and says what is
wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from waybill.envelopes.debezium_control import FLATTENED, control_change
from waybill.envelopes.debezium_open import Opened, opening, payload_of
from waybill.envelopes.debezium_plans import Plans
from waybill.envelopes.debezium_source import (
    STREAMING,
    Source,
    is_postgresql,
    sequence_of,
    source_time,
)
from waybill.envelopes.values import JSON_ERRORS, json_refusal
from waybill.errors import Refusal
from waybill.records import Change, Message, intern_schema, skipped

if TYPE_CHECKING:
    from waybill.envelopes.debezium_rows import RowPlan
    from waybill.envelopes.debezium_settings import DebeziumReadSettings
    from waybill.tables import TableRules

_NULL = Raw(b"null")


class Envelope(msgspec.Struct, kw_only=True, gc=False):
    """The envelope of a row event, in the order in which Debezium writes its fields."""

    before: Raw = _NULL
    after: Raw = _NULL
    source: Raw = _NULL
    transaction: Raw = _NULL
    op: str
    ts_ms: Raw = _NULL
    ts_us: Raw = _NULL
    ts_ns: Raw = _NULL


class _Transaction(msgspec.Struct, gc=False):
    id: str | None = None


_envelope = msgspec.json.Decoder(Envelope).decode
_source = msgspec.json.Decoder(Source | None).decode
_transaction = msgspec.json.Decoder(_Transaction).decode

_ROWS = {"c": "insert", "r": "read", "u": "update", "d": "delete"}
_NAMES = frozenset({*Envelope.__struct_fields__, "message"})
_BRACE = ord("}")
_NULL_LENGTH = len(b"null")
EXTRA = b'{"debezium":{'
"""How `extra` of a row begins: the fields of the envelope after `op`, as they were sent."""


class _Topic:
    """What the messages of one topic looked like so far."""

    def __init__(self) -> None:
        self.prefix = b""
        self.prefixes: list[bytes] = []
        self.plan: RowPlan | None = None
        self.plans: dict[tuple[bytes, str | None, str | None, str | None], RowPlan] = {}

    def known_prefix(self, value: bytes) -> bytes | None:
        """The opening of a message among those seen; it moves to the front."""
        for prefix in self.prefixes:
            if value.startswith(prefix):
                self.prefix = prefix
                return prefix
        return None

    def learn(self, prefix: bytes, source: Source, plan: RowPlan) -> None:
        """Take this way first for the next message."""
        if len(self.plans) >= _MANY:
            self.plans.clear()
        if prefix and prefix not in self.prefixes:
            self.prefixes = [prefix, *self.prefixes[: _MANY - 1]]
        self.prefix, self.plan = prefix, plan
        self.plans[prefix, source.db, source.schema, source.table] = plan


_MANY = 256


class DebeziumDecoder:
    """Reads messages of the envelope `debezium-json`.

    Args:
        settings: how the connector was configured.
        rules: declared keys and column types.
    """

    def __init__(self, settings: DebeziumReadSettings, rules: TableRules) -> None:
        self.settings = settings
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
            return [skipped(message, "tombstone")]
        topic = self._topics.get(message.topic)
        if topic is None:
            topic = self._topics[message.topic] = _Topic()
        else:
            try:
                change = self._as_before(topic, message, value)
            except (ValueError, RecursionError, Refusal):
                change = None  # the long way below finds out what is wrong
            if change is not None:
                return [change]
        try:
            return [self._settle(topic, message, value)]
        except JSON_ERRORS as error:
            raise json_refusal(error) from None

    def _as_before(self, topic: _Topic, message: Message, value: bytes) -> Change | None:
        """The change of a message like those before it, None if it is another one."""
        prefix = topic.prefix
        if prefix and not value.startswith(prefix):
            found = topic.known_prefix(value)
            if found is None:
                return None
            prefix = found
        if prefix:
            if value[-1] != _BRACE:
                return None
            value = value[len(prefix) : -1]
        envelope = _envelope(value)
        operation = _ROWS.get(envelope.op)
        source = _source(envelope.source)
        if operation is None or source is None:
            return None
        plan = topic.plan
        if (
            plan is None
            or plan.table != source.table
            or plan.database != source.db
            or plan.namespace != source.schema
            or prefix is not topic.prefix
        ):
            plan = topic.plans.get((prefix, source.db, source.schema, source.table))
            if plan is None:
                return None
            topic.plan = plan
        if not plan.fits_key(message.key):
            return None
        return self._change(message, plan, envelope, source, operation)

    def _change(
        self,
        message: Message,
        plan: RowPlan,
        envelope: Envelope,
        source: Source,
        operation: str,
    ) -> Change:
        """The change of a row event.

        Raises:
            ValueError: a value is not as the plan expects.
            Refusal: it cannot be taken.
        """
        rank, head, moved = 1, EXTRA, None
        if operation == "delete":
            before, after = self._deleted(message, plan, envelope), None
            if message.headers:
                new_key = self._header(message, plan, "__debezium.newkey")
                if new_key is not None:
                    # The delete and the insert of a key change stand at one position.
                    rank, head = 0, b'{"debezium_newkey":' + _json(new_key) + b',"debezium":{'
        else:
            before, after = self._images(plan, envelope)
            if operation == "insert" and message.headers:
                moved = self._header(message, plan, "__debezium.oldkey")
                if moved is not None:
                    operation, head = "update", b'{"debezium_oldkey":true,"debezium":{'
        sequence = sequence_of(source)
        full_row = False
        if operation == "read" or source.snapshot not in STREAMING:
            operation, full_row = self._snapshot(operation, source, sequence)
        transaction = None if source.txId is None else str(source.txId)
        if len(envelope.transaction) > _NULL_LENGTH:
            transaction = _transaction(envelope.transaction).id
        return Change(
            operation,
            plan.schema,
            message,
            0,
            before,
            after,
            sequence,
            rank,
            full_row,
            None,
            moved,
            source_time(source) if source.ts_us is None else source.ts_us,
            transaction,
            None,
            _carried(head, envelope),
        )

    def _images(self, plan: RowPlan, envelope: Envelope) -> tuple[Any, Any]:
        """The row before and after an insert or update."""
        row = plan.decode_after(envelope.after)
        if row is None:
            raise Refusal("shape", f"op {envelope.op!r} without a row in `after`")
        after = plan.after(row)
        row = plan.decode_before(envelope.before)
        if row is None:
            return None, after
        before = plan.before(row)
        return plan.only_key(before) if plan.key_only else before, after

    def _snapshot(
        self, operation: str, source: Source, sequence: tuple[int, ...] | None
    ) -> tuple[str, bool]:
        """Operation and full-row flag of a row that a snapshot read; old ones wrote op c."""
        if operation == "insert":
            operation = "read"
        if sequence is None:
            return operation, operation == "read"
        streamed = source.snapshot in STREAMING
        return operation, not streamed and self._oldest and is_postgresql(source)

    def _deleted(self, message: Message, plan: RowPlan, envelope: Envelope) -> Any:
        """The image of a deleted row: what can be trusted of it, at least its key."""
        row = plan.decode_before(envelope.before)
        if row is None:
            if message.key is None:
                raise Refusal("key", "a delete has neither a row in `before` nor a message key")
            return plan.row_of_key(plan.key_of(payload_of(message.key, plan.shape.prefix)))
        before = plan.before(row)
        if not plan.key_only:
            return before
        if not plan.schema.key:
            sentence = (
                "of a deleted row of PostgreSQL only the key can be trusted, and the key is not "
                "known: keep the message keys, declare the key under `tables`, or set "
                "`replica_identity: full`"
            )
            raise Refusal("key", sentence)
        return plan.only_key(before)

    def _header(self, message: Message, plan: RowPlan, name: str) -> Any:
        """The key image that a header carries, None where it is not there."""
        for header, value in message.headers or ():
            if header == name and value is not None and plan.schema.key:
                return plan.key_of(payload_of(value, plan.shape.prefix))
        return None

    def _settle(self, topic: _Topic, message: Message, value: bytes) -> Change:
        """The change of any message."""
        opened = opening(value)
        if opened is None:
            return skipped(message, "tombstone")
        if not _is_row_event(opened):
            return control_change(message, bytes(opened.payload), opened.fields)
        envelope = _envelope(opened.payload)
        source = _source(envelope.source) or _source_by_topic(message.topic)
        if source.connector is None and source.table is None:
            raise Refusal("shape", FLATTENED)
        if envelope.op == "t":
            return _truncated(message, envelope, source)
        operation = _ROWS.get(envelope.op)
        if operation is None:
            raise Refusal("operation", f"op {envelope.op[:40]!r} is none of c, u, d, r, t and m")
        rows = (envelope.after, envelope.before)
        known = topic.plans.get((opened.prefix, source.db, source.schema, source.table))
        plan = self._plans.plan(opened.schema, source, rows, message.key, known)
        try:
            change = self._change(message, plan, envelope, source, operation)
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise _explained(plan, rows, error) from None
        if opened.whole:
            topic.learn(opened.prefix, source, plan)
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
    if "op" not in fields or bytes(fields["op"]) == b'"m"':
        return False
    images = [bytes(fields.get(name, _NULL)) for name in ("before", "after")]
    source = bytes(fields.get("source", _NULL))
    if source[:1] == b"{":
        if any(image[:1] == b'"' for image in images):
            sentence = (
                "a row is a text where an object was expected; documents (MongoDB) are no rows"
            )
            raise Refusal("shape", sentence)
        if all(image[:1] in (b"{", b"n") for image in images):
            return True
    elif source == b"null" and _NAMES.issuperset(fields):
        kinds = {image[:1] for image in images}
        if b"{" in kinds and kinds <= {b"{", b"n"}:
            return True
    raise Refusal("shape", FLATTENED)


def _source_by_topic(topic: str) -> Source:
    """The table as the name of the topic tells it: database and table are its last two parts."""
    parts = topic.split(".")
    return Source(db=parts[-2] if len(parts) > 1 else None, table=parts[-1])


def _truncated(message: Message, envelope: Envelope, source: Source) -> Change:
    sequence = sequence_of(source)
    return Change(
        "truncate",
        intern_schema(source.db, source.schema, source.table),
        message,
        sequence=sequence,
        source_time=source_time(source),
        transaction=None if source.txId is None else str(source.txId),
        extra=_carried(EXTRA, envelope),
    )


def _explained(plan: RowPlan, rows: tuple[Raw, Raw], error: Exception) -> Refusal:
    """The refusal for the first row that the plan cannot read."""
    for row, decode, image in zip(
        rows, (plan.decode_after, plan.decode_before), (plan.after, plan.before), strict=True
    ):
        try:
            found = decode(row)
            if found is not None:
                image(found)
        except (ValueError, ArithmeticError, RecursionError, Refusal) as fault:
            return plan.explain(row, fault)
    return error if isinstance(error, Refusal) else json_refusal(error)


def _carried(head: bytes, envelope: Envelope) -> bytes | None:
    """The fields of the envelope that a Debezium target carries on, as they were sent."""
    source = envelope.source
    if len(source) == _NULL_LENGTH:
        return None
    extra = b"".join(
        (
            head,
            b'"source":',
            source,
            b',"transaction":',
            envelope.transaction,
            b',"ts_ms":',
            envelope.ts_ms,
            b',"ts_us":',
            envelope.ts_us,
            b',"ts_ns":',
            envelope.ts_ns,
            b"}}",
        )
    )
    if not extra.isascii():
        extra.decode()  # bytes that are no UTF-8 must not reach the lake
    return extra


_json = msgspec.json.encode
