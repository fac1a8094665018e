"""How columns of JSON rows with typed values are read and written in bulk.

This is `json_columns` for many values. What the column form of a `Notation` does not do is left,
value by value, to its functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from waybill.bulk.column_codecs import (
    NOTHING,
    NUMERIC,
    READ_NUMBER,
    READ_TEXT,
    TEXT,
    WHOLE,
    WITH_POWERS,
    WORD,
    WRITE_TEXT,
    ColumnReader,
    ColumnWriter,
    by_call,
    or_else,
    raw_by_call,
)
from waybill.bulk.value_kinds import ESCAPED, FALSE, INTEGER, NUMBER, POWER, TRUE
from waybill.values.column_forms import with_form
from waybill.values.json_columns import notation_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.types import LogicalType
    from waybill.values.json_columns import Style
    from waybill.values.notation import Notation

_FLOATS = frozenset({"float32", "float64"})
_MEANT = {b"1": b"true", b"true": b"true", b"0": b"false", b"false": b"false"}
_json = msgspec.json.Encoder().encode


# Reading


def reader_of(column: LogicalType, style: Style, kind: int) -> ColumnReader | None:
    """How a column is read.

    Args:
        column: its type.
        style: the envelope's notations; those `of_inferred` where nobody declared the column.
        kind: the kind of the value that it has.

    Returns:
        None if such values are read individually.
    """
    notation = notation_of(column, style)
    read = notation.read
    if notation.wire == "null":
        return ColumnReader(NOTHING)
    if notation.wire == "text":
        if read is None:
            return READ_TEXT
        return ColumnReader(TEXT | NOTHING, with_form(notation.reads, by_call(read)))
    if read is None:
        return None
    if column.is_number:
        return _number(column, notation, style.quoted, kind)
    if column.kind == "boolean":
        if kind in (TRUE, FALSE) or style.inferred:
            return ColumnReader(WORD | NOTHING)
        kinds = WHOLE | WORD | TEXT if style.quoted else WHOLE | WORD
        return ColumnReader(kinds | NOTHING, lambda arena, texts: arena.each(texts, _MEANT.get))
    if column.kind == "bit":
        return ColumnReader(WHOLE | NOTHING, by_call(read))
    if kind <= ESCAPED and not style.inferred:
        return ColumnReader(TEXT | NOTHING, by_call(_of_string(read)))
    # Arrays and objects are no single values, and whatever else stands in a document is rare.
    return ColumnReader(NOTHING)


def _number(
    column: LogicalType, notation: Notation, quoted: bool, kind: int
) -> ColumnReader | None:
    read = notation.read
    if read is None:
        return None
    form = None if notation.reads is None else notation.reads.convert()
    string = kind <= ESCAPED
    if notation.plain or notation.reach is not None:
        number = kind in (INTEGER, NUMBER, POWER) or not quoted
        if notation.plain and kind == POWER and form is not None:
            return ColumnReader(WITH_POWERS | NOTHING, or_else(form, by_call(read)))
        if notation.plain and number:
            return READ_NUMBER
        kinds = WHOLE if number else TEXT if string else TEXT | NUMERIC
        return ColumnReader(kinds | NOTHING, form)
    if column.kind == "decimal":
        numbers = WITH_POWERS
        kinds = TEXT if quoted and string else TEXT | numbers if quoted else numbers
        return ColumnReader(kinds | NOTHING, with_form(notation.reads, by_call(read)))
    if column.kind not in _FLOATS:
        return None
    convert = by_call(_of_string(read) if string else read)
    if form is not None and (quoted or not string):
        convert = or_else(form, convert)
    return ColumnReader((TEXT if string else WITH_POWERS) | NOTHING, convert)


def _of_string(read: Callable[[str], str]) -> Callable[[str], str]:
    """A reader of strings, of one that reads JSON."""
    return lambda text: read(_json(text).decode())


# Writing


def writer_of(column: LogicalType, style: Style) -> ColumnWriter | None:
    """How a column is written; None for one whose values may be arrays and objects."""
    notation = notation_of(column, style)
    write = notation.write
    if write is None:
        return WRITE_TEXT
    if notation.wire == "text":
        return ColumnWriter(True, with_form(notation.writes, by_call(write)))
    if not column.is_number and column.kind not in ("bit", "boolean"):
        return None
    return ColumnWriter(False, with_form(notation.writes, raw_by_call(write)))
