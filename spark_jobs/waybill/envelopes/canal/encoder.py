"""Writes Canal FlatMessages, one row a message, fields in Canal's own order.

What the canonical change does not hold follows fixed rules, so that a rerun writes the same bytes:
`es` is the source's time, else the queue's timestamp, else 0; `ts` is the one that came from Canal,
else the same as `es`; `id` is the one that came from Canal, else the offset of the source message.

`old` of an UPDATE has an entry for its row, empty where the row before is not known: readers take
it without a look (Flink's CanalJsonDeserializationSchema).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec import UNSET

from waybill.caches import Bounded
from waybill.envelopes.canal.sql_types import SqlTypes
from waybill.envelopes.canal.values import notation_of
from waybill.envelopes.database_kinds import count_kind
from waybill.envelopes.moved_rows import standing_alone
from waybill.envelopes.statements import operation_of
from waybill.envelopes.truncates import truncate_of, truncate_statement
from waybill.envelopes.unchanged import one_column
from waybill.errors import Refusal
from waybill.protocol import Encoded, Limit
from waybill.records import Column, TableSchema, intern_schema
from waybill.types import finer_than_micros
from waybill.values.generated import converter, difference, fill, gaps, picker
from waybill.values.mysql_types import logical_type, name_of
from waybill.values.temporal import zone_named

if TYPE_CHECKING:
    from operator import itemgetter

    from waybill.envelopes.canal.settings import CanalWriteSettings
    from waybill.records import Change

_json = msgspec.json.Encoder().encode
_ROW_TYPES = {
    "insert": b"INSERT",
    "read": b"INSERT",
    "upsert": b"INSERT",
    "update": b"UPDATE",
    "delete": b"DELETE",
}


class Carried(msgspec.Struct, gc=False):
    """What a message from Canal or TiCDC brought along (see `tables.extra_json`)."""

    id: int | None = None
    ts: int | None = None
    type: str | None = None
    sql: str | None = None
    sqlType: msgspec.Raw = msgspec.Raw(b"")
    commitTs: int | None = None
    tidb: dict[str, msgspec.Raw] | None = None


class _Extra(msgspec.Struct, gc=False):
    canal: Carried | None = None


WITHOUT_STATEMENTS = (
    Limit("statements", False, "ddl", "statements are left out"),
    Limit("statements", False, "truncate", "a TRUNCATE is left out, and readers keep the rows"),
)
"""What the setting `statements` gives up."""

_OURS = b'{"canal":'
_NOTHING = Carried()
_decode_extra = msgspec.json.Decoder(_Extra).decode


class CanalEncoder:
    """Writes FlatMessages.

    Args:
        settings: time zone to print instants in.
    """

    sql_types: ClassVar[type[SqlTypes]] = SqlTypes
    """How the numbers in `sqlType` follow from the types and the row."""

    def __init__(self, settings: CanalWriteSettings) -> None:
        self.zone = zone_named(settings.timezone)
        self.control_messages = settings.control_messages
        self.statements = settings.statements
        self._tables: Bounded[TableSchema, TableEncoder] = Bounded()

    def encode(self, change: Change, losses: list[str]) -> list[Encoded]:
        """The FlatMessage of a change; see `Encoder.encode`.

        Raises:
            Refusal: kind `encoding`, when a value has no notation in Canal.
        """
        count_kind(change, losses)
        if change.moved_from is not None:
            change = standing_alone(change, losses, counts_gaps=True)
        kind = _ROW_TYPES.get(change.operation)
        if kind is None:
            return self._event(change, losses)
        schema = change.schema
        table = self._tables.get(schema)
        if table is None:
            table = self._tables[schema] = self._table(schema)
        return self._messages(table, change, kind, losses)

    def _table(self, schema: TableSchema) -> TableEncoder:
        """What a schema decides about its messages."""
        return TableEncoder(schema, self)

    def text_of(self, schema: TableSchema, column: Column) -> str:
        """`mysqlType` of a column: as the source said it, where that was MySQL."""
        if schema.dialect == "mysql" and column.source_type is not None:
            return column.source_type
        return name_of(finer_than_micros(column.type, column.source_type) or column.type)

    def _messages(
        self, table: TableEncoder, change: Change, kind: bytes, losses: list[str]
    ) -> list[Encoded]:
        """The messages of a row."""
        return [table.message(change, kind, losses)]

    def _event(self, change: Change, losses: list[str]) -> list[Encoded]:
        carried = carried_by(change)
        operation, schema = change.operation, change.schema
        sql = change.ddl_text or carried.sql or ""
        if operation in ("begin", "commit", "rollback"):
            losses.append("transactions")
            return []
        if operation in ("ddl", "truncate", "other") and not self.statements:
            losses.append(operation)
            return []
        if operation == "heartbeat":
            if not self.control_messages:
                losses.append("heartbeat")
                return []
            kind = "MHEARTBEAT"
        elif operation == "truncate":
            kind = "TRUNCATE"
            sql = sql or truncate_of(schema.database, schema.table)
            sql = truncate_statement(
                sql, None, (schema.database, schema.schema), schema.table or ""
            )
        elif operation == "ddl":
            kind = carried.type or operation_of(sql)
        elif carried.type is not None:
            kind = carried.type
        else:
            losses.append("other")
            return []
        count_losses(change, carried, losses)
        time = change.source_time
        es = (change.message.timestamp or 0) if time is None else time // 1000
        value = {
            "data": None,
            "database": schema.database or "",
            "es": es,
            "gtid": gtid_of(change, carried),
            "id": change.message.offset if carried.id is None else carried.id,
            "isDdl": operation in ("ddl", "truncate"),
            "mysqlType": None,
            "old": None,
            "pkNames": None,
            "sql": sql,
            "sqlType": None,
            "table": schema.table or "",
            "ts": es if carried.ts is None else carried.ts,
            "type": kind,
        }
        return [Encoded(None, _json(value))]


class TableEncoder:
    """What a schema decides about its messages.

    Args:
        schema: the table.
        encoder: says in which words types stand, and prints instants in its time zone.
    """

    layout: ClassVar[bytes] = (
        b'{"data":[%%b],"database":%(database)b,"es":%%d,"gtid":%%b,"id":%%d,"isDdl":false,'
        b'"mysqlType":%(mysqlType)b,"old":%%b,"pkNames":%(pkNames)b,"sql":%%b,"sqlType":%%b,'
        b'"table":%(table)b,"ts":%%d,"type":"%%b"}'
    )
    """A message: what its table decides by name, and the values of a row in their order."""
    pick: ClassVar[itemgetter[Any] | None] = None
    """Picks the values of a row where `layout` has them in another order than Canal."""

    def __init__(self, schema: TableSchema, encoder: CanalEncoder) -> None:
        self.schema = schema
        size, zone = len(schema.columns), encoder.zone
        texts = [encoder.text_of(schema, column) for column in schema.columns]
        writers = {}
        for i, (column, text) in enumerate(zip(schema.columns, texts, strict=True)):
            write = notation_of(column.type, text, zone).write
            if write is not None:
                writers[i] = write
        self.convert = converter(writers)
        self.difference = difference(size, writers)
        self.gaps = gaps(size)
        self.one_column = one_column(schema)
        named = intern_schema(
            schema.database,
            schema.schema,
            schema.table,
            tuple(Column(c.name, c.type, t) for c, t in zip(schema.columns, texts, strict=True)),
            schema.key,
            "mysql",
        )
        self.types = encoder.sql_types(named)
        self.usual = _json(self.types.usual)
        mysql = {c.name: t for c, t in zip(schema.columns, texts, strict=True)}
        self.template = self.layout % {
            name: _json(part).replace(b"%", b"%%")
            for name, part in (
                (b"database", schema.database or ""),
                (b"mysqlType", mysql),
                (b"pkNames", list(schema.key) if schema.key else None),
                (b"table", schema.table or ""),
            )
        }
        # Without key only one partition keeps the order.
        self.no_key = None if schema.key else schema.qualified_name.encode()
        self.key_fields = schema.key_fields if schema.key else ()
        self.key_of = picker(self.key_fields)
        self.loses_schema = schema.schema is not None
        self.loses_types = any(
            logical_type(c.source_type) != c.type or finer_than_micros(c.type, c.source_type)
            for c in named.columns
        )

    def message(self, change: Change, kind: bytes, losses: list[str]) -> Encoded:
        """The message of a row."""
        carried = _NOTHING if change.extra is None else carried_by(change)
        after = change.before if kind == b"DELETE" else change.after
        if after is None:
            raise Refusal("encoding", f"a {change.operation} without a row image")
        row = after
        if self.gaps(after):
            row = self._completed(change, after, losses)
        key = self.no_key or _json(self.key_of(row))
        old = b"null"
        if kind == b"UPDATE":
            old = self._old(change, row, losses)
        if self.convert is not None:
            if row is after:
                row = after.__copy__()
            self.convert(row)
        time = change.source_time
        if (
            time is None
            or time % 1000
            or change.sequence is not None
            or change.transaction is not None
            or self.loses_schema
            or kind == b"INSERT"
        ):
            self.count_losses(change, carried, losses)
        if self.loses_types:
            losses.append("types")
        es = (change.message.timestamp or 0) if time is None else time // 1000
        ts = es if carried.ts is None else carried.ts
        identity = change.message.offset if carried.id is None else carried.id
        types = self.usual
        stated = bytes(carried.sqlType)
        if stated:
            types = stated
        elif self.types.varying:
            # Canal's number for some types depends on the value.
            types = self.types.json(row)
        gtid = b'""' if change.transaction is None else _json(gtid_of(change, carried))
        sql = b'""' if carried.sql is None else _json(carried.sql)
        values = _json(row), es, gtid, identity, old, sql, types, ts, kind
        return Encoded(key, self.template % (self.pick(values) if self.pick else values))

    @staticmethod
    def count_losses(change: Change, carried: Carried, losses: list[str]) -> None:
        """Note what a message leaves out of a change."""
        count_losses(change, carried, losses)

    def _completed(self, change: Change, after: Any, losses: list[str]) -> Any:
        """A copy of an image that lacks columns, filled up as far as the change knows them."""
        row = after.__copy__()
        losses.append("unchanged_columns")
        if change.operation == "update" and change.before is not None:
            fill(row, change.before)
        if UNSET in self.key_of(row):
            raise Refusal("encoding", "a key column is not in the row")
        return row

    def _old(self, change: Change, row: Any, losses: list[str]) -> bytes:
        """`old`: the columns that the update changed, as they were."""
        old = self.schema.Image()
        before, moved = change.before, change.moved_from
        if before is not None:
            self.difference(before, row, old)
        whole = before is not None and not self.gaps(before)
        if not whole:
            losses.append("before_image")
        if moved is not None:
            key = self.schema.Image()
            for field, source in zip(self.key_fields, moved.__struct_fields__, strict=True):
                setattr(key, field, getattr(moved, source))
            self.difference(key, row, old)
        text = _json(old)
        if whole and text == b"{}":
            old = self.one_column(before)
            if self.convert is not None:
                self.convert(old)
            text = _json(old)
        return b"[%b]" % text


def carried_by(change: Change) -> Carried:
    """What a message from Canal brought along; nothing for changes from elsewhere."""
    extra = change.extra
    if extra is None or not extra.startswith(_OURS):
        return _NOTHING
    return _decode_extra(extra).canal or _NOTHING


def gtid_of(change: Change, carried: Carried) -> str:
    """The transaction of a change that came from Canal, where it is the GTID; else nothing."""
    return "" if carried is _NOTHING else change.transaction or ""


def count_losses(change: Change, carried: Carried, losses: list[str]) -> None:
    """Note what a message of Canal leaves out of a change."""
    if change.operation == "read":
        losses.append("full_rows")
    if change.sequence is not None:
        losses.append("sequence_id")
    if change.transaction is not None and carried is _NOTHING:
        losses.append("transactions")
    if change.source_time is None or change.source_time % 1000:
        losses.append("source_time")
    if change.schema.schema is not None:
        losses.append("schema_name")
