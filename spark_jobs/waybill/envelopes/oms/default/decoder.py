"""OceanBase OMS, serialization method Default: both images as typed JSON, one row a message.

Source of the rules: OceanBase documentation "Data formats", sections "Default JSON message format"
and "Data formats used when data is transmitted from OceanBase Database to a message queue
system", in the notation of V3.3.0-CE and later or, by a setting, in that of projects made before.

A LOB column that an update did not touch is null in both images, and a LOB's old value is not to be
relied on (help.aliyun.com, document 400562): null in both images means that the stored value stays.

The messages name neither types nor, reliably, keys. Types come from `tables:` of the migration; a
column that is not declared is what JSON says it is: `number` (never an integer type, because the
next row may have a fraction), `string` or `boolean`, and `unknown` as long as it was only null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from waybill.caches import Bounded
from waybill.envelopes.memory.known_tables import FastFirst
from waybill.envelopes.oms.records import ROWS, seconds
from waybill.envelopes.oms.tables import (
    DERIVED,
    SEQUENCE,
    OmsTable,
    Shape,
    database_of,
    split_tenant,
)
from waybill.envelopes.oms.type_names import logical_type
from waybill.envelopes.oms.values import kind_of
from waybill.envelopes.sequence.settings import settled, with_id
from waybill.envelopes.stated_keys import SEPARATOR, check_stated_key
from waybill.envelopes.truncates import emptied, table_emptied
from waybill.errors import Refusal
from waybill.records import NO_TABLE, Change, intern_schema
from waybill.types import UNKNOWN, LogicalType
from waybill.values.known_columns import News
from waybill.values.values import JSON_ERRORS, check_json, json_refusal

if TYPE_CHECKING:
    from waybill.envelopes.oms.settings import OmsSequencedReadSettings
    from waybill.records import Message
    from waybill.tables import TableRule, TableRules

_NULL = Raw(b"null")
_META, _TABLE, _DB = b'"allMetaData"', b'"table_name":"', b'"db":"'


class _Meta(msgspec.Struct, gc=False):
    """The fields of `allMetaData` that the canonical change takes."""

    table_name: str | None = None
    db: str | None = None
    dbType: str | None = None
    record_primary_key: str | None = None
    record_primary_value: str | int | None = None
    storeDataSequence: SEQUENCE | None = None
    timestamp: str | None = None


class _Record(msgspec.Struct, gc=False):
    """A message of which nothing is known yet."""

    recordType: str
    allMetaData: Raw
    prevStruct: Raw = _NULL
    postStruct: Raw = _NULL


Row = dict[str, Raw] | None
"""An image in the exact way."""

_json = msgspec.json.Encoder().encode
_decode_record = msgspec.json.Decoder(_Record).decode
_decode_meta = msgspec.json.Decoder(_Meta).decode
_decode_names = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_row = msgspec.json.Decoder(dict[str, Raw] | None).decode
_decode_text = msgspec.json.Decoder(str).decode


class OmsDefaultDecoder(FastFirst[OmsTable]):
    """Reads messages of the Default format.

    Args:
        settings: notation, and what null means in a LOB column.
        rules: declared keys and column types.
    """

    def __init__(self, settings: OmsSequencedReadSettings, rules: TableRules) -> None:
        self.settings = settings
        self.rules = rules
        self.earlier = settings.version == "earlier"
        self.lobs = settings.lobs == "unchanged"
        self.in_messages = settings.sequence_ids == "in_messages"
        self.tenant = settings.tenant
        self._shapes: Bounded[Shape, OmsTable] = Bounded()
        # What was compiled for a shape; it is the same in every decoder with the same settings.
        self._made: Bounded[Shape, OmsTable] = Bounded()
        self._columns: dict[tuple[str | None, str], dict[str, LogicalType]] = {}
        self._hints: dict[tuple[bytes, bytes], OmsTable] = {}
        # By the table's name alone; None where several databases have one of that name.
        self._names: dict[bytes, OmsTable | None] = {}
        self._last: OmsTable | None = None
        self._held = False

    def knows(self, message: Message) -> bool:
        """Whether a message tells nothing new about its table."""
        self._held = True
        try:
            self.decode(message)
        except News:
            return False
        except Refusal:
            return True
        finally:
            self._held = False
        return True

    def fresh(self) -> OmsDefaultDecoder:
        """A decoder with the same settings that has read nothing."""
        made = type(self)(self.settings, self.rules)
        made._made = self._made
        return made

    def columns_of(self, database: str | None, table: str) -> tuple[tuple[str, LogicalType], ...]:
        """Columns and types of a table (its `db` and `table_name`) as it was seen last."""
        return tuple(self._columns.get((database, table), {}).items())

    def _probable(self, value: bytes) -> OmsTable | None:
        return self._last if len(self._hints) == 1 else self._hinted(value)

    def _hinted(self, value: bytes) -> OmsTable | None:
        """The table that a message is probably about, by names in its `allMetaData`."""
        start = max(value.find(_META), 0)
        at = value.find(_TABLE, start) + len(_TABLE)
        name = value[at : value.find(b'"', at)]
        table = self._names.get(name)
        if table is not None:
            return table
        at = value.find(_DB, start) + len(_DB)
        return self._hints.get((value[at : value.find(b'"', at)], name))

    def _slow(self, message: Message, value: bytes) -> list[Change]:
        check_json(value)
        try:
            record = _decode_record(value)
            meta = _decode_meta(record.allMetaData)
            before, after = _decode_row(record.prevStruct), _decode_row(record.postStruct)
        except JSON_ERRORS as error:
            raise json_refusal(error) from None
        if meta.storeDataSequence is not None and not self.in_messages:
            raise with_id("storeDataSequence")
        light = self._light(before, after)
        extra = self._extra(meta, _decode_names(record.allMetaData))
        if record.recordType in ROWS:
            images = before or None, after or None
            return [self._row(message, value, record, meta, images, light, extra)]
        if record.recordType == "HEARTBEAT":
            _refuse_row("HEARTBEAT", prevStruct=before, postStruct=after)
            return [_event(message, meta, self._place(meta), "heartbeat", extra)]
        if record.recordType == "DDL":
            _refuse_row("DDL", prevStruct=before)
            return [_ddl(message, meta, self._place(meta), after, extra)]
        raise Refusal("operation", f"OMS has no record type {record.recordType[:40]!r}")

    def _light(self, before: Row, after: Row) -> Raw | None:
        """What the images say about the types of their columns; it is taken out of them."""
        return None

    def _type_names(self, light: Raw | None) -> dict[str, str | None]:
        """The type names in it, by column."""
        return {}

    def _extra(self, meta: _Meta, fields: dict[str, Raw]) -> bytes:
        """What only an OMS target can carry on."""
        kept = {
            name: raw
            for name, raw in fields.items()
            if name not in DERIVED and name != "storeDataSequence"
        }
        if database_of(meta.db, meta.dbType, self.tenant) == meta.db:
            kept.pop("db", None)
        return b'{"oms":%b}' % _json(kept)

    def _place(self, meta: _Meta) -> tuple[str | None, str | None]:
        """Database and table that a message names."""
        return database_of(meta.db, meta.dbType, self.tenant), meta.table_name or None

    def _row(
        self,
        message: Message,
        value: bytes,
        record: _Record,
        meta: _Meta,
        images: tuple[Row, Row],
        light: Raw | None,
        extra: bytes,
    ) -> Change:
        kind = record.recordType
        before, after = images
        needed, other = (before, after) if kind == "DELETE" else (after, before)
        if needed is None:
            missing = "prevStruct" if kind == "DELETE" else "postStruct"
            raise Refusal("shape", f"{kind} without {missing}")
        if other is not None and kind != "UPDATE":
            raise Refusal("shape", f"{kind} with prevStruct and postStruct")
        if not meta.table_name:
            raise Refusal("shape", "a message with a row names no table in table_name")
        table = self._table_of(value, meta, after or {}, before or {}, light)
        old = None if before is None else table.image(before)
        new = None if after is None else table.image(after)
        if old is not None and new is not None:
            table.forget(old, new)
        if table.key_text is not None and meta.record_primary_value not in (None, ""):
            key_values = str(meta.record_primary_value).split(SEPARATOR)
            check_stated_key(table.schema, (new, old), key_values, "record_primary_value")
        sequence = meta.storeDataSequence
        operation = ROWS[kind]
        change = Change(
            operation,
            table.schema,
            message,
            before=old,
            after=new,
            sequence=None if sequence is None else (sequence,),
            full_row=operation == "read" and sequence is None,
            source_time=seconds(meta.timestamp),
            extra=extra,
        )
        return settled(change, "storeDataSequence", self.in_messages, timed=True)

    def _table_of(
        self,
        value: bytes,
        meta: _Meta,
        after: dict[str, Raw],
        before: dict[str, Raw],
        light: Raw | None,
    ) -> OmsTable:
        """The table that a message describes, made now if it is new."""
        database, name = database_of(meta.db, meta.dbType, self.tenant), meta.table_name or ""
        rule = self.rules.find(database, None, name)
        known = self._columns.get((meta.db, name), {})
        names = tuple(dict.fromkeys((*after, *before)))
        self.rules.admit(len(names), database, None, name)
        if known.keys() == set(names):
            names = tuple(known)
        stated = self._type_names(light)
        said = {n: rule.columns.get(n) or logical_type(stated.get(n), self.earlier) for n in names}
        types = tuple(
            said[column] or _inferred(column, after, before, known.get(column)) for column in names
        )
        top = _decode_names(value)
        columns = dict(zip(names, types, strict=True))
        if self._held and columns != known:
            raise News
        shape = Shape(
            tuple(top),
            tuple(_decode_names(top["allMetaData"])),
            meta.db,
            name,
            meta.dbType,
            meta.record_primary_key,
            names,
            types,
            _key_of(meta, database, names, rule),
            tuple(said[column] is None for column in names),
            tuple(stated.get(column) for column in names),
            None if light is None else bytes(light),
        )
        table = self._shapes.get(shape)
        if table is None:
            table = self._made.get(shape)
            if table is None:
                table = self._made[shape] = OmsTable(
                    shape, self.earlier, self.lobs, self.in_messages, self.tenant
                )
            if self._shapes.starts_over_with(shape, table):
                if self._held:
                    raise News
                self._columns.clear()
                self._hints.clear()
                self._names.clear()
            self._shapes[shape] = table
        self._columns[meta.db, name] = columns
        if table.fast:
            hint = _json(meta.db or "")[1:-1], _json(name)[1:-1]
            if hint not in self._hints and hint[1] in self._names:
                self._names[hint[1]] = None
            elif self._names.get(hint[1], table) is not None:
                self._names[hint[1]] = table
            self._hints[hint] = self._last = table
        return table


def _inferred(
    name: str, after: dict[str, Raw], before: dict[str, Raw], known: LogicalType | None
) -> LogicalType:
    """The type of a column that is not declared.

    Raises:
        Refusal: the two images disagree, or hold an object.
    """
    found = {kind_of(image[name]) for image in (after, before) if name in image} - {UNKNOWN}
    if len(found) > 1:
        kinds = " and ".join(sorted(str(kind) for kind in found))
        raise Refusal("schema", f"column {name!r} holds {kinds} in one message; declare its type")
    return found.pop() if found else known or UNKNOWN


def _key_of(
    meta: _Meta, database: str | None, names: tuple[str, ...], rule: TableRule
) -> tuple[str, ...]:
    """The key columns, as declared or as the message says; none for a table without key.

    Raises:
        Refusal: the message names key columns that the row does not have. Guessing others could
            mix up rows, so the key has to be declared.
    """
    if rule.key is not None:
        return rule.key
    key = tuple((meta.record_primary_key or "").split(SEPARATOR)) if meta.record_primary_key else ()
    missing = [column for column in key if column not in names]
    if missing:
        table = ".".join(filter(None, (database, meta.table_name)))
        sentence = f"record_primary_key names {missing[0]!r}, which the row does not have; "
        raise Refusal("key", f"{sentence}declare the key of {table} under tables")
    return key


def _event(
    message: Message,
    meta: _Meta,
    names: tuple[str | None, str | None],
    operation: str,
    extra: bytes,
    ddl: str | None = None,
) -> Change:
    database, table = names
    schema = intern_schema(database, None, table) if database or table else NO_TABLE
    sequence = meta.storeDataSequence
    return Change(
        operation,
        schema,
        message,
        sequence=None if sequence is None else (sequence,),
        source_time=seconds(meta.timestamp),
        ddl_text=ddl,
        extra=extra,
    )


def _refuse_row(kind: str, **images: Row) -> None:
    """Refuse an event that holds a row: nobody would see it."""
    for name, image in images.items():
        if image:
            raise Refusal("shape", f"{kind} with a row in {name}, which it cannot have")


def _ddl(
    message: Message,
    meta: _Meta,
    names: tuple[str | None, str | None],
    image: Row,
    extra: bytes,
) -> Change:
    """A DDL record; TRUNCATE is recognised by its text, there is no type of its own."""
    if image is None or image.keys() != {"ddl"}:
        raise Refusal("shape", "DDL whose postStruct is not the statement under the name ddl")
    try:
        text = _decode_text(image["ddl"])
    except JSON_ERRORS as error:
        raise json_refusal(error) from None
    named = emptied(text, meta.dbType)
    if named is None:
        return _event(message, meta, names, "ddl", extra, text or None)
    # A statement names the database without its tenant.
    db_type = meta.dbType if names[0] == meta.db else None
    tenant, database = split_tenant(names[0], db_type, named.database)
    found, table = table_emptied(named, database, names[1])
    return _event(message, meta, (f"{tenant}{found or ''}" or None, table), "truncate", extra, text)
