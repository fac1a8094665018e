"""Writes messages of OMS DataWorks 2.0; what came from there is carried on as it was.

What the canonical change does not hold follows fixed rules, so that a rerun writes the same bytes:
`scn` is the source's sequence if that is one number, else one made from the position (none for a
full row or a heartbeat, nor where a message of DataWorks had none); `dbType` is that of the
settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw

from waybill.caches import Bounded
from waybill.envelopes.database_kinds import kind_of
from waybill.envelopes.datahub.blob.operations import is_row_statement
from waybill.envelopes.oms.dataworks.values import dataworks_style
from waybill.envelopes.oms.lobs import WrittenLobs
from waybill.envelopes.oms.tables import split_tenant
from waybill.envelopes.oms.type_names import in_notation, loses_type, sized_name
from waybill.envelopes.sequence.written import DATAWORKS_DIGITS, WrittenSequence, goes_without
from waybill.envelopes.statements import operation_of
from waybill.envelopes.truncates import truncate_statement
from waybill.errors import Refusal
from waybill.protocol import Encoded
from waybill.sequence_layout import OWN
from waybill.values.json_rows import RowWriter
from waybill.values.temporal import zone_named

if TYPE_CHECKING:
    from waybill.envelopes.oms.dataworks.settings import OmsDataworksWriteSettings
    from waybill.records import Change, TableSchema

_OPS = {
    "insert": "INSERT",
    "upsert": "INSERT",
    "read": "INSERT",
    "update": "UPDATE",
    "delete": "DELETE",
    "begin": "TRANSACTION_BEGIN",
    "commit": "TRANSACTION_END",
    "truncate": "TRUNCATE",
    "heartbeat": "HEARTBEAT",
}
_ROWS = frozenset({"INSERT", "UPDATE", "DELETE"})
_OURS = b'{"dataworks":'
_json = msgspec.json.Encoder().encode
_into = msgspec.json.Encoder().encode_into


class Carried(msgspec.Struct, gc=False, omit_defaults=True):
    """Fields that a DataWorks target carries on."""

    op: str | None = None
    systemTime: int | None = None
    checkpointTime: int | None = None
    dbType: str | None = None
    dbVersion: str | None = None
    dbName: str | None = None
    extend: Raw | msgspec.UnsetType = UNSET
    scn: str | None = None
    schema: Raw | msgspec.UnsetType = UNSET


class _Extra(msgspec.Struct, gc=False):
    dataworks: Carried


class _Times(msgspec.Struct, gc=False):
    eventTime: Any = UNSET
    systemTime: Any = UNSET
    checkpointTime: Any = UNSET


class _Image(msgspec.Struct, gc=False):
    data: Any


class _Payload(msgspec.Struct, gc=False):
    """`payload` in the order of the document's samples."""

    before: Any
    after: Any
    op: str
    timestamp: _Times | None
    ddl: Any
    scn: Any


class _Message(msgspec.Struct, gc=False):
    version: str
    schema: Any
    payload: _Payload
    extend: Any = UNSET


_NOTHING = Carried()
_decode_extra = msgspec.json.Decoder(_Extra).decode


class OmsDataworksEncoder:
    """Writes messages of the DataWorks format.

    Args:
        settings: notation of values, database type.
    """

    def __init__(self, settings: OmsDataworksWriteSettings) -> None:
        self.settings = settings
        self.ids = WrittenSequence(settings, DATAWORKS_DIGITS)
        zone = zone_named(settings.timezone)
        numbers = settings.times == "milliseconds"
        self.style = dataworks_style(settings.version, zone, numbers, settings.trailing_zeros)
        self.buffer = bytearray()
        self._tables: Bounded[Any, _TableEncoder] = Bounded()

    def encode(self, change: Change, losses: list[str]) -> list[Encoded]:
        """The message of a change; see `Encoder.encode`.

        Raises:
            Refusal: kind `encoding`, when a value has no notation in OMS.
        """
        carried = _NOTHING
        if change.extra is not None and change.extra.startswith(_OURS):
            carried = _decode_extra(change.extra).dataworks
        change = self.ids.packed.as_own_message(change, losses)
        op = _op(change, carried)
        if op is None:
            losses.append("other" if change.operation == "other" else "transactions")
            return []
        kind = carried.dbType if carried is not _NOTHING else kind_of(change)
        place = change.schema, kind, carried.dbVersion, carried.dbName
        table = self._tables.get(place)
        if table is None:
            kind = kind or self.settings.db_type
            kind = kind or ("mysql" if change.schema.dialect == "mysql" else None)
            table = _TableEncoder(change.schema, carried, kind, self)
            self._tables[place] = table
        key, before, after = None, None, None
        if op in _ROWS:
            key, before, after = table.row(change, op, losses)
        elif op in ("TRUNCATE", "ALTER", "CREATE", "ERASE", "RENAME", "CINDEX", "DINDEX"):
            key = change.schema.qualified_name.encode() or None
        if change.transaction is not None:
            losses.append("transactions")
        text = change.ddl_text
        if op == "TRUNCATE" and text:
            text = table.truncate(text)
        ddl = None if text is None else {"text": text}
        times = _times(change, carried, losses)
        scn = self._scn(change, carried, op, losses)
        payload = _Payload(before, after, op, times, ddl, scn)
        # What a statement's message tells of columns is no part of the change.
        stated = table.stated_schema if carried.schema is UNSET else carried.schema
        _into(_Message("2.0", stated, payload, carried.extend), self.buffer)
        return [Encoded(key, bytes(self.buffer))]

    def _scn(self, change: Change, carried: Carried, op: str, losses: list[str]) -> Any:
        """The sequence: the source's own where that is one number, as it stood if it was ours."""
        sequence = change.sequence
        if sequence is None and (op == "HEARTBEAT" or carried is not _NOTHING):
            return carried.scn or (UNSET if op == "HEARTBEAT" else None)
        if change.full_row:
            if sequence is not None:
                losses.append("sequence_id")
            return None
        if goes_without(change):
            losses.append("sequence_id")
            return None
        if carried is not _NOTHING and sequence is not None and sequence[1:] == OWN:
            return str(sequence[0])
        return str(self.ids.of(change, losses))


