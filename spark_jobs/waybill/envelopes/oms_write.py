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

from waybill.envelopes.generated import fill, function, gaps, picker
from waybill.envelopes.oms_columns import Notation, notation_of
from waybill.envelopes.oms_tables import database_of
from waybill.envelopes.protocol import Encoded, Settings
from waybill.errors import Refusal

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
        self.wire = _writer(schema.names, notations)
        self.no_key = None if schema.key else schema.qualified_name.encode()
        key_fields = schema.key_fields if schema.key else ()
        self.key_of = picker(key_fields)
        self.values_of = _value_writer(key_fields, notations, schema)
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
            image = before = self._completed(before, None, "before_image", losses)
        else:
            if after is None:
                raise Refusal("encoding", f"a {change.operation} without a row image")
            image = after = self._completed(after, before, "unchanged_columns", losses)
            before = self._before(change, losses) if kind == b"UPDATE" else None
        key = self.no_key
        value = b"null"
        if key is None:
            key = _json(self.key_of(image))
            value = _json(SEPARATOR.join(self.values_of(image)))
        return Encoded(
            key,
            self._message(
                change,
                b"null" if before is None else _json(self.wire(before)),
                b"null" if after is None else _json(self.wire(after)),
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
        schema, time, sequence = self.schema, change.source_time, change.sequence
        timestamp = b"null"
        if time is not None:
            timestamp = b'"%d"' % (time // 1_000_000)
            if time % 1_000_000:
                losses.append("source_time")
        stated = b""
        if sequence is not None and len(sequence) == 1:
            stated = b'"storeDataSequence":%d,' % sequence
        elif kind not in (b"ROW", b"HEARTBEAT") or sequence is not None:
            losses.append("sequence_id")
            number = change.message.offset * PLACES + change.index
            stated = b'"storeDataSequence":%d,' % number
        if change.transaction is not None:
            losses.append("transactions")
        if self.loses_schema:
            losses.append("schema_name")
        db, db_type = schema.database, carried.dbType
        if carried.db is not None and database_of(carried.db, db_type) == db:
            db = carried.db
        elif db_type is None:
            db_type = "MYSQL"
        return self.template % (
            before,
            after,
            bytes(carried.checkpoint),
            value,
            bytes(carried.source_identity),
            _json(db_type),
            stated,
            _json(db),
            timestamp,
            bytes(carried.uniqueId),
            kind,
        )

    def _before(self, change: Change, losses: list[str]) -> Any:
        """The row before an update; of a key change without it, the key at least."""
        before, moved = change.before, change.moved_from
        if before is None:
            losses.append("before_image")
            if moved is None:
                return None
            before = self.schema.Image()
        elif moved is not None:
            before = before.__copy__()
        if moved is not None:
            for field, source in zip(self.schema.key_fields, moved.__struct_fields__, strict=True):
                setattr(before, field, getattr(moved, source))
        elif self.gaps(before):
            losses.append("before_image")
        return before

    def _completed(self, image: Any, other: Any, loss: str, losses: list[str]) -> Any:
        """An image, filled up from another one as far as that goes if it lacks columns."""
        if not self.gaps(image):
            return image
        row = image.__copy__()
        if not fill(row, other):
            losses.append(loss)
        if UNSET in self.key_of(row):
            raise Refusal("key", "a key column is not in the row")
        return row


def _writer(names: tuple[str, ...], notations: list[Notation]) -> Callable[[Any], Any]:
    """A function from an image to the struct whose JSON is the row."""
    row = msgspec.defstruct(
        "Row",
        [(f"f{i}", Any, UNSET) for i in range(len(names))],
        rename={f"f{i}": name for i, name in enumerate(names)},
        gc=False,
    )
    lines, writers = [], {}
    for i, notation in enumerate(notations):
        lines.append(f"v{i} = image.f{i}")
        if notation.write is not None:
            writers[f"c{i}"] = notation.write
            lines.append(f"if v{i}.__class__ is str: v{i} = c{i}(v{i})")
    arguments = ", ".join(f"v{i}" for i in range(len(names)))
    return function("wire(image)", [*lines, f"return Row({arguments})"], {**writers, "Row": row})


def _value_writer(
    fields: tuple[str, ...], notations: list[Notation], schema: TableSchema
) -> Callable[[Any], list[str]]:
    """A function that gives the key's values as `record_primary_value` spells them."""
    writers = [notations[schema.index[name]].write for name in schema.key or ()]

    def values(image: Any) -> list[str]:
        found = []
        for field, write in zip(fields, writers, strict=True):
            text = getattr(image, field)
            if text is None:
                text = ""
            elif write is not None:
                written = write(text)
                text = written if written.__class__ is str else str(written, "ascii")
            found.append(text)
        return found

    return values
