"""How the columns of OMS' plain JSON rows are read and written in bulk.

This is `styles` (and `dataworks_values`) for many values, where they differ from other envelopes
with JSON rows (`notation.bulk_json_columns`). What is not done by compiled code is left, value by
value, to the functions of a column's `Notation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from waybill.bulk.arena import Texts, Value
from waybill.bulk.column_codecs import (
    NOTHING,
    READ_TEXT,
    READ_WHOLE,
    TEXT,
    WITH_POWERS,
    WORD,
    WRITE_TEXT,
    ColumnReader,
    ColumnWriter,
    Convert,
    by_call,
    raw_by_call,
    same,
    without_zeros,
)
from waybill.bulk.field_map import ColumnSlot
from waybill.bulk.rows import Extra
from waybill.bulk.typed_values import plainly
from waybill.bulk.value_kinds import BAD, ESCAPED, NULL
from waybill.envelopes.sequence.written import came_without
from waybill.errors import Refusal
from waybill.records import NO_TABLE, Change, Message
from waybill.values.bulk_json_columns import reader_of
from waybill.values.column_forms import with_form
from waybill.values.json_columns import notation_of
from waybill.values.notation import DIGITS, TO_BLANK, WHOLE_DIGITS, WORDS_AS_DIGITS
from waybill.values.values import JSON_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from waybill.bulk.arena import Arena, Mask, Places
    from waybill.bulk.block import Path
    from waybill.bulk.field_map import Sample
    from waybill.bulk.rows import Rows
    from waybill.records import TableSchema
    from waybill.types import LogicalType
    from waybill.values.json_columns import Style
    from waybill.values.notation import Notation

Cells = tuple[ColumnSlot | None, ...]

_OPENING = 12
"""Bytes of what is carried on that tell its family."""
_IN_TEXTS = frozenset({"bytes", "bit", "json", "timestamp", "timestamptz"})
"""Types whose values mostly are strings where they may be others too."""
_encode = msgspec.json.Encoder().encode


class ColumnReaders(NamedTuple):
    """How a column is read from each kind of JSON; None where such values are read on their own.

    Attributes:
        text: from a string.
        other: from a number or a word.
        null: where the first message has null.
    """

    text: ColumnReader | None
    other: ColumnReader | None
    null: ColumnReader | None

    def of(self, kind: int) -> ColumnReader | None:
        """How values of the kind that a message has are read."""
        if kind == NULL:
            return self.null
        return self.text if kind <= ESCAPED else self.other


def readers_of(schema: TableSchema, style: Style) -> tuple[ColumnReaders, ...]:
    """How the columns of a table are read all of whose types are stated or declared."""
    return tuple(_column_readers(column.type, style) for column in schema.columns)


def _column_readers(kind: LogicalType, style: Style) -> ColumnReaders:
    notation = notation_of(kind, style)
    read = notation.read
    if notation.reads == WHOLE_DIGITS:
        return ColumnReaders(None, READ_WHOLE, READ_WHOLE)
    if read is None or notation.wire != "raw" or notation.plain or notation.reach:
        take = reader_of(kind, style, NULL)
        return ColumnReaders(take, take, take)
    # The column form is one of numbers, or of texts.
    form, textual = notation.reads, kind.kind in ("timestamp", "timestamptz")
    single = _by_literal(read, False)
    other = ColumnReader(
        WITH_POWERS | WORD | NOTHING, single if textual else with_form(form, single)
    )
    text = READ_TEXT
    if kind.kind != "json":
        single = _by_literal(read, True)
        text = ColumnReader(TEXT | NOTHING, with_form(form, single) if textual else single)
    return ColumnReaders(text, other, text if kind.kind in _IN_TEXTS or kind.precision else other)


def _by_literal(read: Callable[[str], str | None], quoted: bool) -> Convert:
    """A converter of what stands in JSON, by a function that is given the JSON text of a value."""

    def one(text: bytes) -> bytes | None:
        literal = (b'"%b"' % text if quoted else text).decode()
        try:
            found = read(literal)
        except (Refusal, *JSON_ERRORS):
            return None
        return None if found is None else _encode(found)[1:-1]

    return lambda arena, texts: arena.each(texts, one)


def cells(
    sample: Sample, path: Path, readers: tuple[ColumnReaders, ...], names: tuple[str, ...]
) -> Cells | None:
    """The columns of an image; None if a value of it cannot be read in bulk."""
    fitting: list[ColumnReader | None] = []
    for name, ways in zip(names, readers, strict=True):
        slot = sample.slots.get((*path, name))
        fitting.append(None if slot is None else ways.of(sample.kinds[slot]))
    return sample.cells(path, tuple(fitting), names)


def without_untouched(
    sample: Sample, lobs: Iterable[int], before: Cells, after: Cells
) -> tuple[Cells, Cells]:
    """Both images of an update without the columns that are null in both of them.

    Messages in which another of these columns is null are of another form.
    """
    was, now = list(before), list(after)
    for i in lobs:
        old, new = was[i], now[i]
        if old is None or new is None:
            continue
        if sample.kinds[new.slot] != NULL:
            now[i] = of_kinds(new, ~NOTHING)
            if old.slot == new.slot:
                was[i] = now[i]
        elif sample.kinds[old.slot] != NULL:
            was[i], now[i] = of_kinds(old, ~NOTHING), of_kinds(new, NOTHING)
        else:
            was[i] = now[i] = None
    return tuple(was), tuple(now)


def of_kinds(cell: ColumnSlot, wanted: int) -> ColumnSlot:
    """A value that may have some of its kinds only."""
    return ColumnSlot(cell.slot, cell.take._replace(kinds=cell.take.kinds & wanted))


# Writing


def shown_times(kind: str, zeros: bool) -> Convert:
    """A converter of times as OMS shows them; what is no usual one is converted exactly.

    Args:
        kind: `time` or `timestamp`.
        zeros: whether zeros at the end of the fraction stay.
    """
    clock = len("2020-11-25T") if kind == "timestamp" else 0
    longest = clock + len("00:01:02.123456789")
    to_wall = TO_BLANK.convert() if kind == "timestamp" else _usual_clocks

    def show(arena: Arena, texts: Texts) -> Texts:
        found = Texts(texts.starts, np.where(texts.lengths > longest, BAD, texts.lengths))
        found = to_wall(arena, found)
        return found if zeros else without_zeros(arena, found, clock)

    return show


def _usual_clocks(arena: Arena, texts: Texts) -> Texts:
    """Times of day, as they are."""
    usual = plainly(arena, texts, "time")
    return Texts(texts.starts, np.where(usual, texts.lengths, BAD))


def writers_of(schema: TableSchema, style: Style) -> tuple[ColumnWriter, ...]:
    """How the columns of a table are written."""
    return tuple(writer_of(notation_of(column.type, style)) for column in schema.columns)


def writer_of(notation: Notation) -> ColumnWriter:
    """How values are written that stand in a notation."""
    write = notation.write
    if write is None:
        return WRITE_TEXT
    if notation.writes is None or notation.writes in BARE:
        return ColumnWriter(False, with_form(notation.writes, raw_by_call(write)))
    return ColumnWriter(True, with_form(notation.writes, by_call(write)))


BARE = (DIGITS, WHOLE_DIGITS, WORDS_AS_DIGITS)
"""Forms of what is written without quotes."""


def may_look_untouched(rows: Rows, lobs: tuple[int, ...]) -> Mask:
    """Which updates may write a null that readers take for a LOB column that was not touched.

    Where neither image has the column it is one.
    """
    closer = np.zeros(len(rows), np.bool_)
    if rows.operation != "update" or rows.after is None:
        return closer
    for i in lobs:
        now = rows.after[i]
        if now is not None:
            closer |= now.lengths < 0
        elif rows.before is not None and rows.before[i] is not None:
            closer[:] = True
    return closer


def unstated_columns(rows: Rows) -> frozenset[str]:
    """The columns that an update tells nothing of; where they are written, they are null."""
    if rows.operation != "update" or rows.after is None:
        return frozenset()
    before = rows.before or (None,) * len(rows.after)
    images = zip(rows.schema.names, before, rows.after, strict=True)
    return frozenset(name for name, was, now in images if was is None and now is None)


# What is carried on


def nothing_carried(family: str) -> Extra:
    """What is carried on where the source stated nothing that could be."""
    return Extra(family, (b'{"%b":{}}' % family.encode(),), {})


def rows_that_came_without(rows: Rows) -> Mask:
    """Which rows have no sequence id although their source has them; see `came_without`."""
    none = np.zeros(len(rows), np.bool_)
    if rows.sequence is not None or rows.extra is None:
        return none
    first = rows.extra.parts[0]
    if isinstance(first, bytes):
        return none | _came_without(first)
    starts, lengths = first.texts
    openings = Texts(starts, np.minimum(lengths, _OPENING))
    without = rows.arena.each(openings, lambda text: b"1" if _came_without(text) else b"0")
    came: Mask = none | (rows.arena.data[without.starts] == ord("1"))
    return came


def _came_without(extra: bytes) -> bool:
    message = Message("", 0, 0, None, None, None)
    return came_without(Change("insert", NO_TABLE, message, extra=extra))


DECIDED_BITS = 10
"""So many bits have the numbers of combinations of carried fields."""


def decided_by(names: tuple[str, ...]) -> Callable[[Rows], Places]:
    """A function that numbers rows by some of the fields that they carry on.

    Rows of one number have the same in all of them. Those whose combination is one too many have
    a number far below zero.
    """
    known: dict[tuple[bytes | None, ...], int] = {}

    def numbers(rows: Rows) -> Places:
        fields = {} if rows.extra is None else rows.extra.fields
        decisive = [v for v in map(fields.get, names) if isinstance(v, Value)]
        if not decisive:
            return np.zeros(len(rows), np.int64)
        arena = rows.arena
        first = [
            Texts(
                np.full_like(v.texts.starts, v.texts.starts[0]),
                np.full_like(v.texts.lengths, v.texts.lengths[0]),
            )
            for v in decisive
        ]
        all_same = all(same(arena, v.texts, f).all() for v, f in zip(decisive, first, strict=True))
        found = []
        for row in range(1 if all_same else len(rows)):
            held = tuple(arena.text(v.texts, row) for v in decisive)
            number = known.get(held)
            if number is None:
                number = len(known) + 1 if len(known) + 1 < 1 << DECIDED_BITS else _FAR
                if number != _FAR:
                    known[held] = number
            found.append(number)
        return np.array(found * len(rows) if all_same else found, np.int64)

    return numbers


_FAR = -(1 << 20)