class _TableEncoder:
    """What a schema decides about its messages."""

    def __init__(
        self,
        schema: TableSchema,
        carried: Carried,
        db_type: str | None,
        encoder: OmsDataworksEncoder,
    ) -> None:
        self.schema, self.db_type = schema, db_type
        earlier = encoder.settings.version == "earlier"
        self.rows = RowWriter(in_notation(schema, earlier), encoder.style)
        names = {c.name: sized_name(c, schema.dialect, earlier) for c in schema.columns}
        self.lobs = WrittenLobs(schema, encoder.settings, names)
        self.loses_types = any(loses_type(c, names[c.name], earlier) for c in schema.columns)
        database = schema.database
        if carried.dbName is not None and carried.dbName.endswith(f".{database}"):
            database = carried.dbName
        stated: dict[str, Any] = {
            "source": {
                "dbType": db_type,
                "dbVersion": carried.dbVersion,
                "dbName": database,
                "schema": schema.schema,
                "table": schema.table,
            },
            "column": [{"name": n, "type": t} for n, t in names.items() if t is not None],
            "pk": list(schema.key) if schema.key else None,
        }
        self.stated_schema: Any = Raw(_json(stated)) if schema.table or schema.database else UNSET

    def truncate(self, text: str) -> str:
        """The statement of a TRUNCATE, which names this table as the message does."""
        bare = split_tenant(self.schema.database, (self.db_type or "").upper())[1]
        place = bare, self.schema.schema
        return truncate_statement(text, self.db_type, place, self.schema.table or "")

    def row(self, change: Change, op: str, losses: list[str]) -> tuple[bytes, Any, Any]:
        """The message key and the images of a row."""
        rows, before, after = self.rows, change.before, change.after
        image = before if op == "DELETE" else after
        if image is None:
            raise Refusal("encoding", f"a {change.operation} without a row image")
        if change.operation == "read" and not change.full_row:
            losses.append("full_rows")
        if self.loses_types:
            losses.append("types")
        key = rows.message_key(image)
        if op == "UPDATE":
            lost: set[str] = set()
            before, after = self.lobs.as_null(rows.moved(change, before), after, lost)
            losses += sorted(lost)
        if op != "UPDATE" or before is None:
            row = _Image(rows.wire(image))
            return (key, row, None) if op == "DELETE" else (key, None, row)
        was, row = rows.wires(before, after)
        return key, _Image(was), _Image(row)


def _op(change: Change, carried: Carried) -> str | None:
    """The name of an operation, None where there is none."""
    operation, text = change.operation, change.ddl_text
    if operation == "ddl":
        # A reader takes the QUERY of a row's verb (REPLACE VIEW, CALL) for a change of rows.
        if carried.op is not None:
            return carried.op
        return operation_of(text) if text and not is_row_statement(text) else "ALTER"
    if operation == "other":
        return carried.op or ("QUERY" if text and is_row_statement(text) else None)
    return _OPS.get(operation)


def _times(change: Change, carried: Carried, losses: list[str]) -> _Times | None:
    """`timestamp`; none where there is nothing to tell.

    A message of DataWorks may lack `eventTime` and have the other times all the same.
    """
    time, system, checkpoint = change.source_time, carried.systemTime, carried.checkpointTime
    if time is None and system is None and checkpoint is None:
        return None
    if time is not None and time % 1000:
        losses.append("source_time")
    moments = (None if time is None else time // 1000, system, checkpoint)
    return _Times(*(UNSET if moment is None else moment for moment in moments))
