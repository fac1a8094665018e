"""Reads records of TUPLE topics, in both notations.

A record is `{"Data": […], "Attributes": {…}}` with a string or null for each field of the topic's
schema, as the service's REST form gives it, or an object by column name. Two records with one
sequence id are the halves of an update (DataHub message formats, section Tuple data format).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw

from waybill.caches import Bounded
from waybill.counting import counted
from waybill.envelopes.datahub.blob.operations import FULL_ROW_ID, MAX_ID_DIGITS
from waybill.envelopes.datahub.tuple.rows import (
    MEMBERS,
    Fast,
    Metadata,
    Row,
    TableReaders,
    decode_record,
    fast_object,
    fast_record,
    forms_of,
)
from waybill.envelopes.datahub.tuple.topics import OPERATION, SEQUENCE, TABLE, TIMES, Topics
from waybill.envelopes.datahub.tuple.values import MAX_MICROS, text_of
from waybill.envelopes.memory.remembering import Remembering
from waybill.envelopes.sequence.settings import with_id, without_id
from waybill.errors import Refusal
from waybill.order import AFTER, BEFORE
from waybill.records import Change, Message
from waybill.types import LAST_MICRO
from waybill.values.declared import shown
from waybill.values.instants import Zone
from waybill.values.known_columns import News
from waybill.values.values import JSON_ERRORS, check_json, is_integer_text, json_refusal

if TYPE_CHECKING:
    from waybill.envelopes.datahub.tuple.rows import Forms, TableReader
    from waybill.envelopes.datahub.tuple.settings import TupleReadSettings
    from waybill.envelopes.datahub.tuple.topics import Field as TopicField
    from waybill.records import TableSchema
    from waybill.tables import TableName, TableRules

ABSENT = "waybill.absent"
"""Attribute that names the columns that a record's `Data` had to hold a null for."""


_FEW_FORMS = 1_000
_TABLE = b'"%b":"' % TABLE.encode()
_decode_row = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_data = msgspec.json.Decoder(list[Raw]).decode
_decode_attributes = msgspec.json.Decoder(dict[str, str] | None).decode
_decode_absent = msgspec.json.Decoder(list[str]).decode


