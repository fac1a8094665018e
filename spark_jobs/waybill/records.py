"""The canonical change: the only thing that decoders produce and encoders read.

An image is a `msgspec.Struct` made once per table schema, one field per column, each holding the
exact text of the value (`str`), SQL null (`None`) or `UNSET` for a column that the envelope left
out. Encoding it as JSON gives the text image that the lake stores, and UNSET columns stay absent.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable
from functools import cached_property
from operator import attrgetter
from typing import Any, Protocol
from weakref import WeakValueDictionary

import msgspec
from msgspec import UNSET, UnsetType

from waybill.caches import Bounded
from waybill.errors import Refusal
from waybill.order import order_key
from waybill.types import UNKNOWN, LogicalType, parse_type

OPERATIONS = (
    "read",
    "insert",
    "update",
    "delete",
    "upsert",
    "truncate",
    "ddl",
    "begin",
    "commit",
    "rollback",
    "heartbeat",
    "other",
)
"""Every operation a change can have; `read` is a full row of a snapshot."""

ROW_OPERATIONS = frozenset({"read", "insert", "update", "delete", "upsert"})
"""Operations that carry a row."""

Text = str | None | UnsetType
"""One value of an image: exact text, SQL null, or not in the message."""


class Image(Protocol):
    """An image of a row: a generated struct with the fields f0, f1, … in schema order."""

    __struct_fields__: tuple[str, ...]


class Message(msgspec.Struct, gc=False):
    """One message of a topic, bytes untouched.

    Attributes:
        topic: name of the topic.
        partition: partition (DataHub: shard).
        offset: offset in the partition.
        timestamp: the queue's own timestamp in milliseconds since 1970, or None.
        key: the message key, or None.
        value: the message value; None is a tombstone.
        headers: names and values in order, duplicates kept; None where there are none.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None = None


class Column(msgspec.Struct, frozen=True):
    """One column of a source table.

    Attributes:
        name: the column's name as the envelope spells it.
        type: what the values are.
        source_type: the type as the envelope says it (`decimal(38,10)`, `LONG`), or None.
        nullable: whether null is allowed, None where the envelope does not say.
    """

    name: str
    type: LogicalType = UNKNOWN
    source_type: str | None = None
    nullable: bool | None = None


