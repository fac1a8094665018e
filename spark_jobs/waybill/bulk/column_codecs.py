"""How values of JSON become canonical texts, and these become values of JSON, column by column.

A `ColumnReader` makes canonical texts of the values of messages, a `ColumnWriter` makes values of
messages of canonical texts. A row with a value that these cannot convert becomes `BAD`, and its
message is read by the exact decoder.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import NamedTuple, ParamSpec
from weakref import WeakValueDictionary

import msgspec
import numpy as np
import numpy.typing as npt

from waybill.bulk import kernels
from waybill.bulk.arena import Arena, Places, Texts
from waybill.bulk.value_kinds import BAD, ESCAPED, FALSE, INTEGER, NULL, NUMBER, PLAIN, POWER, TRUE
from waybill.errors import Refusal

BLANK, T = ord(" "), ord("T")
"""What stands between date and time of day."""
Z = ord("Z")
"""What stands behind an instant."""
DIGITS = 19
"""An integer of 64 bits has no more digits."""

Convert = Callable[[Arena, Texts], Texts]
P = ParamSpec("P")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(str).decode


def _shared(make: Callable[P, Convert]) -> Callable[P, Convert]:
    """Let converters that are made of the same be the same: theirs is converted together.

    Only as long as one is used: what it is made of may hold a decoder.
    """
    made: WeakValueDictionary[object, Convert] = WeakValueDictionary()

    @wraps(make)
    def shared(*args: P.args, **kwargs: P.kwargs) -> Convert:
        key = args, *sorted(kwargs.items())
        found = made.get(key)
        if found is None:
            found = made[key] = make(*args, **kwargs)
        return found

    return shared


def kinds(*named: int) -> int:
    """Kinds of values as bits."""
    return sum(1 << kind for kind in named)


TEXT = kinds(PLAIN, ESCAPED)
WHOLE = kinds(INTEGER)
NUMERIC = kinds(INTEGER, NUMBER)
WITH_POWERS = NUMERIC | kinds(POWER)
"""Numbers in any notation: what reads them has to convert those with an exponent."""
NOTHING = kinds(NULL)
WORD = kinds(TRUE, FALSE)
ANY = TEXT | NUMERIC | NOTHING | WORD


class ColumnReader(NamedTuple):
    """How a value of a message is read.

    Attributes:
        kinds: the kinds that it may have, as bits; null needs no other word.
        convert: makes the canonical text; None if that is what stands there.
    """

    kinds: int
    convert: Convert | None = None

    def read(self, arena: Arena, values: Texts) -> Texts:
        """The canonical texts."""
        return values if self.convert is None else self.convert(arena, values)


class ColumnWriter(NamedTuple):
    """How a canonical text is written.

    Attributes:
        quoted: whether it stands between quotes.
        convert: makes what is written; None if that is the text.
    """

    quoted: bool
    convert: Convert | None = None

    def write(self, arena: Arena, texts: Texts) -> Texts:
        """What stands in the messages."""
        return texts if self.convert is None else self.convert(arena, texts)


READ_TEXT = ColumnReader(TEXT | NOTHING)
READ_WHOLE = ColumnReader(WHOLE | NOTHING)
READ_NUMBER = ColumnReader(NUMERIC | NOTHING)
WRITE_TEXT = ColumnWriter(True)


@_shared
def by_call(convert: Callable[[str], str]) -> Convert:
    """A converter of texts that knows one at a time; what it refuses is converted exactly."""

    def one(text: bytes) -> bytes | None:
        try:
            return _encode(convert(_decode(b'"%b"' % text)))[1:-1]
        except (Refusal, ValueError):
            return None

    return lambda arena, texts: arena.each(texts, one)


def raw_by_call(write: Callable[[str], object]) -> Convert:
    """A converter to values of JSON, of a function that gives what is then encoded."""

    def one(text: bytes) -> bytes | None:
        try:
            return _encode(write(_decode(b'"%b"' % text)))
        except (Refusal, ValueError):
            return None

    return lambda arena, texts: arena.each(texts, one)


@_shared
def wall_clock(between: int, becomes: int) -> Convert:
    """Wall clocks with another sign between date and time of day."""

    def convert(arena: Arena, texts: Texts) -> Texts:
        starts, lengths = texts.starts.copy(), texts.lengths.copy()
        at = arena.room(int(np.maximum(lengths, 0).sum()))
        arena.size = kernels.wall_clocks(arena.data, starts, lengths, between, becomes, at)
        return Texts(starts, lengths)

    return convert


@_shared
def or_else(first: Convert, then: Convert) -> Convert:
    """A converter that leaves to another one what it cannot do."""

    def convert(arena: Arena, texts: Texts) -> Texts:
        made = first(arena, texts)
        rest = np.flatnonzero((made.lengths == BAD) & (texts.lengths != BAD))
        if not len(rest):
            return made
        other = then(arena, texts.take(rest))
        # What was made may stand where the texts do: theirs must stay.
        starts, lengths = made.starts.copy(), made.lengths.copy()
        starts[rest], lengths[rest] = other.starts, other.lengths
        return Texts(starts, lengths)

    return convert


@_shared
def units_to_wall_clock(places: int) -> Convert:
    """Counts of 10**-places seconds since 1970 as wall clocks with a T, all digits written."""

    def convert(arena: Arena, texts: Texts) -> Texts:
        values, _, lengths = numbers(arena, texts)
        return wall_clocks_of(arena, values, places, T, lengths)

    return convert


@_shared
def wall_clock_to_units(places: int, exact: int = -1) -> Convert:
    """Wall clocks with a T as counts of 10**-places seconds since 1970.

    Args:
        places: digits of the second in a unit.
        exact: how many digits a fraction must have; -1 for any up to `places`.
    """

    def convert(arena: Arena, texts: Texts) -> Texts:
        lengths = texts.lengths.copy()
        values = np.zeros_like(texts.starts)
        kernels.wall_clock_units(arena.data, texts.starts, lengths, T, places, exact, values)
        return written(arena, values, lengths)

    return convert


@_shared
def whole(lowest: int, highest: int) -> Convert:
    """Integers of a range, in plain digits; others are converted exactly."""

    def convert(arena: Arena, texts: Texts) -> Texts:
        values, starts, lengths = numbers(arena, texts)
        outside = (lengths >= 0) & ((values < lowest) | (values > highest))
        lengths[outside] = BAD
        return Texts(starts, lengths)

    return convert


def numbers(arena: Arena, texts: Texts) -> tuple[Places, Places, Places]:
    """Integers in plain digits: values, starts and lengths; `BAD` where a text is none."""
    lengths = texts.lengths.copy()
    values = np.zeros_like(texts.starts)
    kernels.integers(arena.data, texts.starts, lengths, DIGITS, values)
    return values, texts.starts, lengths


def written(arena: Arena, values: Places, lengths: Places | None = None) -> Texts:
    """Integers as texts.

    Args:
        arena: takes the digits.
        values: the integers.
        lengths: below zero where there is none; it is changed.
    """
    rows = len(values)
    starts = np.zeros(rows, np.int64)
    lengths = np.zeros(rows, np.int64) if lengths is None else lengths
    at = arena.room(20 * rows)
    arena.size = at + 20 * rows
    kernels.digits(values, arena.data, at, starts, lengths)
    return Texts(starts, lengths)


def same(arena: Arena, one: Texts, other: Texts) -> npt.NDArray[np.bool_]:
    """Whether two values of a row are the same."""
    equal = np.empty(len(one.starts), np.bool_)
    kernels.same_texts(arena.data, one.starts, one.lengths, other.starts, other.lengths, equal)
    return equal


@_shared
def plain_decimal(whole: int, scale: int) -> Convert:
    """Numbers in plain digits, as they are; others are converted exactly.

    Args:
        whole: how many digits may stand before the point.
        scale: how many may stand behind it.
    """

    def convert(arena: Arena, texts: Texts) -> Texts:
        lengths = texts.lengths.copy()
        kernels.plain_decimals(arena.data, texts.starts, lengths, whole, scale)
        return Texts(texts.starts, lengths)

    return convert


def short_float(arena: Arena, texts: Texts) -> Texts:
    """Float64 in canonical texts of at most 15 digits, as they are."""
    lengths = texts.lengths.copy()
    kernels.short_floats(arena.data, texts.starts, lengths)
    return Texts(texts.starts, lengths)


def true_or_false(arena: Arena, texts: Texts) -> Texts:
    """The two words, as they are."""
    lengths = texts.lengths.copy()
    kernels.words(arena.data, texts.starts, lengths)
    return Texts(texts.starts, lengths)


@_shared
def units_to_instant(places: int) -> Convert:
    """Counts of 10**-places seconds since 1970 as instants that end in Z, all digits written."""
    to_wall_clock = units_to_wall_clock(places)
    return lambda arena, texts: with_z(arena, to_wall_clock(arena, texts))


def with_z(arena: Arena, texts: Texts) -> Texts:
    """Texts with a Z behind them, which take the place of what is given."""
    lengths = texts.lengths
    at = arena.room(int(np.maximum(lengths, 0).sum()) + len(lengths))
    arena.size = kernels.with_last(arena.data, texts.starts, lengths, Z, at)
    return texts


@_shared
def instant_to_units(places: int) -> Convert:
    """Instants that end in Z as counts of 10**-places seconds since 1970; never a finer one."""
    to_units = wall_clock_to_units(places)

    def convert(arena: Arena, texts: Texts) -> Texts:
        lengths = texts.lengths.copy()
        kernels.without_last(arena.data, texts.starts, lengths, Z)
        return to_units(arena, Texts(texts.starts, lengths))

    return convert


def joined_texts(arena: Arena, one: Texts, other: Texts) -> Texts:
    """Two texts of each row, one behind the other; `BAD` where one of them is none."""
    starts = np.zeros_like(one.starts)
    lengths = np.minimum(one.lengths, other.lengths)
    size = np.maximum(one.lengths, 0).sum() + np.maximum(other.lengths, 0).sum()
    at = arena.room(int(size))
    arena.size = kernels.join_texts(arena.data, *one, *other, starts, lengths, at)
    return Texts(starts, lengths)


@_shared
def at_most(longest: int) -> Convert:
    """Texts of so many bytes, as they are; longer ones are converted exactly."""

    def convert(_: Arena, texts: Texts) -> Texts:
        return Texts(texts.starts, np.where(texts.lengths > longest, BAD, texts.lengths))

    return convert


@_shared
def number_in(opening: bytes, marks: bytes, which: int) -> Convert:
    """Digits of one of the numbers of texts that are an opening and then numbers.

    Args:
        opening: what stands before the first mark.
        marks: the byte before each number; 0 where there is none.
        which: which of the numbers.
    """
    first, before = np.frombuffer(opening, np.uint8), np.frombuffer(marks, np.uint8)

    def convert(arena: Arena, texts: Texts) -> Texts:
        starts, lengths = texts.starts.copy(), texts.lengths.copy()
        kernels.number_in_text(arena.data, starts, lengths, first, before, which)
        return Texts(starts, lengths)

    return convert


def without_zeros(arena: Arena, texts: Texts, clock: int) -> Texts:
    """Times without zeros at the end of their fraction.

    Args:
        arena: where the texts are.
        texts: the times; those that end in zeros and are none are converted exactly.
        clock: how many bytes stand before the time of day.
    """
    lengths = texts.lengths.copy()
    kernels.without_zeros(arena.data, texts.starts, lengths, clock)
    return Texts(texts.starts, lengths)


def padded(arena: Arena, values: Places, width: int) -> Texts:
    """Integers from 0 on with leading zeros; others are converted exactly.

    Args:
        arena: takes the digits.
        values: the integers.
        width: how many digits are written, more than the largest integer has.
    """
    starts, lengths = np.zeros_like(values), np.empty_like(values)
    at = arena.room(width * len(values))
    arena.size = at + width * len(values)
    kernels.padded_digits(values, width, arena.data, at, starts, lengths)
    return Texts(starts, lengths)


def wall_clocks_of(
    arena: Arena, values: Places, places: int, between: int, lengths: Places | None = None
) -> Texts:
    """Counts of 10**-places seconds since 1970 as wall clocks, all digits written.

    Args:
        arena: takes the texts.
        values: the counts.
        places: digits of the second in a unit.
        between: what stands between date and time of day.
        lengths: below zero where there is none; it is changed.
    """
    starts = np.zeros_like(values)
    lengths = np.zeros_like(values) if lengths is None else lengths
    room = (20 + places) * len(values)
    at = arena.room(room)
    arena.size = at + room
    kernels.unit_wall_clocks(values, places, between, arena.data, at, starts, lengths)
    return Texts(starts, lengths)