class TupleDecoder(Remembering):
    """Reads records of TUPLE topics.

    Args:
        settings: the topics' schemas.
        rules: declared keys and column types.
    """

    def __init__(self, settings: TupleReadSettings, rules: TableRules) -> None:
        self.settings = settings
        self.topics = Topics(settings.schemas)
        self.rules = rules
        self.zone = Zone(settings.timezone)
        self.in_messages = settings.sequence_ids == "in_messages"
        self.memory = self._tables = TableReaders(rules, self.zone)
        self._objects: Bounded[tuple[str, bytes], Fast] = Bounded()
        self._records: Bounded[tuple[str, str | None], Fast] = Bounded()
        self._table_at: Bounded[str, int] = Bounded()
        self._made: Bounded[tuple[Any, ...], Fast] = Bounded()

    def schemas(self, message: Message, schema: TableSchema) -> set[TableSchema]:
        """See `Remembering.schemas`; topics may decide, and the order of the columns."""
        if len(self._objects) > _FEW_FORMS:
            raise News(apart=True)
        name = schema.database, schema.schema, schema.table
        known = {fast.reader.schema for fast in self._objects.values()}
        return {schema, *(s for s in known if (s.database, s.schema, s.table) == name)}

    def decode(self, message: Message) -> list[Change]:
        """The change of one record; half of an update is marked as `half`.

        Raises:
            Refusal: the record cannot be taken.
        """
        value = _value_of(message)
        try:
            change = self._as_before(message, value)
        except (Refusal, *JSON_ERRORS):
            change = None  # the exact way below finds out what is wrong
        return [change or self._read(message, value)]

    def exact(self, message: Message) -> list[Change]:
        """See `protocol.Shortened`."""
        return [self._read(message, _value_of(message))]

    def _as_before(self, message: Message, value: bytes) -> Change | None:
        """The change of a record like one before it, None if it is another one."""
        at = value.find(_TABLE)
        if at >= 0:
            start = at + len(_TABLE)
            fast = self._objects.get((message.topic, value[start : value.find(b'"', start)]))
            wire = None if fast is None else fast.decode(value)
        else:
            if not self._records:
                return None
            wire = decode_record(value)
            if wire is None or wire.Attributes:
                return None
            at = self._table_at.get(message.topic, -1)
            name = wire.Data[at] if 0 <= at < len(wire.Data) else None
            fast = self._records.get((message.topic, name))
        if fast is None or wire is None:
            return None
        metadata, image = fast.read(wire)
        return change_of(message, fast.reader, metadata, image, fast.time_kind, self.in_messages)

    def _read(self, message: Message, value: bytes) -> Change:
        """The change of any record.

        Raises:
            Refusal: says what is wrong.
        """
        check_json(value)
        try:
            row = _decode_row(value)
        except JSON_ERRORS as error:
            raise json_refusal(error) from None
        fields = self.topics.find(message.topic)
        attributes: dict[str, str] = {}
        data = row.get("Data")
        is_record = OPERATION not in row and data is not None
        if is_record:
            attributes = _attributes(row.get("Attributes"))
            row = _row_of(data or Raw(), fields)
        elif OPERATION not in row:
            sentence = f"a record has Data, or columns by name with {OPERATION}"
            raise Refusal("shape", sentence)
        forms = forms_of(row)
        if set(TIMES).issubset(row):
            raise Refusal("shape", f"{TIMES[0]} and {TIMES[1]} are two names of one column")
        metadata = _metadata(row)
        if not row:
            raise Refusal("shape", "a row without columns")
        time_kind = time_kind_of(fields)
        place = self.place(metadata.table, message)
        if fields is None:
            table = self._tables.of_row(place, row)
        else:
            table = self._tables.of_fields(place, fields, row)
        image = table.image(row)
        absent = attributes.pop(ABSENT, None)
        _leave_out(table, image, absent)
        change = change_of(message, table, metadata, image, time_kind, self.in_messages)
        if fields is None:
            self._tables.keep(table.schema)
        if attributes:
            change.extra = msgspec.json.encode({"datahub": {"attributes": attributes}})
        elif absent is None and not self.memory.held:
            self._learn(message.topic, metadata.table, table, None if is_record else forms, fields)
        return change

    def _learn(
        self,
        topic: str,
        name: str | None,
        table: TableReader,
        forms: Forms | None,
        fields: tuple[TopicField, ...] | None,
    ) -> None:
        """Let records like this one go the known-table way."""
        identity = (table, forms, fields)
        fast = self._made.get(identity)
        if fast is None:
            if forms is not None:
                fast = fast_object(table, forms, time_kind_of(fields))
            else:
                fast = fast_record(table, fields or (), time_kind_of(fields))
            self._made[identity] = fast
        if forms is None:
            names = [field.name for field in fields or ()]
            self._table_at[topic] = names.index(TABLE) if TABLE in names else -1
            self._records[topic, name] = fast
        elif name is not None:
            self._objects[topic, msgspec.json.encode(name)[1:-1]] = fast

    def place(self, name: str | None, message: Message) -> TableName:
        """The table: as `_source_table_` says, else as the topic is called."""
        text = name or message.topic
        parts: list[str | None] = [text]
        if self.settings.source_table == "qualified":
            parts = [part or None for part in text.split(".", 2)]
        table = parts[-1]
        if not table:
            raise Refusal("shape", f"{TABLE} is {shown(text)} and names no table")
        database = parts[0] if len(parts) > 1 else None
        return database or self.settings.database, parts[1] if len(parts) > 2 else None, table


def time_kind_of(fields: tuple[TopicField, ...] | None) -> str | None:
    """The DataHub type of the time of the change, None where no schema tells it."""
    return next((field.type for field in fields or () if field.name in TIMES), None)


def _value_of(message: Message) -> bytes:
    if message.value is None:
        raise Refusal("json", "the message has no value; a record is a JSON object")
    return message.value


def _attributes(raw: Raw | None) -> dict[str, str]:
    if raw is None:
        return {}
    try:
        return _decode_attributes(raw) or {}
    except JSON_ERRORS as error:
        raise Refusal("shape", f"Attributes are not texts by name: {error}") from None


def _row_of(data: Raw, fields: tuple[TopicField, ...] | None) -> Row:
    """The values of `Data` by the names of the topic's fields."""
    if fields is None:
        sentence = "the values of Data have no names: give the topic's schema by the setting"
        raise Refusal("schema", f"{sentence} `schemas` or by source.schemas")
    try:
        values = _decode_data(data)
    except JSON_ERRORS as error:
        raise Refusal("shape", f"Data is no array: {error}") from None
    if len(values) != len(fields):
        here, there = counted(len(values), "value"), counted(len(fields), "field")
        sentence = f"Data has {here} and the topic's schema {there}"
        raise Refusal("schema", sentence)
    return {field.name: value for field, value in zip(fields, values, strict=True)}


def _metadata(row: Row) -> Metadata:
    """What the metadata columns say; they are taken out of the row.

    Raises:
        Refusal: one cannot be read.
    """
    found: dict[str, str | None] = dict.fromkeys(Metadata._fields)
    for name, member in MEMBERS.items():
        raw = row.pop(name, None)
        if raw is None:
            continue
        try:
            # Numbers are the same text without quotes: ids and times are met so.
            numeric = member in ("sequence", "time")
            found[member] = text_of(raw, "DECIMAL" if numeric else "STRING")
        except Refusal as refusal:
            raise Refusal("shape", f"{name}: {refusal.sentence}") from None
    return Metadata(**found)