class TableSchema(msgspec.Struct, frozen=True, dict=True, eq=False, weakref=True):
    """A source table as one message describes it; made by `intern_schema`, so equal ones are one.

    Attributes:
        database: database (catalog) name, None where the envelope has none.
        schema: schema name, for sources that have them.
        table: table name, None for changes without a table.
        columns: the columns in the message's order.
        key: names of the key columns in key order; empty for a table without key, None if unknown.
        dialect: which names `source_type` uses (mysql, postgresql, streamx, connect, or empty).
    """

    database: str | None
    schema: str | None
    table: str | None
    columns: tuple[Column, ...] = ()
    key: tuple[str, ...] | None = None
    dialect: str = ""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def index(self) -> dict[str, int]:
        """Position of each column by name."""
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def spelled_twice(self) -> frozenset[str]:
        """Names that several columns have but for the case of letters, case-folded."""
        counted = Counter(name.casefold() for name in self.names)
        return frozenset(name for name, count in counted.items() if count > 1)

    @cached_property
    def key_places(self) -> tuple[int, ...]:
        """Positions of the key columns among the columns, in key order.

        Raises:
            Refusal: a key column is not among the columns, or is named twice.
        """
        key = self.key or ()
        missing = [name for name in key if name not in self.index]
        if missing:
            raise Refusal("key", f"key column {missing[0]!r} is not among the row's columns")
        twice = [name for place, name in enumerate(key) if name in key[:place]]
        if twice:
            raise Refusal("key", f"the key names the column {twice[0]!r} twice")
        return tuple(self.index[name] for name in key)

    @cached_property
    def key_fields(self) -> tuple[str, ...]:
        """Image fields (`f0` …) of the key columns; raises as `key_places` does."""
        return tuple(f"f{place}" for place in self.key_places)

    @cached_property
    def key_values(self) -> Callable[[Any], tuple[Text, ...]]:
        """A function from an image to the values of its key columns, in key order."""
        fields = self.key_fields
        if len(fields) == 1:
            one = attrgetter(fields[0])
            return lambda image: (one(image),)
        return attrgetter(*fields)

    @cached_property
    def unnamed(self) -> TableSchema:
        """The columns, key and dialect without the names: one object for all tables of these."""
        return intern_schema(None, None, None, self.columns, self.key, self.dialect)

    @cached_property
    def qualified_name(self) -> str:
        """`database.table` or `database.schema.table`, as `tables:` of a migration spells it."""
        return ".".join(part for part in (self.database, self.schema, self.table) if part)

    @cached_property
    def id(self) -> str:
        """Short content hash, the same on every machine."""
        return hashlib.sha256(self.to_json()).hexdigest()[:16]

    @cached_property
    def Image(self) -> type[Any]:
        """The struct of this schema's images."""
        return image_struct(self.names)

    @cached_property
    def empty(self) -> Any:
        """An image that tells no column."""
        return self.Image()

    @cached_property
    def Key(self) -> type[Any]:
        """The struct of this schema's key images."""
        return image_struct(self.key or ())

    @cached_property
    def image_decoder(self) -> msgspec.json.Decoder[Any]:
        """Reads a text image of this schema."""
        return msgspec.json.Decoder(self.Image)

    def to_json(self) -> bytes:
        """The schema as it is kept with the batch."""
        return msgspec.json.encode(
            {
                "database": self.database,
                "schema": self.schema,
                "table": self.table,
                "columns": [[c.name, str(c.type), c.source_type, c.nullable] for c in self.columns],
                "key": self.key,
                "dialect": self.dialect,
            }
        )

    @staticmethod
    def from_json(text: bytes | str) -> TableSchema:
        """The schema object of what `to_json` wrote."""
        data = msgspec.json.decode(text)
        return intern_schema(
            data["database"],
            data["schema"],
            data["table"],
            tuple(Column(n, parse_type(t), s, nullable) for n, t, s, nullable in data["columns"]),
            None if data["key"] is None else tuple(data["key"]),
            data["dialect"],
        )


_SCHEMAS: WeakValueDictionary[tuple[Any, ...], TableSchema] = WeakValueDictionary()
"""Schemas that somebody holds, so that ever new ones of hostile messages do not pile up."""


def intern_schema(
    database: str | None,
    schema: str | None,
    table: str | None,
    columns: tuple[Column, ...] = (),
    key: tuple[str, ...] | None = None,
    dialect: str = "",
) -> TableSchema:
    """The one object of a schema, so that what is compiled for it is compiled once.

    Raises:
        Refusal: a column name cannot be carried; see `image_struct`. Events without a row have
            such names too, and whoever writes them compiles their table.
    """
    identity = (database, schema, table, columns, key, dialect)
    found = _SCHEMAS.get(identity)
    if found is None:
        for column in columns:
            if _UNCARRIED(column.name):
                image_struct((column.name,))
        found = _SCHEMAS.setdefault(identity, TableSchema(*identity))
    return found


_UNCARRIED = re.compile(r'["\\\x00-\x1f\ud800-\udfff]').search


_IMAGES: WeakValueDictionary[tuple[str, ...], type[Any]] = WeakValueDictionary()
"""The structs that somebody holds: two of the same names would make equal images differ."""

_recent_images: Bounded[tuple[str, ...], type[Any]] = Bounded()
"""Those that are likely to be asked for again."""


def image_struct(names: tuple[str, ...]) -> type[Any]:
    """A struct with one text field per name, the same for the same names.

    Raises:
        Refusal: a column name holds a quote, a backslash or a control character.
    """
    found = _IMAGES.get(names)
    if found is None:
        found = _IMAGES[names] = _recent_images[names] = _image_struct(names)
    return found


def _image_struct(names: tuple[str, ...]) -> type[Any]:
    fields = [(f"f{i}", Text, UNSET) for i in range(len(names))]
    rename = {f"f{i}": name for i, name in enumerate(names)}
    try:
        return msgspec.defstruct(
            "Image", fields, rename=rename, forbid_unknown_fields=True, gc=False
        )
    except ValueError as error:
        raise Refusal("shape", f"a column name cannot be carried: {error}") from error


