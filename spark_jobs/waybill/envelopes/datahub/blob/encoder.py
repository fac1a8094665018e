"""DataHub BLOB messages, as DataWorks writes and reads them (StreamX JSON): the declaration.

Reading is in `decoder`; this file writes. The rules are those of "DataHub message
formats"; where real messages say more, the comment says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from waybill.caches import Bounded
from waybill.envelopes.database_kinds import kind_of
from waybill.envelopes.datahub.blob.operations import EVENTS, FULL_ROW_ID, is_row_statement
from waybill.envelopes.datahub.blob.schemas import types_are_lost, written_schema
from waybill.envelopes.datahub.blob.written import image_writer, key_writer, row_before, same_key
from waybill.envelopes.sequence.written import (
    DATAWORKS_DIGITS,
    WrittenSequence,
    goes_without,
)
from waybill.envelopes.statements import operation_of
from waybill.envelopes.truncates import truncate_statement
from waybill.errors import Refusal
from waybill.protocol import Encoded
from waybill.records import ROW_OPERATIONS, Change
from waybill.values.generated import gaps
from waybill.values.instants import LAST_MS, Zone

if TYPE_CHECKING:
    from waybill.envelopes.datahub.blob.settings import WriteSettings
    from waybill.records import TableSchema

_OPS = {
    "begin": "TRANSACTION_BEGIN",
    "commit": "TRANSACTION_END",
    "truncate": "TRUNCATE",
    "heartbeat": "MHEARTBEAT",
}

_json = msgspec.json.Encoder().encode
_into = msgspec.json.Encoder().encode_into


class _Extra(msgspec.Struct, gc=False):
    """What a StreamX message carried beside the change."""

    op: str | None = None
    systemTime: int | None = None
    checkpointTime: int | None = None
    version: str | None = None
    dbType: str | None = None
    dbVersion: str | None = None
    ddlMeta: str | None = None


class _Family(msgspec.Struct, gc=False):
    streamx: _Extra


_EXTRA_HEAD = b'{"streamx":{'
_extra = msgspec.json.Decoder(_Family)


class _WrittenTable:
    """What a table decides for writing its changes."""

    def __init__(self, schema: TableSchema, source: Any, zone: Zone) -> None:
        self.head = b'{"schema":' + written_schema(schema, *source) + b',"payload":{"op":"'
        self.insert = self.head + b'INSERT","after":{"dataColumn":'
        self.after = self.head + b'UPDATE_AFTER","after":{"dataColumn":'
        self.before = self.head + b'UPDATE_BEFOR","before":{"dataColumn":'
        self.both = self.head + b'UPDATE_AFTER","before":{"dataColumn":'
        self.delete = self.head + b'DELETE","before":{"dataColumn":'
        self.image = image_writer(schema, zone)
        self.key = key_writer(schema)
        self.same_key = same_key(schema)
        self.lossy = types_are_lost(schema)
        self.gaps = gaps(len(schema.columns))


class BlobEncoder:
    """Writes DataHub BLOB messages."""

    def __init__(self, settings: WriteSettings) -> None:
        self.two = settings.updates == "two"
        self.db_type = settings.db_type
        self.ids = WrittenSequence(settings, DATAWORKS_DIGITS)
        self.version = _json(settings.version).decode()
        self.zone = Zone(settings.timezone)
        # Encoding into the same buffer again spares much of the time.
        self.buffer = bytearray()
        self._tables: Bounded[Any, _WrittenTable] = Bounded()

    def encode(self, change: Change, losses: list[str]) -> list[Encoded]:
        """The messages of one change; two for an update, unless `updates` is `one`."""
        change = self.ids.packed.as_own_message(change, losses, counts_gaps=True)
        given, carried = change.extra, None
        source: tuple[str | None, str | None]
        if given is not None and given.startswith(_EXTRA_HEAD):
            carried = _extra.decode(given).streamx
            source = carried.dbType, carried.dbVersion
        else:
            source = kind_of(change) or self.db_type, None
        place = change.schema, source
        table = self._tables.get(place)
        if table is None:
            table = self._tables[place] = _WrittenTable(change.schema, source, self.zone)
        if change.operation in ROW_OPERATIONS:
            return self._row(change, table, carried, losses)
        return self._event(change, table, carried, losses)

    def _row(
        self, change: Change, table: _WrittenTable, carried: _Extra | None, losses: list[str]
    ) -> list[Encoded]:
        operation, before, after = change.operation, row_before(change), change.after
        inserts = operation in INSERTS and (before is None or operation == "read")
        full_row = inserts and change.full_row
        number = FULL_ROW_ID if full_row else self.ids.of(change, losses)
        tail = f'}},"sequenceId":"{number}",{self._end(change, carried, losses)}'.encode()
        _count(change, table, full_row, losses)
        if operation == "delete" or after is None:
            if before is None:
                raise Refusal("encoding", f"there is no row to write for this {operation}")
            head = table.delete if operation == "delete" else table.before
            return [Encoded(table.key(before), self._joined(head, table.image(before), tail))]
        row, key = table.image(after), table.key(after)
        if inserts or before is None:
            head = table.insert if inserts else table.after
            return [Encoded(key, self._joined(head, row, tail))]
        old = table.image(before)
        if not self.two:
            middle = _json(old) + b'},"after":{"dataColumn":'
            return [Encoded(key, self._joined(table.both + middle, row, tail))]
        old_key = None
        if change.moved_from is not None or not table.same_key(before, after):
            old_key = change.old_key_image()
        return [
            Encoded(
                key if old_key is None else _json(old_key),
                self._joined(table.before, old, tail),
            ),
            Encoded(key, self._joined(table.after, row, tail)),
        ]

    def _joined(self, head: bytes, row: Any, tail: bytes) -> bytes:
        _into(row, self.buffer)
        return b"".join((head, self.buffer, tail))

    def _event(
        self, change: Change, table: _WrittenTable, carried: _Extra | None, losses: list[str]
    ) -> list[Encoded]:
        operation = change.operation
        op = _op(change, carried)
        if change.transaction is not None or operation == "rollback":
            losses.append("transactions")
        if op is None:
            if operation != "rollback":
                losses.append("other")
            return []
        if operation == "ddl" and carried is None:
            losses.append("ddl")  # the statement without ddlMeta
        parts = [op]
        if goes_without(change):
            if carried is None and operation in _ORDERED:
                losses.append("sequence_id")
        elif change.sequence is not None or operation in _ORDERED:
            parts.append(f'"sequenceId":"{self.ids.of(change, losses)}"')
        text, schema = change.ddl_text, change.schema
        if operation == "truncate" and text:
            # Readers refuse one that names another table, and take that of a partition for a DDL.
            text = truncate_statement(
                text, None, (schema.database, schema.schema), schema.table or ""
            )
        ddl = {"text": text, "ddlMeta": carried and carried.ddlMeta}
        given = {name: text for name, text in ddl.items() if text is not None}
        if given:
            parts.append(f'"ddl":{_json(given).decode()}')
        parts.append(self._end(change, carried, losses))
        key = change.schema.qualified_name.encode() if operation in _BY_TABLE else b""
        return [Encoded(key or None, table.head + ",".join(parts).encode())]

    def _end(self, change: Change, carried: _Extra | None, losses: list[str]) -> str:
        """The end of a message, from its timestamp; never the clock, so reruns write the same."""
        time = change.source_time
        if time is None:
            event = -1
        else:
            event, rest = divmod(time, 1000)
            if not 0 <= event <= LAST_MS:
                # No reader takes it: the format has milliseconds since 1970, and -1 for no time.
                event, rest = -1, -1
            if rest:
                losses.append("source_time")
        if carried is None:
            return f'"timestamp":{{"eventTime":{event}}}}},"version":{self.version}}}'
        times = f'"eventTime":{event}'
        if carried.systemTime is not None:
            times += f',"systemTime":{carried.systemTime}'
        if carried.checkpointTime is not None:
            times += f',"checkpointTime":{carried.checkpointTime}'
        version = self.version if carried.version is None else _json(carried.version).decode()
        return f'"timestamp":{{{times}}}}},"version":{version}}}'


INSERTS = frozenset({"insert", "read", "upsert"})
"""Operations that give a row as it is now."""
_BY_TABLE = frozenset({"ddl", "truncate"})
_ORDERED = frozenset({"ddl", "truncate", "begin", "commit"})


def _count(change: Change, table: _WrittenTable, full_row: bool, losses: list[str]) -> None:
    """The losses that do not depend on how the row is written."""
    if table.lossy:
        losses.append("types")
    if change.after is not None and table.gaps(change.after):
        losses.append("unchanged_columns")
    if change.transaction is not None:
        losses.append("transactions")
    if change.operation == "read" and not full_row:
        losses.append("full_rows")
    if full_row and change.sequence is not None:
        losses.append("sequence_id")


def _op(change: Change, carried: _Extra | None) -> str | None:
    """The name of an operation without a row, as it follows `"op":"`; None where there is none."""
    operation = change.operation
    op = None if carried is None else carried.op
    if op is None or EVENTS.get(op) is None:
        op = _OPS.get(operation)
        if operation == "ddl":
            op = _ddl_op(change.ddl_text)
        if operation == "other" and change.ddl_text and is_row_statement(change.ddl_text):
            op = "QUERY"
    return None if op is None else f'{op}"'


def _ddl_op(text: str | None) -> str:
    # A reader takes the QUERY of a row's verb (REPLACE VIEW, CALL) for a change of rows.
    if text is None or is_row_statement(text):
        return "ALTER"
    return operation_of(text)
