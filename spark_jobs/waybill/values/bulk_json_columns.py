"""How columns of JSON rows with typed values are read and written at once.

This is `json_columns` for many values, for styles whose wall clocks have a blank between date and
time of day. What is not done here by compiled code is left, value by value, to the functions of a
column's `Notation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from waybill.bulk import kernels
from waybill.bulk.arena import Texts
from waybill.bulk.kinds import ESCAPED, FALSE, INTEGER, NUMBER, TRUE
from waybill.bulk.notations import (
    BLANK,
    NOTHING,
    NUMERIC,
    PUT_TEXT,
    TAKE_NUMBER,
    TAKE_TEXT,
    TEXT,
    WHOLE,
    WORD,
    Convert,
    Put,
    T,
    Take,
    Z,
    by_call,
    or_else,
    plain_decimal,
    raw_by_call,
    short_float,
    true_or_false,
    wall_clock,
    whole,
    with_z,
)
from waybill.values.json_columns import exact, notation_of, write_integer
from waybill.values.temporal import utc_from_wall, zone_named
from waybill.values.values import is_integer_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.bulk.arena import Arena
    from waybill.types import LogicalType
    from waybill.values.json_columns import Notation, Style

ANY_DIGITS = 1 << 30
DIGITS = plain_decimal(ANY_DIGITS, ANY_DIGITS)
INTEGERS = plain_decimal(ANY_DIGITS, 0)
"""What reads and writes numbers in plain digits."""
TO_ISO, TO_BLANK = wall_clock(BLANK, T), wall_clock(T, BLANK)
"""What reads and writes wall clocks with a blank between date and time of day."""
_FROM_UTC = utc_from_wall(zone_named("UTC"))
_FLOATS = frozenset({"float32", "float64"})
_MEANT = {b"1": b"true", b"true": b"true", b"0": b"false", b"false": b"false"}
_SHOWN = {b"true": b"1", b"false": b"0"}
_json = msgspec.json.Encoder().encode


# Reading


def take_of(column: LogicalType, style: Style, kind: int) -> Take | None:
    """How a column is read.

    Args:
        column: its type.
        style: the envelope's notations; those `of_inferred` where nobody declared the column.
        kind: the kind of the value that it has.

    Returns:
        None if such values are read one by one.
    """
    notation = notation_of(column, style)
    read = notation.read
    if notation.wire == "null":
        return Take(NOTHING)
    if notation.wire == "text":
        return TAKE_TEXT if read is None else Take(TEXT | NOTHING, _text(column, read))
    if read is None:
        return None
    if column.is_number:
        return _number(column, notation, style.quoted, kind)
    if column.kind == "boolean":
        if kind in (TRUE, FALSE) or style.inferred:
            return Take(WORD | NOTHING)
        kinds = WHOLE | WORD | TEXT if style.quoted else WHOLE | WORD
        return Take(kinds | NOTHING, lambda arena, texts: arena.each(texts, _MEANT.get))
    if column.kind == "bit":
        return Take(WHOLE | NOTHING, by_call(read))
    if kind <= ESCAPED and not style.inferred:
        return Take(TEXT | NOTHING, by_call(_of_string(read)))
    # Arrays and objects are no single values, and whatever else stands in a document is rare.
    return Take(NOTHING)


def _text(column: LogicalType, read: Callable[[str], str]) -> Convert:
    each = by_call(read)
    if column.kind == "timestamp":
        return or_else(TO_ISO, each)
    return or_else(_to_instant, each) if read is _FROM_UTC else each


def _to_instant(arena: Arena, texts: Texts) -> Texts:
    """Wall clocks of UTC as instants that end in Z."""
    return with_z(arena, TO_ISO(arena, texts))


def _number(column: LogicalType, notation: Notation, quoted: bool, kind: int) -> Take | None:
    read = notation.read
    if notation.number:
        plain = notation.number == "plain"
        number = kind in (INTEGER, NUMBER) or not quoted
        if plain and number:
            return TAKE_NUMBER
        kinds = TEXT if kind <= ESCAPED else TEXT | NUMERIC
        if notation.reach is None:
            return Take(kinds | NOTHING, DIGITS)
        return Take((WHOLE if number else kinds) | NOTHING, in_reach(*notation.reach))
    if read is None:
        return None
    string = kind <= ESCAPED
    if column.kind == "decimal":
        kinds = TEXT if quoted and string else TEXT | NUMERIC if quoted else NUMERIC
        return Take(kinds | NOTHING, decimals(column, by_call(read)))
    if column.kind not in _FLOATS:
        return None
    convert = by_call(_of_string(read) if string else read)
    if column.kind == "float64" and (quoted or not string):
        convert = or_else(short_float, convert)
    return Take((TEXT if string else NUMERIC) | NOTHING, convert)


def decimals(column: LogicalType, otherwise: Convert) -> Convert:
    """A converter of numbers, most of which are seen to fit a decimal."""
    scale = column.scale or 0
    whole_digits = (column.precision or 0) - scale
    # Behind the point of a decimal(2,5) some digits have to be zeros, which is not seen so fast.
    return otherwise if whole_digits < 0 else or_else(plain_decimal(whole_digits, scale), otherwise)


def in_reach(low: int, high: int) -> Convert:
    """A converter of integers in plain digits, as they are; others need a closer look."""
    if low > -_BEYOND and high < _BEYOND:
        return whole(low, high)

    def one(text: bytes) -> bytes | None:
        plain = is_integer_text(text.decode()) if len(text) <= _LONGEST else None
        return text if plain and text != b"-0" and low <= int(text) <= high else None

    # The largest type and the smallest number of 64 bits are beyond what compiled code knows.
    known = whole(max(low, 1 - _BEYOND), min(high, _BEYOND - 1))
    return or_else(known, lambda arena, texts: arena.each(texts, one))


_BEYOND = 2**63
_LONGEST = 20


def _of_string(read: Callable[[str], str]) -> Callable[[str], str]:
    """A reader of strings, of one that reads JSON."""
    return lambda text: read(_json(text).decode())


# Writing


def put_of(column: LogicalType, style: Style) -> Put | None:
    """How a column is written; None for one whose values may be arrays and objects."""
    notation = notation_of(column, style)
    write = notation.write
    if write is None:
        return PUT_TEXT
    if notation.wire == "text":
        return Put(True, _written(column, style, by_call(write)))
    if column.kind == "bit":
        return Put(False, raw_by_call(write))
    if column.kind == "boolean":
        return Put(False, as_digits if style.digits else true_or_false)
    if not column.is_number:
        return None
    if write is write_integer:
        return Put(False, INTEGERS)
    return Put(False, DIGITS if write is exact else or_else(DIGITS, raw_by_call(write)))


def _written(column: LogicalType, style: Style, each: Convert) -> Convert:
    if column.kind == "timestamp":
        return or_else(TO_BLANK, each)
    if column.kind == "timestamptz" and style.timestamptz and style.timestamptz[0] is _FROM_UTC:
        return or_else(_from_instant, each)
    return each


def _from_instant(arena: Arena, texts: Texts) -> Texts:
    """Instants that end in Z as wall clocks of UTC."""
    lengths = texts.lengths.copy()
    kernels.without_last(arena.data, texts.starts, lengths, Z)
    return TO_BLANK(arena, Texts(texts.starts, lengths))


def as_digits(arena: Arena, texts: Texts) -> Texts:
    """Booleans as 1 and 0."""
    return arena.each(texts, _SHOWN.get)
