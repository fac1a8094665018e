"""Reads IBM CDC's Avro topics: rows as they are after a change, deletes as null values, audits."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from waybill.avro.faults import explain
from waybill.avro.framing import KEY, VALUE
from waybill.avro.reading import READ_ERRORS
from waybill.avro.sources import Schemas
from waybill.caches import Bounded
from waybill.envelopes.ibmcdc.tables import ReadKey, ReadTable
from waybill.errors import Refusal
from waybill.records import Change, skipped
from waybill.values.temporal import is_wall_clock, iso_from_blank

if TYPE_CHECKING:
    from waybill.envelopes.ibmcdc.settings import IbmCdcReadSettings
    from waybill.records import Message, TableSchema
    from waybill.tables import TableRules

OPERATIONS = {"PT": "insert", "RR": "read", "UP": "update", "DL": "delete"}
"""Entry types that carry a change (IBM documentation, Entry Type)."""

BEFORE_ROWS = frozenset({"UB", "FB", "BR", "FD"})
"""Entry types of rows before a change, in audit topics with a record for each of both rows."""

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock, compared with wall clocks only
_MICROSECOND = timedelta(microseconds=1)


class IbmCdcDecoder:
    """Reads messages of the envelope `ibmcdc-avro`.

    Args:
        settings: where the schemas are, and how the topic was written.
        rules: declared keys and column types.
    """

    def __init__(self, settings: IbmCdcReadSettings, rules: TableRules) -> None:
        self.settings = settings
        self.rules = rules
        self.schemas = Schemas(settings)
        self._tables: Bounded[tuple[bytes, bytes | None], ReadTable] = Bounded()
        self._keys: Bounded[bytes, ReadKey] = Bounded()
        self._framed_keys: Bounded[bytes, ReadKey] = Bounded()
        self._framed: Bounded[tuple[bytes, bytes | None], ReadTable] = Bounded()

    def decode(self, message: Message) -> list[Change]:
        """The change of one message.

        Raises:
            Refusal: its framing, its schema or its data cannot be read.
        """
        value = message.value
        if value is None:
            return [self._deleted(message)]
        key = message.key
        table, start = None, 5
        if message.headers is None:
            # Nearly every message is framed by two ids that came before.
            table = self._framed.get((value[:5], key if key is None else key[:5]))
        if table is None:
            table, start = self.table_of(message, value, key)
        try:
            (after, before, audit), end = table.read(value, start, len(value))
        except (*READ_ERRORS, Refusal) as error:
            fault = table.fault(value, start)
            raise fault or explain(table.node, value, start, error) from None
        if end != len(value):
            raise explain(table.node, value, start)
        key_image = None if key is None else self._read_key(key, message, table.by_message_key)
        if table.audit:
            change = _audited(message, table, after, before, audit)
        else:
            change = Change("upsert", table.schema, message, after=after)
        if key_image is not None and change.outcome == "ok":
            _check_same(change, *key_image)
        return [change]

    def table_of(self, message: Message, value: bytes, key: bytes | None) -> tuple[ReadTable, int]:
        """What reads a value, and where its data begins."""
        known, start = self.schemas.open(VALUE, value, message)
        key_id = None if key is None else self._key_identity(key, message)
        table = self._tables.get((known.identity, key_id))
        if table is None:
            names = None if key_id is None else self._keys[key_id].names
            table = ReadTable(known.node, names, self.settings, self.rules)
            self._tables[known.identity, key_id] = table
        if message.headers is None and value[0] == 0 and (key is None or key[:1] == b"\0"):
            self._framed[value[:5], key if key is None else key[:5]] = table
        return table, start

    def _key_identity(self, key: bytes, message: Message) -> bytes | None:
        """What tells keys of one schema from others; None for keys of another kind (text, JSON)."""
        return self.key_of(key, message)[0] if _in_avro(key, message) else None

    def _read_key(
        self, key: bytes, message: Message, believed: bool
    ) -> tuple[TableSchema, Any] | None:
        """The key beside a row; None where it is of another kind or nobody believes it.

        Raises:
            Refusal: it ends early or late, as one without a row may.
        """
        table, start = None, 5
        if message.headers is None:
            table = self._framed_keys.get(key[:5])
        if table is None:
            if not _in_avro(key, message):
                return None
            _, table, start = self.key_of(key, message)
            if message.headers is None and key[0] == 0:
                self._framed_keys[key[:5]] = table
        if believed:
            return table.schema, self._whole_key(table, key, start)
        try:
            _, end = table.check(key, start, len(key))
        except READ_ERRORS as error:
            raise explain(table.node, key, start, error) from None
        if end != len(key):
            raise explain(table.node, key, start)
        return None

    @staticmethod
    def _whole_key(table: ReadKey, key: bytes, start: int) -> Any:
        """The row of the key columns alone."""
        try:
            row, end = table.read(key, start, len(key))
        except (*READ_ERRORS, Refusal) as error:
            fault = table.fault(key, start)
            raise fault or explain(table.node, key, start, error) from None
        if end != len(key):
            raise explain(table.node, key, start)
        return row

    def key_of(self, key: bytes, message: Message) -> tuple[bytes, ReadKey, int]:
        """What tells keys of one schema from others, what reads them, where the data begins."""
        known, start = self.schemas.open(KEY, key, message)
        found = self._keys.get(known.identity)
        if found is None:
            found = self._keys[known.identity] = ReadKey(known.node, self.settings, self.rules)
        return known.identity, found, start

    def _deleted(self, message: Message) -> Change:
        """A null value is the delete of the key."""
        key = message.key
        if key is None:
            return skipped(message, "neither key nor value")
        _, table, start = self.key_of(key, message)
        row = self._whole_key(table, key, start)
        return Change("delete", table.schema, message, before=row)


def _in_avro(key: bytes, message: Message) -> bool:
    """Whether a key is Avro data; others are texts or JSON."""
    headers = message.headers or ()
    return key[:1] in (b"\0", b"\1") or any(name == KEY.id_header for name, _ in headers)


def _check_same(change: Change, key: TableSchema, image: Any) -> None:
    """Refuse a row under the key of another one: what became of that one, nothing tells.

    Whether the default form writes a change of the key so is not known. An update that tells both
    rows may stand under the key of either.

    Args:
        change: what is stated of the row.
        key: the schema of the message key; where it has another type, texts may differ.
        image: the message key.
    """
    schema, identity = change.schema, msgspec.structs.astuple(image)
    row = change.before if change.operation == "delete" else change.after
    found = schema.key_values(row)
    if identity == found or (
        change.before is not None and identity == schema.key_values(change.before)
    ):
        return
    for column, place, one, other in zip(
        key.columns, schema.key_places, identity, found, strict=True
    ):
        if one != other and column.type == schema.columns[place].type:
            sentence = f"the message key has {_shown(one)} in {column.name!r} and the row"
            sentence = f"{sentence} {_shown(other)}: declare the key under tables"
            raise Refusal("key", f"{sentence} if it is another one")


def _shown(text: Any) -> str:
    return repr(text[:40]) if isinstance(text, str) else "null"


def _audited(
    message: Message, table: ReadTable, after: Any, before: Any, audit: tuple[Any, ...]
) -> Change:
    """The change of a record with audit columns."""
    by_name = dict(zip(table.audit, audit, strict=True))
    given = by_name.pop("ENTTYP")
    entry = given if isinstance(given, str) else None
    if entry in BEFORE_ROWS:
        # The record after it has the row as it became; nothing ties the two but their place, and a
        # change of the key may put them into two partitions: not stated (docs/envelopes/ibmcdc.md).
        return skipped(message, "row before an update")
    operation = None if entry is None else OPERATIONS.get(entry)
    if operation is None:
        raise Refusal("operation", f"IBM CDC has no entry type {str(given)[:40]!r}")
    if before is not None and not _any(before):
        before = None
    if operation == "delete":
        if before is not None:
            _check_deleted(table, after, before)
        before, after = after if before is None else before, None
    elif operation != "update" and before is not None:
        _check_new(table, entry, before)
        before = None
    source_time = _take_time(by_name)
    transaction = by_name.pop("CCID", None)
    rest = {name: value for name, value in by_name.items() if value is not None}
    return Change(
        operation,
        table.schema,
        message,
        before=before,
        after=after,
        source_time=source_time,
        transaction=str(transaction) if transaction not in (None, "") else None,
        extra=msgspec.json.encode({"ibmcdc": rest}) if rest else None,
    )


def _check_new(table: ReadTable, entry: str | None, before: Any) -> None:
    """Refuse a new row with one before it, which would be gone without a word."""
    row = msgspec.structs.astuple(before)
    for i in table.null_olds:
        if row[i] is not None:
            sentence = f"{_field(table, table.olds[i])} is {row[i][:40]!r} beside entry type"
            raise Refusal("shape", f"{sentence} {entry!r}: a new row has none before it")


def _check_deleted(table: ReadTable, after: Any, before: Any) -> None:
    """Refuse the delete of two rows, of which nothing tells the one that is gone."""
    row, old = msgspec.structs.astuple(after), msgspec.structs.astuple(before)
    for i in table.null_both:
        if None not in (row[i], old[i]) and row[i] != old[i]:
            sentence = f"{_field(table, table.places[i])} is {row[i][:40]!r} and "
            sentence += f"{_field(table, table.olds[i])} {old[i][:40]!r} beside entry type 'DL'"
            raise Refusal("shape", f"{sentence}: these are two rows")


def _field(table: ReadTable, place: int | None) -> str:
    return "" if place is None else repr(table.node.fields[place].name)


def _take_time(audit: dict[str, Any]) -> int | None:
    """The time of a record in microseconds; what cannot be read as one stays to be carried."""
    time = audit.get("UTC_TIMESTMP") or audit.get("TIMSTAMP")
    micros = micros_of(time) if isinstance(time, str) else None
    for name in ("UTC_TIMESTMP", "TIMSTAMP"):
        if micros is not None or not audit.get(name):
            audit.pop(name, None)
    return micros


def _any(image: Any) -> bool:
    """Whether an image holds a value; the columns before an insert are all null."""
    return any(isinstance(value, str) for value in msgspec.structs.astuple(image))


@lru_cache(maxsize=10_000)
def micros_of(text: str) -> int | None:
    """Microseconds since 1970 of a time in an audit column, None where it is not stated as a time.

    It is taken as UTC, digits below a microsecond are cut off.
    """
    wall = iso_from_blank(text.strip())
    if not is_wall_clock(wall):
        return None
    return (datetime.fromisoformat(wall) - _EPOCH) // _MICROSECOND