def _leave_out(table: TableReader, image: Any, names: str | None) -> None:
    if names is None:
        return
    try:
        absent = _decode_absent(names)
        fields = [f"f{table.schema.index[name]}" for name in absent]
    except (KeyError, *JSON_ERRORS):
        sentence = f"the attribute {ABSENT} is no array of columns: {shown(names)}"
        raise Refusal("shape", sentence) from None
    for field in fields:
        if getattr(image, field) is not None:
            raise Refusal("shape", f"the attribute {ABSENT} names a column that has a value")
        setattr(image, field, UNSET)


# The change

_KINDS: dict[tuple[str | None, ...], tuple[str, bool]] = {
    ("I", "N", "Y"): ("insert", False),
    ("I", None, None): ("insert", False),
    ("U", "Y", "N"): ("update", True),
    ("U", "N", "Y"): ("update", False),
    ("D", "Y", "N"): ("delete", True),
    ("D", None, None): ("delete", True),
}
"""From operation and flags to the operation, and whether the row is the one before."""

_NO_TIME = "-1"
_FULL = 13
"""Digits of milliseconds from 2001 to 2286."""


def change_of(
    message: Message,
    table: TableReader,
    metadata: Metadata,
    image: Any,
    time_kind: str | None,
    in_messages: bool,
) -> Change:
    """The change of a record.

    Args:
        message: where it came from.
        table: its table.
        metadata: its metadata columns.
        image: its row.
        time_kind: the DataHub type of the time of the change, None where no schema tells it.
        in_messages: changes of the topic have a sequence id.

    Raises:
        Refusal: the metadata columns do not go together.
    """
    number, name, time, _, before, after = metadata
    kind = _KINDS.get((name, before, after))
    if kind is None:
        raise _wrong_operation(metadata)
    operation, is_before = kind
    moment = _moment(time, time_kind)
    before, after = (image, None) if is_before else (None, image)
    change = Change(
        operation, table.schema, message, before=before, after=after, source_time=moment
    )
    if not number:
        if in_messages:
            raise without_id(SEQUENCE, operation.upper())
        if is_before and operation == "update":
            sentence = "a before image without _sequence_id_ cannot find its after image"
            raise Refusal("pair", sentence)
        return change
    if number.isdecimal() and number.isascii() and len(number) <= MAX_ID_DIGITS:
        if not in_messages:
            raise with_id(SEQUENCE)
        change.sequence = (int(number),)
        if operation == "update":
            change.half, change.rank = ("before", BEFORE) if is_before else ("after", AFTER)
        return change
    if number != FULL_ROW_ID:
        sentence = f"_sequence_id_ must be digits, or {FULL_ROW_ID} for a full row"
        raise Refusal("shape", sentence)
    if operation != "insert":
        raise Refusal("shape", f"_sequence_id_ {FULL_ROW_ID} marks full rows, which are inserts")
    change.operation, change.full_row = "read", True
    return change


def _moment(time: str | None, kind: str | None) -> int | None:
    """Microseconds of the time of a change; the usual notation is read here."""
    if time is not None and len(time) == _FULL and time.isdecimal() and time.isascii():
        return int(time) if kind == "TIMESTAMP" else int(time) * 1000
    return _source_time(time, kind)


def _wrong_operation(metadata: Metadata) -> Refusal:
    if metadata.operation not in ("I", "U", "D"):
        kind = "none" if metadata.operation is None else repr(metadata.operation[:40])
        return Refusal("operation", f"{OPERATION} is {kind}, and I, U and D are what it can be")
    flags = ", ".join(str(flag)[:10] for flag in (metadata.before, metadata.after))
    sentence = f"_before_image_ and _after_image_ are {flags}, which no {metadata.operation} has"
    return Refusal("shape", sentence)


def _source_time(text: str | None, kind: str | None) -> int | None:
    """Microseconds: as they are in a TIMESTAMP, else from milliseconds; full rows have -1."""
    if not text:
        return None
    if len(text) > MAX_MICROS or is_integer_text(text) is None:
        raise Refusal("shape", f"the time of the change is {shown(text)} and not in digits")
    moment = int(text)
    if kind != "TIMESTAMP":
        moment *= 1000
    if text == _NO_TIME:
        return None
    if not 0 <= moment <= LAST_MICRO:
        sentence = f"the time of the change, {text}, is not between the years 1970 and 9999"
        raise Refusal("shape", sentence)
    return moment
