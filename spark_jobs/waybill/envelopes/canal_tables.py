"""What one shape of a Canal table decides: schema, converters of values, the typed decoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Raw

from waybill.envelopes.canal_columns import text_reader
from waybill.envelopes.generated import converter, overlay, reader
from waybill.envelopes.instants import FIRST_MS, LAST_MS
from waybill.envelopes.mysql_types import jdbc_type, logical_type, raised_jdbc_type
from waybill.envelopes.values import JSON_ERRORS, quotes_of
from waybill.errors import Refusal
from waybill.records import Change, Column, intern_schema

if TYPE_CHECKING:
    from collections.abc import Callable
    from zoneinfo import ZoneInfo

    from waybill.records import Message, TableSchema
    from waybill.tables import TableRules

_OPERATIONS = {"INSERT": "insert", "UPDATE": "update", "DELETE": "delete"}
_MAX_SQL_TYPES = 1_000
_NULL = Raw(b"null")
_json = msgspec.json.Encoder().encode


class Shape(NamedTuple):
    """Everything of a message that the way to read its rows depends on.

    Attributes:
        database: name, None where it is empty.
        table: name.
        names: columns in the order of `mysqlType`, then those that only rows have.
        types: texts of `mysqlType` to them.
        key: `pkNames`.
        fields: names at the top of the message.
        mysql: `mysqlType` as it stands there.
        pk: `pkNames` as it stands there.
    """

    database: str | None
    table: str
    names: tuple[str, ...]
    types: tuple[str | None, ...]
    key: tuple[str, ...]
    fields: frozenset[str]
    mysql: bytes
    pk: bytes


_FIELDS: dict[str, Any] = {
    "database": str | None,
    "es": Annotated[int, Meta(ge=FIRST_MS, le=LAST_MS)] | None,
    "gtid": str | None,
    "id": int | None,
    "isDdl": bool | None,
    "mysqlType": Raw,
    "pkNames": Raw,
    "sql": str | None,
    "sqlType": Raw,
    "table": str,
    "ts": int | None,
    "type": str,
}
_ABSENT: dict[str, Any] = {"mysqlType": Raw(b"null"), "pkNames": Raw(b"null"), "sqlType": Raw(b"")}
_REQUIRED = {"data", "table", "type"}


class CanalTable:
    """A table as messages of one shape describe it.

    Args:
        shape: what those messages have in common.
        rules: declared keys and types, which go before what the messages say.
        zone: time zone of the Canal server.
    """

    def __init__(self, shape: Shape, rules: TableRules, zone: ZoneInfo) -> None:
        rule = rules.find(shape.database, None, shape.table)
        columns = tuple(
            Column(name, rule.columns.get(name) or logical_type(text), text)
            for name, text in zip(shape.names, shape.types, strict=True)
        )
        self.schema = intern_schema(
            shape.database,
            None,
            shape.table,
            columns,
            shape.key if rule.key is None else rule.key,
            "mysql",
        )
        readers = {}
        for i, column in enumerate(columns):
            read = text_reader(column.type, column.source_type, zone)
            if read is not None:
                readers[i] = read
        size = len(columns)
        self.size = size
        self.image: type[Any] = self.schema.Image
        self.read: Callable[[Any], int] = reader(size, readers)
        self.overlay: Callable[[Any, Any], int] = overlay(size, readers)
        self.convert = converter(readers)
        self.mysql = Raw(shape.mysql)
        self.pk = Raw(shape.pk)
        self.sql = Raw(b"?")
        self.sql_known: tuple[int, bytes] = (0, b"")
        self.sql_types: dict[bytes, tuple[int, bytes]] = {}
        known = shape.fields <= _FIELDS.keys() | {"data", "old"}
        self.fast = known and shape.fields >= _REQUIRED
        self.quotes = 2 * len(shape.fields) + quotes_of(shape.mysql) + quotes_of(shape.pk)
        if self.fast:
            self.decode = self._typed_decoder(shape.fields)

    def _typed_decoder(self, fields: frozenset[str]) -> Callable[[bytes], Any]:
        """A decoder of whole messages; fields of the shape are required, no other is allowed."""
        made: list[Any] = [("data", list[self.image])]  # type: ignore[name-defined]
        images = list[self.image] | None  # type: ignore[name-defined]
        made.append(("old", images) if "old" in fields else ("old", images, None))
        for name, kind in _FIELDS.items():
            made.append((name, kind) if name in fields else (name, kind, _ABSENT.get(name)))
        flat = msgspec.defstruct("Flat", made, kw_only=True, forbid_unknown_fields=True, gc=False)
        return msgspec.json.Decoder(flat).decode

    def describes(self, flat: Any) -> bool:
        """Whether a message is about this table as it is known here."""
        return bool(
            flat.table == self.schema.table
            and (flat.database or None) == self.schema.database
            and flat.mysqlType == self.mysql
            and flat.pkNames == self.pk
            and not flat.isDdl
        )

    def changes(self, message: Message, flat: Any) -> tuple[list[Change], int]:
        """The changes of a typed message, and how many quotes a faithful text of it has.

        Raises:
            Refusal: a value is bad.
            Incomplete: a row lacks a column.
            KeyError: not a type with rows, or `sqlType` was never seen.
        """
        operation = _OPERATIONS[flat.type]
        if flat.sqlType == self.sql:
            quotes, stated = self.sql_known
        else:
            raw = bytes(flat.sqlType)
            quotes, stated = self.sql_known = self.sql_types[raw]
            self.sql = Raw(raw)
        strings = 2 + (flat.database is not None) + (flat.gtid is not None) + (flat.sql is not None)
        extra: bytes | None
        if flat.id is not None and flat.ts is not None and not stated:
            extra = b'{"canal":{"id":%d,"ts":%d}}' % (flat.id, flat.ts)
        else:
            extra = extra_json(flat.id, flat.ts, sqlType=Raw(stated) if stated else None)
        es = flat.es
        time = None if es is None else es * 1000
        gtid = flat.gtid or None
        schema, read, size = self.schema, self.read, self.size
        changes = []
        old = flat.old if operation == "update" else None
        if operation != "update" and flat.old:
            raise KeyError(flat.type)
        if old is not None and len(old) != len(flat.data):
            raise KeyError(flat.type)
        for index, row in enumerate(flat.data):
            strings += size + read(row)
            before, after = None, row
            if old is not None:
                before = old[index]
                strings += self.overlay(before, row)
            elif operation == "delete":
                before, after = row, None
            changes.append(
                Change(
                    operation,
                    schema,
                    message,
                    index,
                    before,
                    after,
                    None,
                    1,
                    False,
                    None,
                    None,
                    time,
                    gtid,
                    None,
                    extra,
                )
            )
        return changes, self.quotes + quotes + 2 * strings

    def change(self, message: Message, flat: Any, index: int, row: Raw, old: Raw) -> Change:
        """One row of a message on the slow way.

        Raises:
            Refusal: the row or a value of it is bad.
        """
        operation = _OPERATIONS[flat.type]
        image = self._image(row)
        before = None
        if operation == "update" and old != _NULL:
            before = self._image(old, converted=False)
            self.overlay(before, image)
        after: Any = image
        if operation == "delete":
            before, after = image, None
        return Change(
            operation,
            self.schema,
            message,
            index,
            before,
            after,
            source_time=None if flat.es is None else flat.es * 1000,
            transaction=flat.gtid or None,
            extra=extra_json(flat.id, flat.ts, sqlType=self._carried(flat, image)),
        )

    def _image(self, row: Raw, converted: bool = True) -> Any:
        try:
            image = msgspec.json.decode(row, type=self.image)
        except JSON_ERRORS as error:
            raise Refusal("shape", f"a row has the wrong shape: {error}") from None
        if converted and self.convert is not None:
            self.convert(image)
        return image

    def _carried(self, flat: Any, image: Any) -> Raw | None:
        """`sqlType` if it does not follow from `mysqlType` and the row."""
        raw = bytes(flat.sqlType)
        if raw in (b"", b"null"):
            return None
        try:
            stated = msgspec.json.decode(raw, type=dict[str, int | None])
        except JSON_ERRORS as error:
            raise Refusal("shape", f"sqlType has the wrong shape: {error}") from None
        return None if stated == sql_types(self.schema, image) else Raw(_json(stated))

    def learn(self, flat: Any, changes: list[Change]) -> None:
        """Remember the `sqlType` of a message whose rows were all good.

        Canal states it for the last row.
        """
        if not changes or any(change.outcome != "ok" for change in changes):
            return
        raw = bytes(flat.sqlType)
        last = changes[-1]
        carried = self._carried(flat, last.before if last.after is None else last.after)
        if len(self.sql_types) >= _MAX_SQL_TYPES:
            self.sql_types.clear()
        absent = b"" if raw == b"null" else raw
        known = (quotes_of(raw), b"" if carried is None else bytes(carried))
        self.sql_types[raw] = self.sql_types[absent] = known


def sql_types(schema: TableSchema, image: Any) -> dict[str, int]:
    """`sqlType` as Canal would state it for a row.

    An unsigned integer that its signed type does not hold gets the next larger type, and a SET
    that is null the number of a BLOB.
    """
    stated = {}
    for i, column in enumerate(schema.columns):
        text = column.source_type or ""
        number = jdbc_type(text)
        raised = raised_jdbc_type(text)
        value = getattr(image, f"f{i}")
        if raised is not None and value.__class__ is str and value.isdecimal():
            number = raised[0] if len(value) < 21 and int(value) >= raised[1] else number
        elif value is None and number == -7 and text.lower().startswith("set"):
            number = 2004
        stated[column.name] = number
    return stated


def extra_json(identity: int | None, ts: int | None, **more: Any) -> bytes | None:
    """What only a Canal target can carry on: batch id, time of writing and further fields."""
    fields = {"id": identity, "ts": ts, **more}
    carried = {name: value for name, value in fields.items() if value is not None}
    return _json({"canal": carried}) if carried else None
