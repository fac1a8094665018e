"""OceanBase OMS, serialization method DataWorks (version 2.0): rows beside the types of columns.

Source of the rules: OceanBase documentation "Data formats", section "Dataworks-compatible JSON
message format", and its samples. The operations are those of DataWorks' messages in DataHub
(`waybill.envelopes.datahub`), but for UPDATE, which holds both images, and HEARTBEAT; the members
and the values are others. `scn` is a text that may be "null". A time may be a number of
milliseconds with nanoseconds after a point, or stand as elsewhere in OMS.

The types in `schema` are OMS' names or those of MySQL with sizes. In the samples they are those of
other columns than the row has: a column without a type is what JSON says.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from waybill.envelopes.datahub.blob import operations
from waybill.envelopes.memory.known_tables import FastByTable
from waybill.envelopes.oms.dataworks.messages import (
    MOMENTS,
    NULL,
    SchemaWire,
    Source,
    WireMessage,
    check_images,
    columns_of,
    database_in,
    sequence_of,
    times_of,
)
from waybill.envelopes.oms.dataworks.values import dataworks_style
from waybill.envelopes.oms.tables import split_tenant
from waybill.envelopes.oms.typed import TypedTable, TypedTables
from waybill.envelopes.sequence.settings import settled, with_id
from waybill.envelopes.statements import operation_of
from waybill.envelopes.truncates import check_emptied, of_partition
from waybill.errors import Refusal
from waybill.records import NO_TABLE, Change, TableSchema, intern_schema
from waybill.values.known_messages import KnownMessage, strict
from waybill.values.temporal import zone_named
from waybill.values.values import JSON_ERRORS, check_json, in_one_line, json_refusal

if TYPE_CHECKING:
    from waybill.envelopes.oms.settings import ZonedSequencedReadSettings
    from waybill.records import Message
    from waybill.tables import TableRules

ROWS = {"INSERT": "insert", "UPDATE": "update", "DELETE": "delete"}
"""Operations with a row."""

EVENTS = {**operations.EVENTS, "HEARTBEAT": "heartbeat"}
"""Operations without a row."""

_ROW_OP: Any = Literal[tuple(ROWS)]
_DATABASE, _TABLE = b'"dbName":"', b'"table":"'
_MAX_FORMS = 50


_json = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(WireMessage).decode
_decode_schema = msgspec.json.Decoder(SchemaWire | None).decode


class OmsDataworksDecoder(FastByTable["_TableDecoder"]):
    """Reads messages of the DataWorks format.

    Args:
        settings: notation, and the zone of wall clocks that stand as numbers.
        rules: declared keys and column types, which go before what the message says.
    """

    def __init__(self, settings: ZonedSequencedReadSettings, rules: TableRules) -> None:
        style = dataworks_style(settings.version, zone_named(settings.timezone))
        self.typed = TypedTables(settings, rules, style)
        self.in_messages = settings.sequence_ids == "in_messages"
        self.tenant = settings.tenant
        super().__init__()

    def _hint(self, value: bytes) -> tuple[bytes, bytes]:
        """A quote inside a string is escaped, so what is found are names."""
        names = []
        for name in (_DATABASE, _TABLE):
            at = value.find(name) + len(name)
            names.append(value[at : value.find(b'"', at)])
        return names[0], names[1]

    def _slow(self, message: Message, value: bytes) -> list[Change]:
        return [self._single(message, value)]

    def _single(self, message: Message, value: bytes) -> Change:
        check_json(value)
        try:
            parsed = _decode(value)
            schema = _decode_schema(parsed.schema) or SchemaWire()
        except JSON_ERRORS as error:
            raise json_refusal(error) from None
        if parsed.version != "2.0":
            raise Refusal(
                "shape", f"version {parsed.version[:20]!r} is not 2.0, the only one known"
            )
        op = parsed.payload.op
        if op in ROWS:
            return self._row(message, parsed, schema)
        if op in EVENTS:
            return _event(message, parsed, schema, self.in_messages, self.tenant)
        raise Refusal("operation", f"OMS DataWorks has no op {op[:40]!r}")

    def _row(self, message: Message, parsed: WireMessage, schema: SchemaWire) -> Change:
        payload, source = parsed.payload, schema.source or Source()
        if not source.table:
            raise Refusal("shape", "a message with a row names no table in schema.source")
        before, after = columns_of(payload.before, "before"), columns_of(payload.after, "after")
        check_images(payload.op, before, after)
        if payload.ddl is not None and payload.ddl.text:
            # Nobody would see it.
            raise Refusal("shape", f"{payload.op} with a statement in ddl, which rows do not have")
        types = {column.name: column.type for column in schema.column or ()}
        if any(types[column.name] != column.type for column in schema.column or ()):
            raise Refusal("schema", "a column stands twice in schema.column, with different types")
        name = database_in(source, self.tenant), source.schema or None, source.table
        rows = (after or {}, before or {})
        found = self.typed.find(name, types, rows, tuple(schema.pk or ()))
        table = self._learn(parsed, source, found)
        reader = found.reader
        old, new = (None if row is None else reader.image(row) for row in (before, after))
        return table.change(message, payload, parsed.extend, old, new)

    def _learn(self, parsed: WireMessage, source: Source, found: TypedTable) -> _TableDecoder:
        """The table of these messages; like the second one, the next are read by it first."""
        hint = _json(source.dbName or "")[1:-1], _json(source.table or "")[1:-1]
        table = self._tables.get(hint)
        if table is None or table.found is not found or table.source != source:
            table = _TableDecoder(source, found, self.in_messages)
            if found.reader.repeats():
                self._remember(hint, table)
        if len(table.forms) >= _MAX_FORMS:
            table.forms.clear()
        table.forms.add(_form(parsed))
        return table


def _form(parsed: Any) -> tuple[bytes, bytes]:
    """What a message says about its table, as it stands there; it is looked at closely once."""
    return bytes(parsed.schema), bytes(parsed.extend)


_Times: Any = strict(MOMENTS)


class _TableDecoder:
    """A table of messages that name these types and this key, and what reads them."""

    def __init__(self, source: Source, found: TypedTable, in_messages: bool) -> None:
        self.in_messages = in_messages
        self.source = source
        self.found = found
        self.forms: set[tuple[bytes, bytes]] = set()

    @cached_property
    def decode(self) -> KnownMessage:
        """Reads a message whose members and columns are all known."""
        images: Any = strict({"data": self.found.reader.wire}) | None | UnsetType
        payload = {
            "before": images,
            "after": images,
            "op": _ROW_OP,
            "timestamp": _Times | None | UnsetType,
            "ddl": None | UnsetType,
            "scn": str | int | None | UnsetType,
        }
        members = {
            "version": Literal["2.0"],
            "schema": Raw,
            "payload": strict(payload),
            "extend": Raw | UnsetType,
        }
        return KnownMessage(strict(members))

    def read(self, message: Message, value: bytes) -> list[Change] | None:
        """The change of a message of this table; None if it has to be read exactly.

        Raises:
            ValueError: it is another message (`JSON_ERRORS`), or a value is bad.
            Refusal: a value is bad.
        """
        if self.found.loose:
            return None
        parsed = self.decode(value)
        if parsed is None:
            return None
        extend = NULL if parsed.extend is UNSET else parsed.extend
        if (bytes(parsed.schema), bytes(extend)) not in self.forms:
            return None
        payload, reader = parsed.payload, self.found.reader
        before, after = payload.before or None, payload.after or None
        if before is not None and after is not None:
            before, after = reader.reads(before.data, after.data)
        elif after is not None:
            after = reader.read(after.data)
        elif before is not None:
            before = reader.read(before.data)
        if reader.empty in (before, after):
            return None
        check_images(payload.op, before, after)
        return [self.change(message, payload, extend, before, after)]

    def change(
        self, message: Message, payload: Any, extend: Raw, before: Any, after: Any
    ) -> Change:
        """The change of a row."""
        if before is not None and after is not None:
            self.found.forget(before, after)
        time, extra = times_of(payload, self.source, self.found.schema.database, extend)
        change = Change(
            ROWS[payload.op],
            self.found.schema,
            message,
            before=before,
            after=after,
            sequence=sequence_of(payload.scn),
            source_time=time,
            extra=extra,
        )
        return settled(change, "payload.scn", self.in_messages)


def _event(
    message: Message,
    parsed: WireMessage,
    described: SchemaWire,
    in_messages: bool,
    tenant: str | None,
) -> Change:
    """A change without a row; a QUERY of a statement that changes rows defines nothing."""
    payload, source = parsed.payload, described.source or Source()
    database = database_in(source, tenant)
    for name, image in (("before", payload.before), ("after", payload.after)):
        if columns_of(image, name) is not None:
            # Nobody would see it.
            raise Refusal("shape", f"{payload.op} with a row in {name}, which it cannot have")
    op = payload.op
    operation, text = EVENTS[op], None if payload.ddl is None else payload.ddl.text
    if payload.op == "QUERY" and (not text or operations.is_row_statement(text)):
        operation = "other"
    if operation == "truncate" and of_partition(text, source.dbType):
        operation, op = "ddl", operation_of(text or "")
    if operation == "truncate" and not source.table:
        raise Refusal("shape", "TRUNCATE names no table")
    if operation == "truncate":
        # A statement names the database without its tenant.
        _, bare = split_tenant(source.dbName, (source.dbType or "").upper())
        place = bare or None, source.schema or None
        check_emptied(text, source.dbType, place, source.table or "")
    schema: TableSchema = NO_TABLE
    if source.dbName or source.table:
        schema = intern_schema(database, source.schema or None, source.table or None)
    carried = op if operation in ("ddl", "other") else None
    columns: Raw | UnsetType = UNSET
    if described.column or described.pk:
        columns = Raw(in_one_line(bytes(parsed.schema)))
    time, extra = times_of(payload, source, database, parsed.extend, carried, columns)
    sequence = sequence_of(payload.scn)
    if sequence is not None and not in_messages:
        raise with_id("payload.scn")
    return Change(
        operation,
        schema,
        message,
        sequence=sequence,
        source_time=time,
        ddl_text=text or None,
        extra=extra,
    )
