"""What one shape of a Canal table decides: schema, converters of values, the typed decoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec
from msgspec import Meta, Raw

from waybill.counting import counted
from waybill.envelopes.canal.sql_types import MOST_KNOWN, USUAL, SqlTypes
from waybill.envelopes.canal.values import notation_of
from waybill.errors import Refusal
from waybill.records import Change, Column, intern_schema
from waybill.values.generated import converter, gaps, overlay, unstated
from waybill.values.instants import FIRST_MS, LAST_MS
from waybill.values.known_messages import KnownMessage, strict
from waybill.values.mysql_types import logical_type
from waybill.values.values import JSON_ERRORS

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from waybill.envelopes.canal.sql_types import Unusual
    from waybill.records import Message
    from waybill.tables import TableRules
    from waybill.types import LogicalType

_OPERATIONS = {"INSERT": "insert", "UPDATE": "update", "DELETE": "delete"}
_NULL = Raw(b"null")
_TYPED_HINT = "; set `values: json` of the source where Flink, SeaTunnel or InLong wrote it"
_json = msgspec.json.Encoder().encode


class Shape(NamedTuple):
    """Everything of a message that the way to read its rows depends on.

    Attributes:
        database: name as it stands there.
        table: name.
        fields: names at the top of the message, in order.
        names: columns in the order of `mysqlType`, then those that only rows have.
        types: texts of `mysqlType` to them.
        named: how many of the columns stand in `mysqlType`.
        key: `pkNames`.
        mysql: `mysqlType` as it stands there, None where it does not.
        pk: `pkNames`, likewise.
    """

    database: str | None
    table: str
    fields: tuple[str, ...]
    names: tuple[str, ...]
    types: tuple[str | None, ...]
    named: int
    key: tuple[str, ...]
    mysql: bytes | None
    pk: bytes | None


_FIELDS: dict[str, Any] = {
    "es": Annotated[int, Meta(ge=FIRST_MS, le=LAST_MS)] | None,
    "gtid": str | None,
    "id": int | None,
    "isDdl": bool | None,
    "mysqlType": Raw,
    "pkNames": Raw,
    "sql": str | None,
    "sqlType": Raw,
    "ts": int | None,
}
_ABSENT = {"database": None, "old": None, **dict.fromkeys(_FIELDS)}
_REQUIRED = {"data", "table", "type"}


class CanalTable:
    """A table as messages of one shape describe it.

    Args:
        shape: what those messages have in common.
        rules: declared keys and types, which go before what the messages say.
        zone: time zone of the Canal server.
    """

    own_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields that messages have beside those of Canal, if they are to be read fast."""
    sql_types: ClassVar[type[SqlTypes]] = SqlTypes
    """How the numbers in `sqlType` follow from the types and the row."""

    def __init__(self, shape: Shape, rules: TableRules, zone: ZoneInfo) -> None:
        rules.admit(len(shape.names), shape.database or None, None, shape.table)
        rule = rules.find(shape.database or None, None, shape.table)
        columns = tuple(
            self._column(name, rule.columns.get(name), text)
            for name, text in zip(shape.names, shape.types, strict=True)
        )
        self.schema = intern_schema(
            shape.database or None,
            None,
            shape.table,
            columns,
            shape.key if rule.key is None else rule.key,
            "mysql",
        )
        readers = {}
        for i, column in enumerate(columns):
            read = notation_of(column.type, column.source_type, zone).read
            if read is not None:
                readers[i] = read
        self.needle = b'"table":%b' % _json(shape.table)
        self.image: type[Any] = self.schema.Image
        self.empty = self.image()
        self.readers = readers
        self.convert = converter(readers)
        self.overlay = overlay(len(columns), readers)
        self.types = self.sql_types(self.schema)
        # Columns that only rows name: rows with fewer of them are of another shape.
        self.loose = shape.named < len(columns)
        self.gaps = gaps(len(columns))
        self.unstated = unstated(len(columns))
        self.mysql: Any = None if shape.mysql is None else Raw(shape.mysql)
        self.pk = None if shape.pk is None else Raw(shape.pk)
        self.sql: Raw | None = Raw(b"?")
        self.carried = b""
        self.known: dict[tuple[bytes, Unusual], bytes] = {}
        """What rows carry of a `sqlType`, by what is unusual in them: nothing if it follows."""
        fields = set(shape.fields)
        required = _REQUIRED | self.own_fields
        self.fast = fields >= required and fields <= {*required, *_FIELDS, *_ABSENT}
        if self.fast:
            absent = [name for name in _ABSENT if name not in shape.fields]
            kinds = self._kinds(shape)
            # In the order of the message, so that encoding gives the same bytes again.
            self.decode = KnownMessage(strict({name: kinds[name] for name in shape.fields}, absent))

    def _column(self, name: str, declared: LogicalType | None, text: str | None) -> Column:
        """A column with its type: as declared, else as the text in `mysqlType` says."""
        return Column(name, declared or logical_type(text), text)

    def _kinds(self, shape: Shape) -> dict[str, Any]:
        """What each field holds."""
        images = list[self.image]  # type: ignore[name-defined]
        return {
            **_FIELDS,
            "data": images,
            "old": images | None,
            "table": Literal[shape.table],
            "database": None if shape.database is None else Literal[shape.database],
            "type": Literal["INSERT", "UPDATE", "DELETE"],
        }

    def read(self, message: Message, value: bytes) -> list[Change] | None:
        """The changes of a message of this table; None if it has to be read exactly.

        Raises:
            Exception: one of `JSON_ERRORS`, or a Refusal for a bad value.
        """
        flat = self.decode(value)
        if flat is None or flat.isDdl or flat.sql:
            return None
        if flat.mysqlType != self.mysql or flat.pkNames != self.pk:
            return None
        if not flat.data or self.empty in flat.data:
            return None  # no row, or one without columns
        if self.loose and any(map(self.gaps, flat.data)):
            return None  # of columns that only rows name, all have to be there
        stated = self._stated(flat)
        if stated is None:
            return None
        return self._changes(message, flat, _OPERATIONS[flat.type], stated)

    def _changes(
        self, message: Message, flat: Any, operation: str, stated: list[bytes]
    ) -> list[Change]:
        """The changes of a message that is understood.

        Args:
            message: the message.
            flat: what it holds.
            operation: what happened to its rows.
            stated: the `sqlType` that each of them carries.

        Raises:
            Exception: see `read`.
        """
        rows, old = flat.data, flat.old
        if old is not None and (operation != "update" or len(old) != len(rows)):
            old = self._filled_up(operation, rows, old)
        time = None if flat.es is None else flat.es * 1000
        gtid = flat.gtid or None
        schema, convert = self.schema, self.convert
        changes = []
        extra, carried = _extra(flat, stated[0]), stated[0]
        for index, after in enumerate(rows):
            if stated[index] is not carried:
                carried = stated[index]
                extra = _extra(flat, carried)
            if convert is not None:
                convert(after)
            before = None
            # What `_filled_up` put in front are no entries.
            if old is not None and old[index] is not self.empty:
                before = self._before(old[index], after)
            elif operation == "delete":
                before, after = after, None
            changes.append(
                Change(
                    operation,
                    schema,
                    message,
                    index=index,
                    before=before,
                    after=after,
                    source_time=time,
                    transaction=gtid,
                    extra=extra,
                )
            )
        return changes

    def _before(self, changed: Any, after: Any) -> Any:
        """The row before an update, of its columns that changed; None where nothing is known of it.

        Raises:
            ValueError: one of them is not in the row after it.
        """
        if self.gaps(after):
            if self.unstated(changed, after):
                raise ValueError("old has a column that data does not have")
            if changed == self.empty:
                return None
        self.overlay(changed, after)
        return changed

    def _filled_up(self, operation: str, rows: list[Any], old: list[Any]) -> list[Any]:
        """`old` with empty entries for the rows in front that have none.

        Raises:
            ValueError: it does not fit the rows.
        """
        missing = len(rows) - len(old)
        if operation != "update" or not 0 < missing < len(rows):
            raise ValueError(f"{counted(len(rows), 'row')} in data but {len(old)} in old")
        return [self.empty] * missing + old

    def _stated(self, flat: Any) -> list[bytes] | None:
        """The `sqlType` that each row carries; None where one has none that is known."""
        known, types = self.known, self.types
        if not types.varying and flat.sqlType == self.sql:
            return [self.carried] * len(flat.data)
        sql = b"null" if flat.sqlType is None else bytes(flat.sqlType)
        if not types.varying:
            stated = known.get((sql, USUAL))
            if stated is None:
                return None
            self.sql = None if flat.sqlType is None else flat.sqlType.copy()
            self.carried = stated
            return [stated] * len(flat.data)
        found = [known.get((sql, types.unusual(row))) for row in flat.data]
        return None if None in found else found  # type: ignore[return-value]

    def change(self, message: Message, flat: Any, index: int, row: Raw, old: Raw) -> Change:
        """One row of a message in the exact way.

        Raises:
            Refusal: the row or a value of it is bad.
        """
        operation = _OPERATIONS[flat.type]
        image = self._image(row)
        if image == self.empty:
            raise Refusal("shape", "a row without columns")
        before = None
        if operation == "update" and old != _NULL:
            changed = self._image(old, converted=False)
            refuse_unstated(self.unstated(changed, image), self.schema.names)
            try:
                before = self._before(changed, image)
            except Refusal as refusal:
                raise self._of_column(old, refusal) from None
        after: Any = image
        if operation == "delete":
            before, after = image, None
        return Change(
            operation,
            self.schema,
            message,
            index=index,
            before=before,
            after=after,
            source_time=None if flat.es is None else flat.es * 1000,
            transaction=flat.gtid or None,
            extra=extra_json(
                flat.id, flat.ts, sqlType=self._carried(flat, image), sql=flat.sql or None
            ),
        )

    def _image(self, row: Raw, converted: bool = True) -> Any:
        try:
            image = msgspec.json.decode(row, type=self.image)
        except JSON_ERRORS as error:
            hint = "" if self.mysql is not None else _TYPED_HINT
            raise Refusal("shape", f"a row has the wrong shape: {error}{hint}") from None
        if converted and self.convert is not None:
            try:
                self.convert(image)
            except Refusal as refusal:
                raise self._of_column(row, refusal) from None
        return image

    def _of_column(self, row: Raw, refusal: Refusal) -> Refusal:
        """The refusal of a value, with the name of its column."""
        image = msgspec.json.decode(row, type=self.image)
        for place, read in self.readers.items():
            value = getattr(image, f"f{place}")
            try:
                if isinstance(value, str):
                    read(value)
            except Refusal as found:
                name = self.schema.names[place]
                return Refusal(found.kind, f"column {name!r}: {found.sentence}")
        return refusal

    def _carried(self, flat: Any, image: Any) -> Raw | None:
        """`sqlType` if it does not follow from `mysqlType` and the row."""
        if flat.sqlType == _NULL:
            return None
        try:
            stated = msgspec.json.decode(flat.sqlType, type=dict[str, int | None])
        except JSON_ERRORS as error:
            raise Refusal("shape", f"sqlType has the wrong shape: {error}") from None
        return None if stated == self.types.of(image) else Raw(_json(stated))

    def learn(self, flat: Any, changes: list[Change]) -> None:
        """Remember the `sqlType` of a message whose rows were all good.

        Canal states it for the last row; others carry it where it is not theirs.
        """
        if not changes or any(change.outcome != "ok" for change in changes):
            return
        sql = bytes(flat.sqlType)
        for change in changes:
            image = change.before if change.after is None else change.after
            unusual = self.types.unusual(image)
            if (sql, unusual) not in self.known:
                if len(self.known) >= MOST_KNOWN:
                    self.known.clear()
                carried = self._carried(flat, image)
                self.known[sql, unusual] = b"" if carried is None else bytes(carried)


def refuse_unstated(places: list[int], names: tuple[str, ...]) -> None:
    """Refuse an update of columns of which it does not tell what they are now.

    Taken for unchanged, they would keep the value that they had before.

    Args:
        places: the columns that are in `old` and not in `data`.
        names: the names of all columns.
    """
    if places:
        sentence = f"column {names[places[0]]!r} is in old and not in data"
        raise Refusal("shape", f"{sentence}, so that its value after the update is not known")


def _extra(flat: Any, stated: bytes) -> bytes | None:
    """What only a Canal target can carry on of a row; see `extra_json`."""
    if flat.id is None or flat.ts is None or stated:
        return extra_json(flat.id, flat.ts, sqlType=Raw(stated) if stated else None)
    return b'{"canal":{"id":%d,"ts":%d}}' % (flat.id, flat.ts)


def extra_json(identity: int | None, ts: int | None, **more: Any) -> bytes | None:
    """What only a Canal target can carry on: batch id, time of writing and further fields."""
    fields = {"id": identity, "ts": ts, **more}
    carried = {name: value for name, value in fields.items() if value is not None}
    return _json({"canal": carried}) if carried else None
