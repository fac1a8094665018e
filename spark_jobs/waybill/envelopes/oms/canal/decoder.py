"""OceanBase OMS, serialization method Canal: the fields of Canal, the values of OMS.

Source of the rules: OceanBase documentation "Data formats", section "Canal-compatible JSON message
format", and its samples. It differs from Canal's own flat message (`waybill.envelopes.canal`):

- values are typed JSON in the notation of OMS and not all strings: numbers are unquoted, bytes are
  Base64 and not one character each, an ENUM is its text and not a number, a TIMESTAMP is seconds
  since 1970 and not a wall clock of the server;
- `mysqlType` names OMS' types without sizes (`int64`, `bigint`, `datetime`);
- there is no `id` and no `gtid`; the database has lost its tenant.

Types without rows, their operations and the rule of `old` are Canal's: the document shows none, and
says that `sql` is empty, which it is for rows. Beside an empty entry of `old` the row before is the
whole row of `data`; where that lacks columns nothing is known of it, except that the update did not
touch a LOB column that is null. Samples name columns in
`old` that neither `data` nor `mysqlType` has: they are none of the table's, and left out.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from waybill.counting import counted
from waybill.envelopes.canal.tables import refuse_unstated
from waybill.envelopes.canal.text_rows import (
    EVENTS,
    ROWS,
    FlatMessage,
    Millis,
    event_of,
    no_event,
    refuse_old,
)
from waybill.envelopes.memory.known_tables import FastByTable
from waybill.envelopes.oms.styles import style_of
from waybill.envelopes.oms.typed import TypedTable, TypedTables
from waybill.envelopes.truncates import check_emptied
from waybill.errors import Refusal
from waybill.records import Change, refused
from waybill.values.generated import overlay
from waybill.values.json_rows import Row, row_of
from waybill.values.known_messages import KnownMessage, strict
from waybill.values.values import JSON_ERRORS, check_json, json_refusal

if TYPE_CHECKING:
    from waybill.envelopes.oms.settings import OmsReadSettings
    from waybill.records import Message
    from waybill.tables import TableRules

_DATABASE, _TABLE = b'"database":"', b'"table":"'
_NULL = Raw(b"null")
_MAX_FORMS = 50
_ROW_TYPE: Any = Literal[tuple(ROWS)]

_json = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(FlatMessage).decode


class OmsCanalDecoder(FastByTable["_TableDecoder"]):
    """Reads messages of the Canal format.

    Args:
        settings: notation, and what null means in a LOB column.
        rules: declared keys and column types, which go before what the message says.
    """

    def __init__(self, settings: OmsReadSettings, rules: TableRules) -> None:
        self.typed = TypedTables(settings, rules, style_of(settings.version))
        super().__init__()

    def _hint(self, value: bytes) -> tuple[bytes, bytes]:
        """A quote inside a string is escaped, so these are names, if maybe those of columns."""
        at = value.find(_DATABASE) + len(_DATABASE)
        database = value[at : value.find(b'"', at)]
        at = value.rfind(_TABLE) + len(_TABLE)
        return database, value[at : value.find(b'"', at)]

    def _slow(self, message: Message, value: bytes) -> list[Change]:
        check_json(value)
        try:
            flat = _decode(value)
        except JSON_ERRORS as error:
            raise json_refusal(error) from None
        if flat.type in ROWS and not flat.isDdl:
            return self._rows(message, flat)
        operation = EVENTS.get(flat.type)
        if operation is None:
            raise no_event(flat, "OMS Canal")
        event = event_of(message, flat, operation)
        if event.operation == "truncate":
            check_emptied(flat.sql, None, (flat.database, None), flat.table or "")
        return [event]

    def _rows(self, message: Message, flat: FlatMessage) -> list[Change]:
        if not flat.table:
            raise Refusal("shape", "a message with rows names no table")
        if not flat.data:
            raise Refusal("shape", f"{flat.type} without rows")
        if flat.mysqlType == _NULL:
            raise Refusal("shape", f"{flat.type} without mysqlType; Canal itself may leave it out")
        if flat.sql:
            raise Refusal("shape", f"{flat.type} with a statement in sql, which is empty for rows")
        refuse_old(flat)
        old = [_NULL] * len(flat.data)
        if flat.old is not None and flat.type == "UPDATE":
            if len(flat.old) != len(flat.data):
                sentence = f"{counted(len(flat.data), 'row')} in data but {len(flat.old)} in old"
                raise Refusal("shape", sentence)
            old = flat.old
        return [
            self._row(message, flat, index, row, old[index]) for index, row in enumerate(flat.data)
        ]

    def _row(self, message: Message, flat: FlatMessage, index: int, row: Raw, old: Raw) -> Change:
        """One row; a bad one is refused and leaves its neighbours alone."""
        types = _typed(flat.mysqlType, dict[str, str | None] | None, "mysqlType") or {}
        _typed(flat.sqlType, dict[str, int | None] | None, "sqlType")
        key = _typed(flat.pkNames, list[str] | None, "pkNames") or []
        try:
            now = row_of(row, "data")
            was: Row = {} if old == _NULL else row_of(old, "old")
            if types:
                was = {column: raw for column, raw in was.items() if column in types | now}
            if not now:
                raise Refusal("shape", "a row without columns")
            name = flat.database or None, None, flat.table or ""
            found = self.typed.find(name, types, (now, was), tuple(key))
            table = self._learn(flat, found)
            image = found.reader.image(now)
            before = None if old == _NULL else found.reader.image(was)
            if before is not None:
                refuse_unstated(found.unstated(before, image), found.schema.names)
        except Refusal as refusal:
            return refused(message, Refusal(refusal.kind, refusal.sentence, index))
        return table.change(message, flat, index, image, before)

    def _learn(self, flat: FlatMessage, found: TypedTable) -> _TableDecoder:
        """The table of these messages; like the second one, the next are read by it first."""
        hint = _json(flat.database or "")[1:-1], _json(flat.table or "")[1:-1]
        table = self._tables.get(hint)
        if table is None or table.found is not found or table.database != flat.database:
            table = _TableDecoder(flat, found)
            if found.reader.repeats():
                self._remember(hint, table)
        if len(table.forms) >= _MAX_FORMS:
            table.forms.clear()
        table.forms.add(_form(flat))
        return table


def _form(flat: Any) -> tuple[bytes, ...]:
    """What a message says about its table, as it stands there; it is looked at closely once."""
    return bytes(flat.mysqlType), bytes(flat.pkNames), bytes(flat.sqlType)


def _typed(raw: Raw, shape: Any, name: str) -> Any:
    try:
        return msgspec.json.decode(raw, type=shape)
    except JSON_ERRORS as error:
        raise Refusal("shape", f"{name} has the wrong shape: {error}") from None


class _TableDecoder:
    """A table of messages that name these types and this key, and what reads them."""

    def __init__(self, flat: FlatMessage, found: TypedTable) -> None:
        self.database, self.table = flat.database, flat.table or ""
        self.found = found
        self.forms: set[tuple[bytes, ...]] = set()
        self.described: tuple[Raw, ...] = ()
        self.overlay = overlay(len(found.schema.columns), {})

    @cached_property
    def decode(self) -> KnownMessage:
        """Reads a message whose fields and columns are all known."""
        row: Any = self.found.reader.wire
        return KnownMessage(
            strict(
                {
                    "database": str | None | UnsetType,
                    "sqlType": Raw,
                    "data": list[row],
                    "pkNames": Raw,
                    "old": list[row] | None | UnsetType,
                    "mysqlType": Raw,
                    "type": _ROW_TYPE,
                    "table": Literal[self.table],
                    "es": Millis | None | UnsetType,
                    "isDdl": bool | None | UnsetType,
                    "ts": int | None | UnsetType,
                    "sql": str | None | UnsetType,
                }
            )
        )

    def read(self, message: Message, value: bytes) -> list[Change] | None:
        """The changes of a message of this table; None if it has to be read exactly.

        Raises:
            ValueError: it is another message (`JSON_ERRORS`), or a value is bad.
            Refusal: a value is bad.
        """
        if self.found.loose:
            return None
        flat = self.decode(value)
        if flat is None or flat.database != self.database or flat.isDdl is True or flat.sql:
            return None
        described = flat.mysqlType, flat.pkNames, flat.sqlType
        if described != self.described:
            if _form(flat) not in self.forms:
                return None
            self.described = flat.mysqlType.copy(), flat.pkNames.copy(), flat.sqlType.copy()
        rows, old = flat.data, flat.old
        if old is UNSET or old is None:
            old = None
        elif flat.type != "UPDATE" or len(old) != len(rows):
            return None
        if not rows:
            return None
        reader, changes = self.found.reader, []
        for index, row in enumerate(rows):
            image = reader.read(row)
            if image == reader.empty:
                return None
            before = None if old is None else reader.read(old[index])
            changes.append(self.change(message, flat, index, image, before))
        return changes

    def change(self, message: Message, flat: Any, index: int, image: Any, before: Any) -> Change:
        """The change of a row, with the columns that it changed in `before`.

        Raises:
            ValueError: one of them is not in the row.
        """
        after, found = image, self.found
        if before is not None:
            if found.unstated(before, after):
                raise ValueError("old has a column that data does not have")
            known = before != found.reader.empty or not found.reader.gaps(after)
            self.overlay(before, after)
            found.forget(before, after)
            if not known:
                before = None
        elif flat.type == "DELETE":
            before, after = image, None
        es, ts = flat.es, flat.ts
        return Change(
            ROWS[flat.type],
            found.schema,
            message,
            index=index,
            before=before,
            after=after,
            source_time=None if es is None or es is UNSET else es * 1000,
            extra=None if ts is None or ts is UNSET else b'{"canal":{"ts":%d}}' % ts,
        )
