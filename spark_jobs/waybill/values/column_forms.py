"""What compiled code makes of most values of a column; `notation` names these by path."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from waybill.bulk import kernels
from waybill.bulk.arena import Texts
from waybill.bulk.column_codecs import (
    BLANK,
    Convert,
    T,
    Z,
    or_else,
    short_float,
    true_or_false,
    wall_clock,
    whole,
    with_z,
)
from waybill.values.values import is_integer_text

if TYPE_CHECKING:
    from waybill.bulk.arena import Arena
    from waybill.values.notation import ColumnForm

_from_blank, _to_blank = wall_clock(BLANK, T), wall_clock(T, BLANK)
_SHOWN = {b"true": b"1", b"false": b"0"}
_BEYOND = 2**63
_LONGEST = 20


def with_form(form: ColumnForm | None, otherwise: Convert) -> Convert:
    """A converter by a column form, which leaves what it cannot do to another one."""
    return otherwise if form is None else or_else(form.convert(), otherwise)


@cache
def integers(low: int, high: int) -> Convert:
    """A converter of integers in plain digits, as they are; others are converted exactly."""
    if low > -_BEYOND and high < _BEYOND:
        return whole(low, high)

    def one(text: bytes) -> bytes | None:
        plain = is_integer_text(text.decode()) if len(text) <= _LONGEST else None
        return text if plain and text != b"-0" and low <= int(text) <= high else None

    # The largest type and the smallest number of 64 bits are beyond what compiled code knows.
    known = whole(max(low, 1 - _BEYOND), min(high, _BEYOND - 1))
    return or_else(known, lambda arena, texts: arena.each(texts, one))


def short_floats() -> Convert:
    """A converter of short numbers of float64, as they are."""
    return short_float


def words() -> Convert:
    """A converter of the two words, as they are."""
    return true_or_false


def words_as_digits() -> Convert:
    """A converter of booleans to 1 and 0."""
    return lambda arena, texts: arena.each(texts, _SHOWN.get)


def utc_from_blank() -> Convert:
    """A converter of wall clocks of UTC to instants that end in Z."""
    return lambda arena, texts: with_z(arena, _from_blank(arena, texts))


def utc_to_blank() -> Convert:
    """A converter of instants that end in Z to wall clocks of UTC."""

    def convert(arena: Arena, texts: Texts) -> Texts:
        lengths = texts.lengths.copy()
        kernels.without_last(arena.data, texts.starts, lengths, Z)
        return _to_blank(arena, Texts(texts.starts, lengths))

    return convert
