"""Writes messages of OMS Default: both images, numbers unquoted and exact, one row a message.

What the canonical change does not hold follows fixed rules, so that a rerun writes the same bytes:
`storeDataSequence` is the source's sequence if that is one number, else offset times a million
plus the place in the message (none for a full row or a heartbeat); fields of `allMetaData` that
came from OMS are carried on, others are null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw

from waybill.envelopes.generated import fill, function, gaps, nulls, picker
from waybill.envelopes.notation.values import is_plain_number
from waybill.envelopes.oms.columns import Notation, notation_of, write_boolean, write_number
from waybill.envelopes.oms.tables import database_of
from waybill.envelopes.protocol import Encoded, Settings
from waybill.errors import Refusal
from waybill.types import NUMBER, STRING

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.records import Change, TableSchema

SEPARATOR = "\u0001"
PLACES = 1_000_000
"""How many changes of one message a generated sequence keeps apart."""

_RECORD_TYPES = {
    "insert": b"INSERT",
    "upsert": b"INSERT",
    "read": b"ROW",
    "update": b"UPDATE",
    "delete": b"DELETE",
}
_TOLD = frozenset({NUMBER, STRING})
"""Types that JSON itself tells, as long as the value is not null."""
_MAX_NAMES = 1_000
_NULL = Raw(b"null")
_json = msgspec.json.Encoder().encode


class OmsDefaultWriteSettings(Settings):
    """Writing the Default format needs to be told nothing."""


class _Carried(msgspec.Struct, gc=False, omit_defaults=True):
    """Fields of `allMetaData` that came from OMS."""

    checkpoint: Raw = _NULL
    source_identity: Raw = _NULL
    dbType: str | None = None
    uniqueId: Raw = _NULL
    db: str | None = None


class _Extra(msgspec.Struct, gc=False):
    oms: _Carried | None = None


_NOTHING = _Carried()
_decode_extra = msgspec.json.Decoder(_Extra).decode


class OmsDefaultEncoder:
    """Writes messages of the Default format.

    Args:
        settings: nothing.
    """

    def __init__(self, settings: OmsDefaultWriteSettings) -> None:
        self._tables: dict[TableSchema, _Table] = {}

    def encode(self, change: Change, losses: list[str]) -> list[Encoded]:
        """The message of a change; see `Encoder.encode`.

        Raises:
            Refusal: kind `encoding`, when a value has no notation in OMS.
        """
        operation, schema = change.operation, change.schema
        kind = _RECORD_TYPES.get(operation)
        if kind is None and operation not in ("ddl", "truncate", "heartbeat"):
            losses.append("other" if operation == "other" else "transactions")
            return []
        table = self._tables.get(schema)
        if table is None:
            table = self._tables[schema] = _Table(schema)
        if kind is not None:
            return [table.row(change, kind, losses)]
        return [table.event(change, losses)]


class _Table:
    """What a schema decides about its messages."""

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        notations = [notation_of(column.type) for column in schema.columns]
        size = len(notations)
        self.gaps = gaps(size)
        self.wire, self.wire_pair = _writers(schema.names, notations)
        self.no_key = None if schema.key else schema.qualified_name.encode()
        key_fields = schema.key_fields if schema.key else ()
        self.key_of = picker(key_fields)
        self.value_of = _value_writer(key_fields, notations, schema)
        self.names: dict[tuple[str | None, str | None], tuple[bytes, bytes]] = {}
        self.loses_types = any(column.type not in _TOLD for column in schema.columns)
        self.nulls = nulls(size)
        self.loses_schema = schema.schema is not None
        key = _json(SEPARATOR.join(schema.key)) if schema.key else b"null"
        self.template = (
            b'{"prevStruct":%%b,"postStruct":%%b,"allMetaData":{"checkpoint":%%b,'
            b'"record_primary_key":%b,"record_primary_value":%%b,"source_identity":%%b,'
            b'"dbType":%%b,%%b"table_name":%b,"db":%%b,"timestamp":%%b,"uniqueId":%%b},'
            b'"recordType":"%%b"}'
        ) % (key.replace(b"%", b"%%"), _json(schema.table).replace(b"%", b"%%"))

    def row(self, change: Change, kind: bytes, losses: list[str]) -> Encoded:
        """The message of a row."""
        before, after = change.before, change.after
        if kind == b"DELETE":
            if before is None:
                raise Refusal("encoding", "a delete without a row image")
            after = None
            image = before = self._completed(before, None, losses)
        else:
            if after is None:
                raise Refusal("encoding", f"a {change.operation} without a row image")
            image = after = self._completed(after, before, losses)
            before = self._before(change) if kind == b"UPDATE" else None
        if before is not None and after is not None:
            before, after = self.wire_pair(before, after)
        elif after is not None:
            after = self.wire(after)
        else:
            before = self.wire(before)
        if self.loses_types or self.nulls(image):
            losses.append("types")
        key = self.no_key
        value = b"null"
        if key is None:
            key = _json(self.key_of(image))
            value = _json(self.value_of(image))
        return Encoded(
            key,
            self._message(
                change,
                b"null" if before is None else _json(before),
                b"null" if after is None else _json(after),
                value,
                kind,
                losses,
            ),
        )

    def event(self, change: Change, losses: list[str]) -> Encoded:
        """The message of a DDL statement, a TRUNCATE (which is one here) or a heartbeat."""
        if change.operation == "heartbeat":
            value = self._message(change, b"null", b"null", b"null", b"HEARTBEAT", losses)
            return Encoded(None, value)
        text = change.ddl_text
        if text is None and change.operation == "truncate":
            names = [name for name in (self.schema.database, self.schema.table) if name]
            text = "TRUNCATE TABLE " + ".".join(f"`{n.replace('`', '``')}`" for n in names)
        ddl = _json({"ddl": text or ""})
        return Encoded(None, self._message(change, b"null", ddl, b"null", b"DDL", losses))

    def _message(
        self,
        change: Change,
        before: bytes,
        after: bytes,
        value: bytes,
        kind: bytes,
        losses: list[str],
    ) -> bytes:
        carried = _NOTHING
        if change.extra is not None:
            carried = _decode_extra(change.extra).oms or _NOTHING
        time, sequence = change.source_time, change.sequence
        timestamp = b"null"
        if time is not None:
            timestamp = b'"%d"' % (time // 1_000_000)
            if time % 1_000_000:
                losses.append("source_time")
        stated = b""
        if sequence is not None and len(sequence) == 1:
            stated = b'"storeDataSequence":%d,' % sequence
        elif kind not in (b"ROW", b"HEARTBEAT") or sequence is not None:
            if sequence is not None:
                losses.append("sequence_id")
            number = change.message.offset * PLACES + change.index
            stated = b'"storeDataSequence":%d,' % number
        if change.transaction is not None:
            losses.append("transactions")
        if self.loses_schema:
            losses.append("schema_name")
        known = self.names.get((carried.db, carried.dbType))
        db, db_type = known or self._names(carried)
        return self.template % (
            before,
            after,
            carried.checkpoint,
            value,
            carried.source_identity,
            db_type,
            stated,
            db,
            timestamp,
            carried.uniqueId,
            kind,
        )

    def _names(self, carried: _Carried) -> tuple[bytes, bytes]:
        """`db` and `dbType`: as they came from OMS if they name this database."""
        db, db_type = self.schema.database, carried.dbType
        if carried.db is not None and database_of(carried.db, db_type) == db:
            db = carried.db
        elif db_type is None:
            db_type = "MYSQL"
        names = _json(db), _json(db_type)
        if len(self.names) < _MAX_NAMES:
            self.names[carried.db, carried.dbType] = names
        return names

    def _before(self, change: Change) -> Any:
        """The row before an update; of a key change without it, the key at least."""
        before, moved = change.before, change.moved_from
        if moved is None:
            return before
        before = self.schema.Image() if before is None else before.__copy__()
        for field, source in zip(self.schema.key_fields, moved.__struct_fields__, strict=True):
            setattr(before, field, getattr(moved, source))
        return before

    def _completed(self, image: Any, other: Any, losses: list[str]) -> Any:
        """An image, filled up from another one as far as that goes if it lacks columns."""
        if not self.gaps(image):
            return image
        losses.append("unchanged_columns")
        row = image.__copy__()
        if other is not None:
            fill(row, other)
        if UNSET in self.key_of(row):
            raise Refusal("encoding", "a key column is not in the row")
        return row


def _writers(
    names: tuple[str, ...], notations: list[Notation]
) -> tuple[Callable[[Any], Any], Callable[[Any, Any], tuple[Any, Any]]]:
    """Functions from one image to the struct whose JSON is the row, and from two to theirs.

    The second spares the columns that an update did not change.
    """
    row = msgspec.defstruct(
        "Row",
        [(f"f{i}", Any, UNSET) for i in range(len(names))],
        rename={f"f{i}": name for i, name in enumerate(names)},
        gc=False,
    )
    helpers: dict[str, Any] = {"Row": row, "Raw": Raw, "plain": is_plain_number}
    one: list[str] = []
    two: list[str] = []
    for i, notation in enumerate(notations):
        if notation.write is None:
            one.append(f"a{i} = image.f{i}")
            two += [f"a{i} = after.f{i}", f"b{i} = before.f{i}"]
            continue
        helpers[f"c{i}"] = notation.write
        written = f"c{i}(v)"
        if notation.write is write_number:
            # Most are whole numbers, which need no pattern to be known.
            whole = 'v.isdecimal() and v.isascii() and v[0] != "0"'
            written = f"Raw(v) if ({whole}) or plain(v) is not None else c{i}(v)"
        write = f"if v.__class__ is str: v = {written}"
        one += [f"v = image.f{i}", write, f"a{i} = v"]
        two += [f"v = after.f{i}", f"w = before.f{i}", "same = v == w", write, f"a{i} = v"]
        two += ["if not same:", "    v = w", f"    {write}", f"b{i} = v"]
    after = ", ".join(f"a{i}" for i in range(len(names)))
    before = after.replace("a", "b")
    return (
        function("wire(image)", [*one, f"return Row({after})"], helpers),
        function(
            "wire_pair(before, after)", [*two, f"return Row({before}), Row({after})"], helpers
        ),
    )


def _value_writer(
    fields: tuple[str, ...], notations: list[Notation], schema: TableSchema
) -> Callable[[Any], str]:
    """A function that gives `record_primary_value` of an image: the values as they are written."""
    helpers: dict[str, Any] = {"join": SEPARATOR.join}
    lines = []
    for i, (field, name) in enumerate(zip(fields, schema.key or (), strict=True)):
        lines.append(f'v{i} = image.{field} or ""')
        write = notations[schema.index[name]].write
        if write is write_boolean:
            helpers[f"c{i}"] = _digit
        elif write is not None and write is not write_number:
            helpers[f"c{i}"] = write
        if f"c{i}" in helpers:
            lines.append(f"v{i} = c{i}(v{i})")
    values = ", ".join(f"v{i}" for i in range(len(fields)))
    result = values if len(fields) == 1 else f"join(({values}))"
    return function("value(image)", [*lines, f"return {result}"], helpers)


def _digit(text: str) -> str:
    return {"true": "1", "false": "0"}.get(text, text)
