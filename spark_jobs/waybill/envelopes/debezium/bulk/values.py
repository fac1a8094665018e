"""How values of Debezium's rows become canonical texts in bulk, and these its values.

What is not done here by compiled code is left, value by value, to the functions that
`column_readers` and `column_writers` give for a column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import UNSET, Raw

from waybill.bulk.arena import Texts
from waybill.bulk.column_codecs import (
    NOTHING,
    NUMERIC,
    TEXT,
    WHOLE,
    WITH_POWERS,
    WORD,
    ColumnReader,
    ColumnWriter,
    Convert,
    numbers,
    or_else,
    short_float,
    units_to_wall_clock,
)
from waybill.bulk.value_kinds import BAD, ESCAPED, FALSE, INTEGER, NULL, NUMBER, PLAIN, POWER, TRUE
from waybill.envelopes.debezium.row_writers import to_json
from waybill.errors import Refusal
from waybill.values.column_forms import with_form

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.bulk.arena import Arena
    from waybill.envelopes.debezium.values.readings import ColumnReading
    from waybill.envelopes.debezium.values.writing import Writing

_KINDS = {
    PLAIN: TEXT,
    ESCAPED: TEXT,
    INTEGER: WHOLE,
    NUMBER: NUMERIC,
    POWER: WITH_POWERS,
    TRUE: WORD,
    FALSE: WORD,
    NULL: 0,
}
"""What may stand in place of a value, null besides."""
_SMALL = 2**24
"""A whole number below it is the same in every floating point type."""
_FAULTS = (Refusal, ValueError, ArithmeticError, RecursionError)
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(str).decode
_STRUCTURES = frozenset({"struct", "array", "map"})


# Reading


def reader_of(reading: ColumnReading, kind: int) -> ColumnReader | None:
    """How a column is read whose type is declared.

    Args:
        reading: how it is read exactly.
        kind: the kind of the value that it has.

    Returns:
        None if its values are read individually.
    """
    floating = reading.type.kind in ("float32", "float64")
    if kind == NULL:
        # What the values were so far is known from how they are read now.
        kinds = NOTHING | _kinds_of(reading)
    elif kind == POWER and not reading.raw:
        return None
    elif floating and kind in (INTEGER, NUMBER, POWER):
        kinds = NOTHING | WITH_POWERS
    else:
        kinds = NOTHING | _KINDS[kind]
    if kinds & WHOLE and floating:
        # Of larger ones it matters whether there was a fraction in an earlier message.
        if not reading.raw:
            return None
        exact = _each(reading, False)
        if reading.type.kind == "float64":
            exact = or_else(short_float, exact)
        return ColumnReader(kinds, lambda arena, texts: exact(arena, _without_large(arena, texts)))
    return ColumnReader(kinds, _convert(reading, kinds))


def _kinds_of(reading: ColumnReading) -> int:
    """The kinds that a column may have by how it is read, null besides; 0 if that is not stated."""
    if reading.wire == str | None:
        return TEXT
    if reading.quick == "str" or reading.unit in (3, 6):
        return WHOLE
    return 0


def _convert(reading: ColumnReading, kinds: int) -> Convert | None:
    convert = reading.convert
    if kinds == NOTHING:
        return None
    quoted = kinds & TEXT != 0
    exact = _each(reading, quoted)
    if reading.raw:
        return exact
    if quoted:
        if convert is None:
            return _without_marks(reading.marks)
        return with_form(reading.texts, exact)
    return with_form(reading.counts, exact)


_all_millis = units_to_wall_clock(3)


def wall_clocks_of_millis() -> Convert:
    """A converter of milliseconds to wall clocks."""
    return _millis_to_wall_clock


def _millis_to_wall_clock(arena: Arena, texts: Texts) -> Texts:
    """Wall clocks of milliseconds, without a fraction where that is zero."""
    values, _, _ = numbers(arena, texts)
    made = _all_millis(arena, texts)
    made.lengths[(made.lengths >= 0) & (values % 1000 == 0)] -= len(".000")
    return made


def _without_large(arena: Arena, texts: Texts) -> Texts:
    """Numbers without those that are whole and not small."""
    values, _, lengths = numbers(arena, texts)
    kept = texts.lengths.copy()
    kept[(lengths >= 0) & (np.abs(values) > _SMALL)] = BAD
    # What is no integer in plain digits has a point, or more digits than are looked at.
    for row in np.flatnonzero((lengths == BAD) & (texts.lengths >= 0)).tolist():
        if b"." not in (arena.text(texts, row) or b""):
            kept[row] = BAD
    return Texts(texts.starts, kept)


def _without_marks(marks: tuple[str, ...]) -> Convert | None:
    """Texts without those that stand for a value that was not sent."""
    if not marks:
        return None
    encoded_marks = {_encode(mark)[1:-1] for mark in marks}

    def convert(arena: Arena, texts: Texts) -> Texts:
        lengths = texts.lengths
        for mark in encoded_marks:
            found = np.flatnonzero(texts.lengths == len(mark)).tolist()
            marked = [row for row in found if arena.text(texts, row) == mark]
            if marked:
                lengths = lengths.copy() if lengths is texts.lengths else lengths
                lengths[marked] = BAD
        return Texts(texts.starts, lengths)

    return convert


def _each(reading: ColumnReading, quoted: bool) -> Convert:
    """What reading gives for each value of a column, nulls left out."""
    decode = msgspec.json.Decoder(reading.wire).decode
    convert, marks = reading.convert, reading.marks

    def one(text: bytes) -> bytes | None:
        text = b'"%b"' % text if quoted else text
        try:
            value: Any = Raw(text) if reading.raw else decode(text)
            if not reading.raw and value in marks:
                return None
            found = value if convert is None else convert(value)
        except _FAULTS:
            return None
        return None if found is UNSET or found is None else _encode(found)[1:-1]

    return lambda arena, texts: arena.each(texts, one)


# Writing


def writer_of(writing: Writing) -> ColumnWriter | None:
    """How a column is written; None for one whose values are no single ones of JSON."""
    convert = writing.convert
    if writing.connect["type"] in _STRUCTURES:
        return None
    if convert is None:
        return ColumnWriter(True, _without_marks((writing.mark,) if writing.mark else ()))
    return ColumnWriter(False, with_form(writing.column, _raw_each(convert, writing.integer)))


def _raw_each(convert: Callable[[str], Any], integer: bool) -> Convert:
    """The JSON that each text is written as; one that is not written goes its own way."""

    def one(text: bytes) -> bytes | None:
        try:
            decoded = _decode(b'"%b"' % text)
            return to_json(int(decoded) if integer and decoded.isdecimal() else convert(decoded))
        except _FAULTS:
            return None

    return lambda arena, texts: arena.each(texts, one)
