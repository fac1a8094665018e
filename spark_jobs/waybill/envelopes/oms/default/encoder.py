"""Writes messages of OMS Default: both images, numbers unquoted and exact, one row a message.

What the canonical change does not hold follows fixed rules, so that a rerun writes the same bytes:
`storeDataSequence` is the source's sequence as one number, else one made from the position (see
`written_sequence`; none for a full row or a heartbeat, nor where one of OMS had none); fields of
`allMetaData` that came from OMS are carried on, others are null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from waybill.caches import Bounded
from waybill.envelopes.database_kinds import kind_of
from waybill.envelopes.oms.lobs import WrittenLobs
from waybill.envelopes.oms.tables import database_of, split_tenant
from waybill.envelopes.oms.type_names import in_notation
from waybill.envelopes.oms.values import notation_of
from waybill.envelopes.oms.writers import writers
from waybill.envelopes.sequence.written import (
    OMS_DIGITS,
    SIGNED,
    UNSIGNED,
    PackedSequence,
    WrittenSequence,
    goes_without,
)
from waybill.envelopes.stated_keys import SEPARATOR
from waybill.envelopes.truncates import emptied, table_emptied, truncate_of
from waybill.errors import Refusal
from waybill.protocol import Encoded
from waybill.types import NUMBER, STRING
from waybill.values.generated import fill, gaps, nulls, picker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from waybill.envelopes.oms.settings import OmsDefaultWriteSettings
    from waybill.records import Change, TableSchema

_RECORD_TYPES = {
    "insert": "INSERT",
    "upsert": "INSERT",
    "read": "ROW",
    "update": "UPDATE",
    "delete": "DELETE",
}
_JSON_TYPES = frozenset({NUMBER, STRING})
"""Types that JSON itself tells, as long as the value is not null."""
_MAX_NAMES = 1_000
_OURS = b'{"oms":'
_NULL = Raw(b"null")

_json = msgspec.json.Encoder().encode
_into = msgspec.json.Encoder().encode_into


class _Carried(msgspec.Struct, gc=False, omit_defaults=True):
    """Fields of `allMetaData` that came from OMS."""

    checkpoint: Raw = _NULL
    source_identity: Raw = _NULL
    dbType: str | None = None
    uniqueId: Raw = _NULL
    db: str | None = None


class _Meta(msgspec.Struct, gc=False):
    """`allMetaData` in the order of the documentation."""

    checkpoint: Raw
    record_primary_key: Raw
    record_primary_value: str | None
    source_identity: Raw
    dbType: Raw
    storeDataSequence: int | UnsetType
    table_name: Raw
    db: Raw
    timestamp: str | None
    uniqueId: Raw


class _Message(msgspec.Struct, gc=False):
    prevStruct: Any
    postStruct: Any
    allMetaData: _Meta
    recordType: str


class _Extra(msgspec.Struct, gc=False):
    oms: _Carried | None = None


_NOTHING = _Carried()
_decode_extra = msgspec.json.Decoder(_Extra).decode


def _carried_by(change: Change) -> _Carried:
    """What a message from OMS brought along; nothing for changes from elsewhere."""
    extra = change.extra
    if extra is None or not extra.startswith(_OURS):
        return _NOTHING
    return _decode_extra(extra).oms or _NOTHING


def _kind_in(change: Change, carried: _Carried) -> str | None:
    """The kind of database that came; OMS has no small letters in it."""
    if carried is not _NOTHING:
        return carried.dbType
    kind = kind_of(change)
    return None if kind is None else kind.upper()


class OmsDefaultEncoder:
    """Writes messages of the Default format.

    Args:
        settings: notation, and how LOB columns are written that were not touched.
    """

    def __init__(self, settings: OmsDefaultWriteSettings) -> None:
        self.settings = settings
        self.packed = PackedSequence(settings, UNSIGNED)
        self._tables: Bounded[TableSchema, OmsWriter] = Bounded()

    def _writer(self, schema: TableSchema) -> OmsWriter:
        return OmsWriter(schema, self.settings)

    def table(self, schema: TableSchema) -> OmsWriter:
        """What writes the messages of a table.

        Raises:
            Refusal: kind `encoding`, when the table has no place in OMS.
        """
        table = self._tables.get(schema)
        if table is None:
            table = self._tables[schema] = self._writer(schema)
        return table

    def encode(self, change: Change, losses: list[str]) -> list[Encoded]:
        """The message of a change; see `Encoder.encode`.

        Raises:
            Refusal: kind `encoding`, when a value has no notation in OMS.
        """
        change = self.packed.as_own_message(change, losses, counts_gaps=True)
        operation, schema = change.operation, change.schema
        kind = _RECORD_TYPES.get(operation)
        if kind is None and operation not in ("ddl", "truncate", "heartbeat"):
            losses.append("other" if operation == "other" else "transactions")
            return []
        table = self.table(schema)
        if kind is not None:
            return [table.row(change, kind, losses)]
        return [table.event(change, losses)]


def _light_type(names: Mapping[str, str | None] | None) -> bytes | None:
    """The types of columns as the extended form has them in every row."""
    if names is None:
        return None
    return _json({name: {"schemaType": kind} for name, kind in names.items() if kind is not None})


class OmsWriter:
    """What a schema decides about its messages.

    Args:
        schema: the table.
        settings: notation, and how LOB columns are written that were not touched.
        names: the types that every row tells of its columns, None where it tells none.
        loses_types: whether a reader without declarations takes a column for another type; by
            default what JSON says is all that he knows.
    """

    def __init__(
        self,
        schema: TableSchema,
        settings: OmsDefaultWriteSettings,
        names: Mapping[str, str | None] | None = None,
        loses_types: bool | None = None,
    ) -> None:
        self.schema = schema
        size = len(schema.columns)
        self.gaps = gaps(size)
        # Encoding into the same buffer again spares much of the time.
        self.buffer = bytearray()
        earlier = settings.version == "earlier"
        noted = in_notation(schema, earlier)
        self.notations = [
            notation_of(column.type, earlier, settings.trailing_zeros) for column in noted.columns
        ]
        self.one, self.two = writers(noted, self.notations, _light_type(names))
        self.lobs = WrittenLobs(schema, settings, names, whole=True)
        # OMS declares a signed number; ids of others that some readers take for more stay.
        self.ids = WrittenSequence(settings, OMS_DIGITS, UNSIGNED, largest_made=SIGNED)
        self.no_key = None if schema.key else schema.qualified_name.encode()
        self.key_of = picker(schema.key_fields if schema.key else ())
        self.names: dict[tuple[str | None, str | None], tuple[Raw, Raw]] = {}
        self.times: dict[int, str] = {}
        if loses_types is None:
            loses_types = any(column.type not in _JSON_TYPES for column in schema.columns)
        self.loses_types = loses_types
        # Without names of types a null is of an unknown one.
        self.nulls_lose = names is None
        self.nulls = nulls(size if self.nulls_lose else 0)
        self.db_type = settings.db_type or ("MYSQL" if schema.dialect == "mysql" else None)
        self.loses_schema = schema.schema is not None
        self.key = Raw(_json(SEPARATOR.join(schema.key)) if schema.key else b"null")
        self.table = Raw(_json(schema.table))

    def row(self, change: Change, kind: str, losses: list[str]) -> Encoded:
        """The message of a row."""
        before, after = change.before, change.after
        if kind == "DELETE":
            if before is None:
                raise Refusal("encoding", "a delete without a row image")
            image, other = before, None
        elif after is None:
            raise Refusal("encoding", f"a {change.operation} without a row image")
        else:
            image, other = after, before
        if kind == "UPDATE" and change.moved_from is not None:
            before = self._moved(before, change.moved_from)
        lost: set[str] = set()
        if kind == "UPDATE":
            before, image = self.lobs.as_null(before, image, lost)
        if self.gaps(image):
            lost.add("unchanged_columns")
            image = self._completed(image, other)
        losses += sorted(lost)
        if self.loses_types or self.nulls(image):
            losses.append("types")
        old = None
        if kind == "UPDATE" and before is not None:
            row, key, value, old = self.two(before, image)
        else:
            row, key, value = self.one(image)
            if kind == "DELETE":
                row, old = None, row
        text = self._message(change, old, row, value, kind, losses)
        return Encoded(_json(key) if self.no_key is None else self.no_key, text)

    def event(self, change: Change, losses: list[str]) -> Encoded:
        """The message of a DDL statement, a TRUNCATE (which is one here) or a heartbeat.

        Raises:
            Refusal: kind `encoding`, when a statement stated as DDL truncates another table.
        """
        if change.operation == "heartbeat":
            return Encoded(None, self._message(change, None, None, None, "HEARTBEAT", losses))
        text = change.ddl_text or ""
        empties = self._empties(change, text)
        if change.operation == "truncate" and not empties:
            text = truncate_of(self.schema.database, self.schema.table)
        return Encoded(None, self._message(change, None, {"ddl": text}, None, "DDL", losses))

    def _empties(self, change: Change, text: str) -> bool:
        """Whether a reader takes a statement for a TRUNCATE of this table.

        Statements of other databases name theirs in ways that are none here (`ONLY public.orders`,
        `[dbo].[orders]`), or say more (`DROP STORAGE`), and would be read as a DDL.

        Raises:
            Refusal: kind `encoding`, when a DDL is one of another table, which readers refuse.
        """
        carried = _carried_by(change)
        db, db_type = self._origin(carried, _kind_in(change, carried))
        named = emptied(text, db_type)
        if named is None:
            return False
        names = split_tenant(db, db_type, named.database)[1], self.schema.table
        try:
            return table_emptied(named, *names) == names
        except Refusal as refusal:
            if change.operation == "truncate":
                return False
            raise Refusal("encoding", refusal.sentence) from None

    def _message(
        self,
        change: Change,
        before: Any,
        after: Any,
        value: str | None,
        kind: str,
        losses: list[str],
    ) -> bytes:
        carried = _carried_by(change)
        time = change.source_time
        timestamp = None
        if time is not None:
            second, rest = divmod(time, 1_000_000)
            timestamp = self.times.get(second) or self._second(second)
            if rest:
                losses.append("source_time")
        stated = self._sequence(change, carried, kind, losses)
        if change.transaction is not None:
            losses.append("transactions")
        if self.loses_schema:
            losses.append("schema_name")
        named = _kind_in(change, carried)
        db, db_type = self.names.get((carried.db, named)) or self._names(carried, named)
        _into(
            _Message(
                before,
                after,
                _Meta(
                    carried.checkpoint,
                    self.key,
                    value,
                    carried.source_identity,
                    db_type,
                    stated,
                    self.table,
                    db,
                    timestamp,
                    carried.uniqueId,
                ),
                kind,
            ),
            self.buffer,
        )
        return bytes(self.buffer)

    def _sequence(
        self, change: Change, carried: _Carried, kind: str, losses: list[str]
    ) -> int | UnsetType:
        """`storeDataSequence`; UNSET where the message is to have none."""
        sequence = change.sequence
        if sequence is None and (carried is not _NOTHING or change.full_row or kind == "HEARTBEAT"):
            return UNSET
        if change.full_row or goes_without(change):
            losses.append("sequence_id")
            return UNSET
        return self.ids.of(change, losses)

    def _second(self, second: int) -> str:
        """The text of a time in seconds: many changes share one."""
        if len(self.times) >= _MAX_NAMES:
            self.times.clear()
        text = self.times[second] = str(second)
        return text

    def _names(self, carried: _Carried, kind: str | None) -> tuple[Raw, Raw]:
        """`db` and `dbType` as JSON."""
        db, db_type = self._origin(carried, kind)
        names = Raw(_json(db)), Raw(_json(db_type))
        if len(self.names) < _MAX_NAMES:
            self.names[carried.db, kind] = names
        return names

    def _origin(self, carried: _Carried, kind: str | None) -> tuple[str | None, str | None]:
        """`db` and `dbType`: as they came from OMS if they name this database.

        Args:
            carried: what came from OMS.
            kind: the kind of database that came.
        """
        db, db_type = self.schema.database, kind
        tenant = (carried.db or "").removesuffix(f".{db}")
        if carried.db is not None and database_of(carried.db, db_type, tenant) == db:
            db = carried.db
        elif carried.db is not None and split_tenant(db, db_type)[0]:
            # Without the tenant that is left out, what stands before a dot would be taken for one.
            db_type = "MYSQL"
        return db, db_type or self.db_type

    def _moved(self, before: Any, moved: Any) -> Any:
        """The row before an update that changed its key; without that row, the key at least."""
        before = self.schema.Image() if before is None else before.__copy__()
        for field, source in zip(self.schema.key_fields, moved.__struct_fields__, strict=True):
            setattr(before, field, getattr(moved, source))
        return before

    def _completed(self, image: Any, other: Any) -> Any:
        """An image that lacks columns, filled up from another one as far as that goes."""
        row = image.__copy__()
        if other is not None:
            fill(row, other)
        if UNSET in self.key_of(row):
            raise Refusal("encoding", "a key column is not in the row")
        return row
