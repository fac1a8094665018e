"""Changes of one table and one operation, column by column."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET

from waybill.bulk.arena import Arena, Mask, Places, Texts, Value
from waybill.bulk.tables import Schemas, Tables
from waybill.records import Change, TableSchema

if TYPE_CHECKING:
    from waybill.bulk.block import Messages

_decode = msgspec.json.Decoder(str).decode

Columns = tuple[Texts | None, ...]
"""The values of each column of an image; None for one that the messages leave out."""


class Extra(NamedTuple):
    """What only a target of the same family carries on (`Change.extra`).

    Attributes:
        family: the name of the family.
        parts: the JSON, piece by piece.
        fields: what stands in it by name; JSON where it is the same for all.
    """

    family: str
    parts: tuple[bytes | Value, ...]
    fields: dict[str, Value | bytes]

    @staticmethod
    def of(family: str, fields: dict[str, Value | bytes]) -> Extra:
        """The object of some fields, in their order, under the name of the family."""
        parts: list[bytes | Value] = []
        mark = b'{"%b":{"' % family.encode()
        for name, value in fields.items():
            parts += [mark + name.encode() + b'":', value]
            mark = b',"'
        return Extra(family, (*parts, b"}}"), fields)

    def json(self, arena: Arena, row: int) -> bytes:
        """The JSON of one row."""
        return b"".join(
            part if isinstance(part, bytes) else json_of(arena, part, row) for part in self.parts
        )

    def take(self, rows: Places | Mask) -> Extra:
        """Those of some rows."""
        taken: dict[int, Value] = {}

        def of(value: Value) -> Value:
            found = taken.get(id(value))
            if found is None:
                found = taken[id(value)] = Value(value.texts.take(rows), value.quoted)
            return found

        parts = tuple(part if isinstance(part, bytes) else of(part) for part in self.parts)
        fields = {
            name: value if isinstance(value, bytes) else of(value)
            for name, value in self.fields.items()
        }
        return Extra(self.family, parts, fields)

    @property
    def signature(self) -> tuple[object, ...]:
        """What is the same for all rows."""
        shown = [(n, v if isinstance(v, bytes) else v.quoted) for n, v in self.fields.items()]
        parts = [part if isinstance(part, bytes) else part.quoted for part in self.parts]
        return (self.family, *shown, *parts)


def json_of(arena: Arena, value: Value, row: int) -> bytes:
    """One value as JSON."""
    text = arena.text(value.texts, row)
    if text is None:
        return b"null"
    return b'"%b"' % text if value.quoted else text


@dataclass(frozen=True)
class Rows:
    """Changes, one row each, as `records.Change` describes them.

    Attributes:
        block: the messages that they came with.
        places: the number of each one's message in the block.
        schema: the table; where there are several, one of them, which tells their columns.
        operation: what happened to the rows.
        before: the rows before, None where there are none.
        after: the rows after, None where there are none.
        sequence: the parts of the sequence ids.
        rank: place inside one sequence id.
        full_row: full rows without a position of their own.
        half: "before" or "after" for halves of updates.
        moved_from: keys of the rows that these replace.
        source_time: microseconds since 1970; None where no change has any.
        transaction: ids of transactions, as texts of JSON.
        extra: what a target of the same family carries on.
        tables: which table each change is of, where there may be several; they have the same
            columns, key and dialect.
    """

    block: Messages
    places: Places
    schema: TableSchema
    operation: str
    before: Columns | None = None
    after: Columns | None = None
    sequence: tuple[Places, ...] | None = None
    rank: int = 1
    full_row: bool = False
    half: str | None = None
    moved_from: tuple[Texts, ...] | None = None
    source_time: Places | None = None
    transaction: Texts | None = None
    extra: Extra | None = None
    tables: Tables | None = None

    def __len__(self) -> int:
        return len(self.places)

    @property
    def arena(self) -> Arena:
        """Where the texts are."""
        return self.block.arena

    @property
    def offsets(self) -> Places:
        """Offsets of the messages."""
        return self.block.offsets[self.places]

    @property
    def signature(self) -> tuple[object, ...]:
        """What is the same for all rows and decides how they are written, but for tables' names."""
        return (
            self.schema.unnamed,
            self.operation,
            _pattern(self.before),
            _pattern(self.after),
            None if self.sequence is None else len(self.sequence),
            (self.rank, self.full_row, self.half),
            self.moved_from is None,
            self.source_time is None,
            self.transaction is None,
            None if self.extra is None else self.extra.signature,
            self.block.timestamps is None,
        )

    def of_other_topics(self, topic: str) -> Mask:
        """Which are of messages of other topics, for envelopes whose topics tell the table."""
        if self.block.topic is not None:
            return np.full(len(self), self.block.topic != topic)
        message = self.block.message
        return np.array([message(n).topic != topic for n in self.places.tolist()], np.bool_)

    def take(self, rows: Places | Mask) -> Rows:
        """Some of the rows."""
        return replace(
            self,
            places=self.places[rows],
            before=_taken(self.before, rows),
            after=_taken(self.after, rows),
            sequence=None if self.sequence is None else tuple(p[rows] for p in self.sequence),
            moved_from=None
            if self.moved_from is None
            else tuple(texts.take(rows) for texts in self.moved_from),
            source_time=None if self.source_time is None else self.source_time[rows],
            transaction=None if self.transaction is None else self.transaction.take(rows),
            extra=None if self.extra is None else self.extra.take(rows),
            tables=None if self.tables is None else self.tables.take(rows),
        )

    def schema_of(self, row: int) -> TableSchema:
        """The table of one row."""
        return self.schema if self.tables is None else self.tables.of(row)

    def first_of_tables(self) -> list[int]:
        """The first row of each table."""
        return [0] if self.tables is None else self.tables.firsts()

    def by_table(self) -> list[Rows]:
        """The rows of each table."""
        if self.tables is None:
            return [self]
        schemas, numbers = self.tables
        return [self._of_table(schemas[n], numbers == n) for n in self.tables.present()]

    def _of_table(self, schema: TableSchema, rows: Mask) -> Rows:
        return replace(self.take(rows), schema=schema, tables=None)

    def change(self, row: int) -> Change:
        """One of the changes, as a decoder gives it."""
        schema = self.schema_of(row)
        moved = None
        if self.moved_from is not None:
            moved = schema.Key(*(self._text(texts, row) for texts in self.moved_from))
        return Change(
            self.operation,
            schema,
            self.block.message(int(self.places[row])),
            before=self._image(self.before, row),
            after=self._image(self.after, row),
            sequence=None
            if self.sequence is None
            else tuple(int(part[row]) for part in self.sequence),
            rank=self.rank,
            full_row=self.full_row,
            half=self.half,
            moved_from=moved,
            source_time=None if self.source_time is None else int(self.source_time[row]),
            transaction=None if self.transaction is None else self._text(self.transaction, row),
            extra=None if self.extra is None else self.extra.json(self.arena, row),
        )

    def _image(self, columns: Columns | None, row: int) -> Any:
        if columns is None:
            return None
        return self.schema.Image(
            *(UNSET if texts is None else self._text(texts, row) for texts in columns)
        )

    def _text(self, texts: Texts, row: int) -> str | None:
        text = self.arena.text(texts, row)
        return None if text is None else _decode(b'"%b"' % text)


