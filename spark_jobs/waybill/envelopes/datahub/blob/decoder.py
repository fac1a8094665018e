"""Reads DataHub BLOB messages: the exact way, which takes every notation that is accepted.

Most messages go the known-table way of `frames`; the first one of each kind comes here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from waybill.caches import Bounded
from waybill.envelopes.datahub.blob.frames import EVENT_TIME, Frame, Members, Unusual
from waybill.envelopes.datahub.blob.operations import (
    EVENTS,
    FULL_ROW_ID,
    MAX_ID_DIGITS,
    NOTHING_CARRIED,
    ROWS,
    extra_template,
    finish_row,
    is_row_statement,
    sequence_text,
    wrong_images,
    wrong_sequence,
)
from waybill.envelopes.datahub.blob.schemas import ReadTable, SchemaWire, decode_schema
from waybill.envelopes.sequence.settings import with_id
from waybill.envelopes.truncates import check_emptied, of_partition
from waybill.errors import Refusal
from waybill.records import ROW_OPERATIONS, Change, Message
from waybill.values.instants import Zone
from waybill.values.values import JSON_ERRORS, check_json, json_refusal

if TYPE_CHECKING:
    from waybill.envelopes.datahub.blob.settings import ReadSettings
    from waybill.records import TableSchema
    from waybill.tables import TableRules


class _Times(msgspec.Struct, gc=False):
    eventTime: EVENT_TIME
    systemTime: int | UnsetType | None = UNSET
    checkpointTime: int | UnsetType | None = UNSET


class _Ddl(msgspec.Struct, gc=False):
    text: str | None = None
    ddlMeta: str | None = None


class _Payload(msgspec.Struct, gc=False):
    op: str
    timestamp: _Times
    before: Raw | UnsetType = UNSET
    after: Raw | UnsetType = UNSET
    sequenceId: str | int | UnsetType | None = UNSET
    ddl: _Ddl | UnsetType | None = UNSET


class _Wire(msgspec.Struct, gc=False):
    payload: _Payload
    schema: Raw | UnsetType = UNSET
    version: str | None = None


_message = msgspec.json.Decoder(_Wire)
_row = msgspec.json.Decoder(dict[str, Raw] | None)
_PAYLOAD, _SCHEMA = b',"payload":', b',"schema":'


def _place(value: bytes) -> int:
    """Where the frame of a message ends or begins: frames are looked up by it."""
    at = value.find(_PAYLOAD)
    return at if at > 0 else value.rfind(_SCHEMA) - len(value)


class BlobDecoder:
    """Reads DataHub BLOB messages."""

    def __init__(self, settings: ReadSettings, rules: TableRules) -> None:
        self.zone = Zone(settings.timezone)
        self.rules = rules
        self.in_messages = settings.sequence_ids == "in_messages"
        self._tables: Bounded[bytes, ReadTable] = Bounded()
        self._frames: dict[int, list[Frame]] = {}
        self._last: Frame | None = None

    def decode(self, message: Message) -> list[Change]:
        """The change of one message; half of an update is marked as `half`."""
        value = _value_of(message)
        frame = self._last
        if frame is None or not (value.startswith(frame.head) and value.endswith(frame.tail)):
            known = self._frames.get(_place(value), ())
            self._last = frame = next((frame for frame in known if frame.fits(value)), None)
        if frame is not None:
            try:
                return [frame.read(message, value)]
            except Unusual:
                pass
        return [self._read(message, value)]

    def exact(self, message: Message) -> list[Change]:
        """See `protocol.Shortened`."""
        return [self._read(message, _value_of(message))]

    def _read(self, message: Message, value: bytes) -> Change:
        """The change of a message in any notation that is accepted.

        Raises:
            Refusal: says what is wrong.
        """
        check_json(value)
        try:
            wire = _message.decode(value)
            text = b"{}" if wire.schema is UNSET else bytes(wire.schema)
            table = self._table(text)
        except JSON_ERRORS as error:
            raise json_refusal(error) from None
        payload = wire.payload
        about: dict[str, Any] = {"version": wire.version, **table.source}
        if payload.op in ROWS:
            change = _row_change(message, table, payload, self.in_messages)
            if self.in_messages:
                self._learn(value, text, table, about, payload, change)
        elif payload.op in EVENTS:
            _no_rows(payload)
            ddl = payload.ddl or _Ddl()
            change = _event(message, table.schema, payload, ddl.text or None)
            if change.sequence is not None and not self.in_messages:
                raise with_id("payload.sequenceId")
            if change.operation in ("ddl", "other"):
                about["op"] = payload.op
            about["ddlMeta"] = ddl.ddlMeta or None
        else:
            raise Refusal("operation", f"there is no operation {payload.op[:60]!r}")
        times = payload.timestamp
        about_times = type(times.systemTime) is int, type(times.checkpointTime) is int
        change.extra = extra_template(*about_times, about)(times)
        unnumbered = change.sequence is None and change.operation not in ROW_OPERATIONS
        if change.extra is None and unnumbered:
            # A target has to know that rows beside this event have sequence ids.
            change.extra = NOTHING_CARRIED
        return change

    def _table(self, text: bytes) -> ReadTable:
        table = self._tables.get(text)
        if table is None:
            table = ReadTable(decode_schema(text) or SchemaWire(), self.rules, self.zone)
            if self._tables.starts_over_with(text, table):
                self._frames.clear()
            self._tables[text] = table
        return table

    def _learn(
        self,
        value: bytes,
        text: bytes,
        table: ReadTable,
        about: dict[str, Any],
        payload: _Payload,
        change: Change,
    ) -> None:
        """Let messages like this go the known-table way; real ones have the payload last or first.

        The first one of a schema may be the only one.
        """
        if not table.repeats():
            return
        members = _members(payload, change)
        version = about["version"]
        end = b"}" if version is None else b',"version":' + msgspec.json.encode(version) + b"}"
        for head, tail in (
            (b'{"schema":' + text + _PAYLOAD, end),
            (b'{"payload":', _SCHEMA + text + end),
        ):
            if members is None or not (value.startswith(head) and value.endswith(tail)):
                continue
            known = self._frames.setdefault(_place(value), [])
            frame = next((frame for frame in known if frame.fits(value)), None)
            if frame is None:
                frame = Frame(head, tail, table)
                known.append(frame)
            frame.learn(members, about)


def _value_of(message: Message) -> bytes:
    if message.value is None:
        raise Refusal("json", "the message has no value; a BLOB message is a JSON object")
    return message.value


def _members(payload: _Payload, change: Change) -> Members | None:
    """What the known-table way has to know of a payload; None where it cannot take it."""
    times = payload.timestamp
    if times.systemTime is None or times.checkpointTime is None or payload.ddl:
        return None
    if not isinstance(payload.sequenceId, str | int):
        return None
    images = [image for image in (change.before, change.after) if image is not None]
    return Members(
        ddl=payload.ddl is None,
        integer=isinstance(payload.sequenceId, int),
        system=times.systemTime is not UNSET,
        checkpoint=times.checkpointTime is not UNSET,
        partial=any(UNSET in msgspec.structs.astuple(image) for image in images),
    )


def _row_change(message: Message, table: ReadTable, payload: _Payload, in_messages: bool) -> Change:
    if table.refusal is not None:
        raise table.refusal
    op = payload.op
    if payload.ddl and (payload.ddl.text or payload.ddl.ddlMeta):
        # Nobody would see it.
        raise Refusal("shape", f"payload.ddl must be empty in a message of {op}")
    before = _image(table, "before", payload.before)
    after = _image(table, "after", payload.after)
    operation, needs_before, needs_after = ROWS[op]
    if needs_after is (after is None) or needs_before is (before is None):
        raise wrong_images(op, before, after)
    change = Change(operation, table.schema, message, before=before, after=after)
    change.source_time = _source_time(payload)
    return finish_row(change, op, payload.sequenceId, in_messages)


def _image(table: ReadTable, name: str, raw: Raw | UnsetType) -> Any:
    """An image; None where it is absent, null or without a column."""
    try:
        row = (None if isinstance(raw, UnsetType) else _row.decode(raw)) or {}
    except JSON_ERRORS as error:
        raise json_refusal(error) from None
    strange = [other for other in row if other != "dataColumn"]
    if strange:
        raise Refusal("shape", f"payload.{name} cannot have a member {strange[0][:60]!r}")
    columns = row.get("dataColumn")
    if columns is None or bytes(columns) == b"null":
        return None
    image = table.reader.read(columns)
    return None if image == table.empty else image


def _no_rows(payload: _Payload) -> None:
    """Refuse an event that holds a row: nobody would see it."""
    for name, raw in (("before", payload.before), ("after", payload.after)):
        try:
            row = (None if isinstance(raw, UnsetType) else _row.decode(raw)) or {}
            held = any(_row.decode(columns) for columns in row.values())
        except JSON_ERRORS as error:
            raise json_refusal(error) from None
        if held:
            raise Refusal("shape", f"payload.{name} must be empty in a message of {payload.op}")


def _source_time(payload: _Payload) -> int | None:
    """Microseconds; full rows have -1, which is no time."""
    moment = payload.timestamp.eventTime
    return moment * 1000 if moment >= 0 else None


def _event(message: Message, schema: TableSchema, payload: _Payload, text: str | None) -> Change:
    """A change without a row.

    QUERY holds the statement behind a change of rows, or one that defines something: only the
    latter is a `ddl`, because a target may execute it.

    Raises:
        Refusal: a TRUNCATE names no table, or its statement another one, or the sequence id is
            wrong.
    """
    operation = EVENTS[payload.op]
    if operation == "truncate" and of_partition(text, None):
        operation = "ddl"
    if operation == "truncate" and schema.table is None:
        raise Refusal("shape", "a TRUNCATE needs schema.source.tableName: the table it empties")
    if operation == "truncate":
        check_emptied(text, None, (schema.database, schema.schema), schema.table or "")
    if payload.op == "QUERY" and (text is None or is_row_statement(text)):
        operation = "other"
    number = sequence_text(payload.sequenceId)
    if number == FULL_ROW_ID:
        number = None
    if number is not None and not (
        number.isdigit() and number.isascii() and len(number) <= MAX_ID_DIGITS
    ):
        raise wrong_sequence()
    return Change(
        operation,
        schema,
        message,
        sequence=None if number is None else (int(number),),
        source_time=_source_time(payload),
        ddl_text=text,
    )