class _Event(msgspec.Struct, gc=False):
    operation: str
    schema: TableSchema
    message: Message


class Change(_Event, kw_only=True, gc=False):
    """One row change or control event inside a message.

    Attributes:
        operation: one of `OPERATIONS`.
        schema: the table and its columns; images are structs of this schema.
        message: where it came from.
        index: which change inside the message.
        before: the row before, None where the envelope has none.
        after: the row after, None where there is none.
        sequence: parts of the source's sequence id, strongest first.
        rank: place inside one sequence id (`waybill.order`).
        full_row: a full row without a position of its own.
        half: "before" or "after" while this is half of an update sent as two messages.
        moved_from: key image of the row that this row replaces, where the envelope says so
            apart from the images (Debezium's `__debezium.oldkey`).
        source_time: microseconds since 1970 of the change in the source.
        transaction: the source's transaction id.
        ddl_text: the statement of a `ddl` change.
        extra: JSON object with envelope fields that a target of the same family carries on.
        outcome: ok, refused or skipped.
        reason_kind: class of a refusal or why it was skipped.
        reason: the sentence to it.
    """

    index: int = 0
    before: Any = None
    after: Any = None
    sequence: tuple[int, ...] | None = None
    rank: int = 1
    full_row: bool = False
    half: str | None = None
    moved_from: Any = None
    source_time: int | None = None
    transaction: str | None = None
    ddl_text: str | None = None
    extra: bytes | None = None
    outcome: str = "ok"
    reason_kind: str | None = None
    reason: str | None = None

    @property
    def moved_apart(self) -> bool:
        """Whether the source removes the row under the old key by a message of its own.

        The old key of an update that is one event stands in its row before.
        """
        return self.moved_from is not None and self.before is None and self.operation == "update"

    @property
    def order_key(self) -> str:
        """The place of this change in the one total order."""
        message = self.message
        return order_key(
            self.sequence,
            self.rank,
            message.partition,
            message.offset,
            self.index,
            self.full_row,
        )

    def key_image(self) -> Any:
        """Key image after the change (of the before image where there is no other), or None.

        Raises:
            Refusal: a key column is not in the image, or no column at all, so that nothing tells
                which row it is.
        """
        image = self.before if self.after is None else self.after
        if not self.schema.key and image is not None and image == self.schema.empty:
            raise Refusal("shape", "the row has none of its columns")
        return key_of(self.schema, image)

    def old_key_image(self) -> Any:
        """Key image before the change if the change gave the row another key, else None."""
        if self.moved_from is not None:
            return self.moved_from
        before, after, schema = self.before, self.after, self.schema
        if after is None or before is None or not schema.key:
            return None
        values = schema.key_values
        if values(before) == values(after):
            return None
        old = key_of(schema, before, partial=True)
        return None if old is None or old == self.key_image() else old


def key_of(schema: TableSchema, image: Any, partial: bool = False) -> Any:
    """The key image inside an image; None without key, without image, or (`partial`) if it is cut.

    Raises:
        Refusal: a key column is absent and `partial` is not set.
    """
    if image is None or not schema.key:
        return None
    values = schema.key_values(image)
    if UNSET in values:
        if partial:
            return None
        raise Refusal("key", f"key column {schema.key[values.index(UNSET)]!r} is not in the row")
    return schema.Key(*values)


def refused(message: Message, refusal: Refusal, schema: TableSchema | None = None) -> Change:
    """The row that stands in `changes` for a message (or one row of it) that cannot be taken."""
    return Change(
        operation="other",
        schema=schema or NO_TABLE,
        message=message,
        index=refusal.index or 0,
        outcome="refused",
        reason_kind=refusal.kind,
        reason=refusal.sentence,
    )


def skipped(message: Message, why: str, operation: str = "other", index: int = 0) -> Change:
    """The row in `changes` of a message that is not a change and is left out on purpose."""
    return Change(
        operation=operation,
        schema=NO_TABLE,
        message=message,
        index=index,
        outcome="skipped",
        reason_kind=why,
    )


NO_TABLE = intern_schema(None, None, None)
"""The schema of changes that belong to no table."""