def merged(found: list[Rows], by_table: bool) -> list[Rows]:
    """Changes of the same shape but for their values, together.

    Args:
        found: the changes.
        by_table: whether those of one table are apart from those of others.
    """
    if by_table:
        found = [rows for several in found for rows in several.by_table()]
    by_shape: dict[tuple[object, ...], list[Rows]] = {}
    for rows in found:
        table = rows.schema if by_table else None
        by_shape.setdefault((table, rows.signature), []).append(rows)
    return [_together(group) for group in by_shape.values()]


def _together(group: list[Rows]) -> Rows:
    first = group[0]
    if len(group) == 1:
        return first

    def several(parts: list[Any]) -> Any:
        """Parts of the same kind, end to end."""
        one = parts[0]
        if one is None or isinstance(one, bytes | bool):
            return one
        if isinstance(one, np.ndarray):
            return np.concatenate(parts)
        joined = [several(list(part)) for part in zip(*parts, strict=True)]
        return tuple(joined) if type(one) is tuple else type(one)(*joined)

    def column(name: str) -> Any:
        return several([getattr(rows, name) for rows in group])

    extra = first.extra
    if extra is not None:
        extras = [rows.extra for rows in group if rows.extra is not None]
        fields = {name: several([one.fields[name] for one in extras]) for name in extra.fields}
        extra = Extra(extra.family, several([one.parts for one in extras]), fields)
    return replace(
        first,
        places=column("places"),
        before=column("before"),
        after=column("after"),
        sequence=column("sequence"),
        moved_from=column("moved_from"),
        source_time=column("source_time"),
        transaction=column("transaction"),
        extra=extra,
        tables=_tables(group),
    )


def _tables(group: list[Rows]) -> Tables | None:
    """Which table each of the changes of a group is of."""
    first = group[0]
    if all(rows.tables is None and rows.schema is first.schema for rows in group):
        return None
    present = [rows.tables for rows in group if rows.tables is not None]
    schemas = present[0].schemas if present else Schemas()
    numbers = [
        np.full(len(rows), schemas.number(rows.schema), np.int64)
        if rows.tables is None
        else rows.tables.numbers
        if rows.tables.schemas is schemas
        else rows.tables.within(schemas)
        for rows in group
    ]
    return Tables(schemas, np.concatenate(numbers))


def _pattern(columns: Columns | None) -> tuple[bool, ...] | None:
    return None if columns is None else tuple(texts is None for texts in columns)


def _taken(columns: Columns | None, rows: Places | Mask) -> Columns | None:
    if columns is None:
        return None
    return tuple(None if texts is None else texts.take(rows) for texts in columns)
