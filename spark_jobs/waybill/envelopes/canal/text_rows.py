"""Canal's FlatMessage, as its Kafka producer writes it: several rows a message, all values text.

Sources of the rules: alibaba/canal FlatMessage.java, MQMessageUtils.java, LogEventConvert.java,
and streams recorded from Canal 1.1.7.

A row of an UPDATE whose changed columns are not known (a filter left them out, or the binlog has no
image before) has no entry in `old`, or in later versions an empty one. Beside an empty one the row
before is taken to be the same as the row after it, as Flink's reader takes it; where that lacks
columns nothing is known of it. Canal collects the changed columns over the rows of a message, so
such rows come first: where `old` is shorter than `data`, its entries belong to the last rows.

A message of a known table takes the known-table way: one typed decode, images in place, and a
count of quotes that proves no name stood twice. Everything else (a new table, a changed one, bad
rows, other notations of JSON) takes the exact way, which remembers what it learnt.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Raw

from waybill.caches import Bounded
from waybill.counting import counted
from waybill.envelopes.canal.tables import CanalTable, Shape, extra_json
from waybill.envelopes.memory.known_tables import FastFirst
from waybill.envelopes.statements import operation_of
from waybill.envelopes.truncates import of_partition
from waybill.envelopes.unnamed_tables import named_by
from waybill.errors import Refusal
from waybill.records import NO_TABLE, Change, TableSchema, intern_schema, refused, skipped
from waybill.values.instants import FIRST_MS, LAST_MS
from waybill.values.temporal import zone_named
from waybill.values.values import JSON_ERRORS, check_json, json_refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.envelopes.canal.settings import CanalReadSettings
    from waybill.records import Message
    from waybill.tables import TableRules

ROWS = {"INSERT": "insert", "UPDATE": "update", "DELETE": "delete"}
"""Types that carry rows, and their operations."""

EVENTS = {
    "CREATE": "ddl",
    "ALTER": "ddl",
    "ERASE": "ddl",
    "QUERY": "ddl",
    "RENAME": "ddl",
    "CINDEX": "ddl",
    "DINDEX": "ddl",
    "TRUNCATE": "truncate",
    "MHEARTBEAT": "heartbeat",
    "GTID": "other",
    "XACOMMIT": "other",
    "XAROLLBACK": "other",
}
"""Types without rows, and their operations. ERASE is DROP; CINDEX and DINDEX are indexes."""

Millis = Annotated[int, Meta(ge=FIRST_MS, le=LAST_MS)]
"""Milliseconds since 1970 that a timestamp can hold."""

_NULL = Raw(b"null")
_DATABASE, _TABLE = b'"database":"', b'"table":"'
_TAIL = 150
"""Canal's own messages name the table within so many bytes of the end."""


class FlatMessage(msgspec.Struct, gc=False):
    """A FlatMessage of which nothing is known yet; images stay raw."""

    type: str
    database: str | None = None
    table: str | None = None
    isDdl: bool | None = None
    es: Millis | None = None
    ts: int | None = None
    id: int | None = None
    gtid: str | None = None
    sql: str | None = None
    data: list[Raw] | None = None
    old: list[Raw] | None = None
    mysqlType: Raw = _NULL
    sqlType: Raw = _NULL
    pkNames: Raw = _NULL


_json = msgspec.json.Encoder().encode
_decode_names = msgspec.json.Decoder(dict[str, Raw]).decode


class CanalDecoder(FastFirst[CanalTable]):
    """Reads FlatMessages.

    Args:
        settings: time zone of the Canal server.
        rules: declared keys and column types, which go before what the message says.
    """

    flat: ClassVar[Callable[[bytes], Any]] = staticmethod(msgspec.json.Decoder(FlatMessage).decode)
    """Decodes a message of which nothing is known yet."""
    tool: ClassVar[str] = "Canal"
    table_class: ClassVar[type[CanalTable]] = CanalTable

    def __init__(self, settings: CanalReadSettings, rules: TableRules) -> None:
        self.zone = zone_named(settings.timezone)
        self.unnamed = settings.table
        self.rules = rules
        self._shapes: Bounded[Shape, CanalTable] = Bounded()
        self._hints: dict[tuple[bytes, bytes], CanalTable] = {}
        self._last: CanalTable | None = None

    def _probable(self, value: bytes) -> CanalTable | None:
        table = self._last
        if len(self._hints) > 1 and (table is None or table.needle not in value[-_TAIL:]):
            return self._hinted(value)
        return table

    def _hinted(self, value: bytes) -> CanalTable | None:
        """The table that a message is probably about.

        A quote inside a string is escaped, so what is found are names; which object they belong
        to is seen when the message is decoded.
        """
        names = []
        for name in (_DATABASE, _TABLE):
            at = value.rfind(name) + len(name)
            names.append(value[at : value.find(b'"', at)])
        self._last = table = self._hints.get((names[0], names[1]))
        return table

    def _slow(self, message: Message, value: bytes) -> list[Change]:
        check_json(value)
        try:
            flat = type(self).flat(value)
        except JSON_ERRORS as error:
            raise json_refusal(error) from None
        if flat.type in ROWS and not flat.isDdl:
            return self._rows(message, flat, value)
        return [self._event(message, flat)]

    def _event(self, message: Message, flat: FlatMessage) -> Change:
        """The change of a message without rows.

        Raises:
            Refusal: there is no such event, or it says what it cannot say.
        """
        operation = EVENTS.get(flat.type)
        if operation is None:
            raise no_event(flat, self.tool)
        return event_of(message, flat, operation)

    def _rows(self, message: Message, flat: FlatMessage, value: bytes) -> list[Change]:
        if not flat.table:
            name = named_by(self.unnamed, message.topic, "a message with rows")
            database, flat.table = name
            flat.database = flat.database or database
        if not flat.data:
            sentence = f"{flat.type} without rows; Canal needs binlog_format=ROW at the source"
            raise Refusal("shape", sentence)
        refuse_old(flat)
        old = [_NULL] * len(flat.data)
        if flat.old is not None and flat.type == "UPDATE":
            missing = len(flat.data) - len(flat.old)
            if missing and not 0 < missing < len(flat.data):
                sentence = f"{counted(len(flat.data), 'row')} in data but {len(flat.old)} in old"
                raise Refusal("shape", sentence)
            old = [_NULL] * missing + flat.old
        table = self._table_of(flat, old, _decode_names(value).keys())
        changes = []
        for index, row in enumerate(flat.data):
            try:
                changes.append(table.change(message, flat, index, row, old[index]))
            except Refusal as refusal:
                here = Refusal(refusal.kind, refusal.sentence, index)
                changes.append(refused(message, here, table.schema))
        table.learn(flat, changes)
        return changes

    def _table_of(self, flat: FlatMessage, old: list[Raw], fields: Any) -> CanalTable:
        """The table that a message describes, made now if it is new."""
        types = _typed(flat.mysqlType, dict[str, str | None] | None, "mysqlType") or {}
        key = _typed(flat.pkNames, list[str] | None, "pkNames")
        names = self._columns(types, [_names_of(row) for row in (*(flat.data or ()), *old)])
        shape = Shape(
            flat.database,
            flat.table or "",
            tuple(fields),
            tuple(names),
            tuple(types.get(name) for name in names),
            len(types),
            tuple(key or ()),
            self._stated(flat.mysqlType, types) if "mysqlType" in fields else None,
            bytes(flat.pkNames) if "pkNames" in fields else None,
        )
        table = self._shapes.get(shape)
        if table is None:
            table = self.table_class(shape, self.rules, self.zone)
            if self._shapes.starts_over_with(shape, table):
                self._hints.clear()
            self._shapes[shape] = table
        if table.fast:
            hint = _json(flat.database or "")[1:-1], _json(shape.table)[1:-1]
            self._hints[hint] = self._last = table
        return table

    def _columns(self, types: dict[str, str | None], rows: list[list[str]]) -> list[str]:
        """The columns of a table, those of `mysqlType` first, in its order."""
        return list(dict.fromkeys([*types, *chain.from_iterable(rows)]))

    def _stated(self, raw: Raw, types: dict[str, str | None]) -> bytes:
        """`mysqlType` as messages of one shape have it."""
        return bytes(raw)


def _typed(raw: Raw, shape: Any, name: str) -> Any:
    try:
        return msgspec.json.decode(raw, type=shape)
    except JSON_ERRORS as error:
        raise Refusal("shape", f"{name} has the wrong shape: {error}") from None


def _names_of(row: Raw) -> list[str]:
    """Column names of a row; none for what is no row, which is refused where rows are read."""
    if row == _NULL:
        return []
    try:
        return list(_decode_names(row))
    except JSON_ERRORS:
        return []


def _tells_rows(rows: list[Raw] | None) -> bool:
    """Whether there are rows of which at least one is neither null nor empty."""
    return any(bytes(row) not in (b"null", b"{}") for row in rows or ())


def refuse_old(flat: FlatMessage) -> None:
    """Refuse rows before a change in a message that is no update: nobody would see them."""
    if flat.type != "UPDATE" and _tells_rows(flat.old):
        raise Refusal("shape", f"{flat.type} with a row in old, which only updates have")


def no_event(flat: FlatMessage, tool: str) -> Refusal:
    """The refusal of a message that holds no rows and is no event that Canal has."""
    if flat.type in ROWS:
        return Refusal("operation", f"{flat.type} with isDdl true, which rows are not")
    return Refusal("operation", f"{tool} has no type {flat.type[:40]!r}")


def event_of(message: Message, flat: FlatMessage, operation: str) -> Change:
    """The change of a message without rows; the text of a statement that is no DDL is skipped.

    Raises:
        Refusal: a TRUNCATE names no table, or there are rows: nobody would see them.
    """
    for name, rows in (("data", flat.data), ("old", flat.old)):
        if _tells_rows(rows):
            raise Refusal("shape", f"{flat.type} with a row in {name}, which it cannot have")
    if flat.type == "QUERY" and not flat.isDdl:
        return skipped(message, "statement text")
    kind = flat.type
    if operation == "truncate" and of_partition(flat.sql, None):
        operation, kind = "ddl", operation_of(flat.sql or "")
    if operation == "truncate" and not flat.table:
        raise Refusal("shape", "TRUNCATE names no table")
    schema: TableSchema = NO_TABLE
    if flat.database or flat.table:
        schema = intern_schema(flat.database or None, None, flat.table or None, dialect="mysql")
    # XA events name their transaction there: `XA COMMIT 'x'`.
    sql, stated = flat.sql or None, operation in ("ddl", "truncate")
    return Change(
        operation,
        schema,
        message,
        source_time=None if flat.es is None else flat.es * 1000,
        transaction=flat.gtid or None,
        ddl_text=sql if stated else None,
        extra=extra_json(flat.id, flat.ts, type=kind, sql=None if stated else sql),
    )
