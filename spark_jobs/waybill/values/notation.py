"""The notation of a column's values: one object for a single value and for a whole column.

It is chosen once, from the column's type. What compiled code makes of a column in bulk is named
here and loaded when a column is converted, so that whoever reads single values loads none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.types import INTEGER_RANGE

if TYPE_CHECKING:
    from waybill.bulk.column_codecs import Convert as ColumnConvert
    from waybill.types import LogicalType


class ColumnForm(NamedTuple):
    """What compiled code makes of most values of a column.

    It makes of a value what the single form makes of it, or nothing (`BAD`): then the single form
    is asked.

    Attributes:
        maker: `module:function` of what gives the converter of a column.
        arguments: what that is called with.
    """

    maker: str
    arguments: tuple[Any, ...] = ()

    def convert(self) -> ColumnConvert:
        """The converter of a column."""
        return _made(self)


@lru_cache(maxsize=4096)  # messages may tell of types without end
def _made(form: ColumnForm) -> ColumnConvert:
    module, _, name = form.maker.partition(":")
    found: ColumnConvert = getattr(import_module(module), name)(*form.arguments)
    return found


class Notation(NamedTuple):
    """How the values of a column stand in messages.

    Attributes:
        wire: what a value is there: `text` (a string or null), `raw` (any JSON) or `null`; a family
            may have more words of its own.
        read: from a string, or from the JSON text of any value but null, to the canonical text;
            None if a string is that already.
        write: from the canonical text to what is to stand there; None if it is a string.
        reads: the column form of `read`.
        writes: the column form of `write`.
    """

    wire: str
    read: Callable[[Any], Any] | None = None
    write: Callable[[str], Any] | None = None
    reads: ColumnForm | None = None
    writes: ColumnForm | None = None

    @property
    def plain(self) -> bool:
        """Whether every JSON number without exponent is read as it is."""
        return self.reads == DIGITS

    @property
    def reach(self) -> tuple[int, int] | None:
        """The integers that are read as they are, from the smallest; None for other columns."""
        if self.reads is None or self.reads.maker != _INTEGERS:
            return None
        low, high = self.reads.arguments
        return low, high


_BULK = "waybill.bulk.column_codecs:"
_FORMS = "waybill.values.column_forms:"
_INTEGERS = f"{_FORMS}integers"
ANY_DIGITS = 1 << 30
"""More digits than any number has."""
KNOWN_INTEGERS = 1 - 2**63, 2**63 - 1
"""The smallest and the largest integer that compiled code knows."""


def integers(low: int, high: int) -> ColumnForm:
    """Integers of a range in plain digits, as they are."""
    return ColumnForm(_INTEGERS, (low, high))


def digits(whole: int, scale: int) -> ColumnForm:
    """Numbers in plain digits, as they are, with so many before and behind the point."""
    return ColumnForm(f"{_BULK}plain_decimal", (whole, scale))


def digits_of(decimal: LogicalType) -> ColumnForm | None:
    """Numbers that fit a decimal, as they are.

    None where it has no digits before the point: some behind it have to be zeros then.
    """
    scale = decimal.scale or 0
    whole = (decimal.precision or 0) - scale
    return None if whole < 0 else digits(whole, scale)


def column_form(kind: LogicalType) -> ColumnForm | None:
    """Numbers that are canonical texts of a type, as they are."""
    if kind.is_integer:
        return integers(*INTEGER_RANGE[kind.kind])
    if kind.kind == "decimal":
        return digits_of(kind)
    return {"number": DIGITS, "float64": SHORT_FLOATS}.get(kind.kind)


def declared_form(kind: LogicalType) -> ColumnForm | None:
    """Texts that are values of a declared type; a wall clock may have a blank in its middle."""
    return FROM_BLANK if kind.kind == "timestamp" else column_form(kind)


def whole_form(kind: LogicalType) -> ColumnForm | None:
    """Integers in plain digits that are values of a type, as they are."""
    if kind.kind == "decimal":
        whole = (kind.precision or 0) - (kind.scale or 0)
        return digits(whole, 0) if whole > 0 else None
    if kind.kind == "number":
        return WHOLE_DIGITS
    return column_form(kind) if kind.is_integer else None


def units_to_instants(places: int) -> ColumnForm:
    """Counts of 10**-places seconds since 1970 as instants that end in Z."""
    return ColumnForm(f"{_BULK}units_to_instant", (places,))


def units_to_wall_clocks(places: int) -> ColumnForm:
    """The same as wall clocks with a T."""
    return ColumnForm(f"{_BULK}units_to_wall_clock", (places,))


def instants_to_units(places: int) -> ColumnForm:
    """Instants that end in Z as counts of 10**-places seconds since 1970."""
    return ColumnForm(f"{_BULK}instant_to_units", (places,))


def wall_clocks_to_units(places: int) -> ColumnForm:
    """Wall clocks with a T as the same."""
    return ColumnForm(f"{_BULK}wall_clock_to_units", (places,))


def units_read(kind: LogicalType, places: int, in_utc: bool) -> ColumnForm | None:
    """Counts of 10**-places seconds since 1970 as times of a type, wall clocks of UTC only."""
    if kind.kind == "timestamptz":
        return units_to_instants(places)
    return units_to_wall_clocks(places) if kind.kind == "timestamp" and in_utc else None


def units_written(kind: LogicalType, places: int, in_utc: bool) -> ColumnForm | None:
    """Times of a type as the same."""
    if kind.kind == "timestamptz":
        return instants_to_units(places)
    return wall_clocks_to_units(places) if kind.kind == "timestamp" and in_utc else None


DIGITS, WHOLE_DIGITS = digits(ANY_DIGITS, ANY_DIGITS), digits(ANY_DIGITS, 0)
"""Numbers, and integers, of any size in plain digits, as they are."""
SHORT_FLOATS = ColumnForm(f"{_FORMS}short_floats")
"""Numbers of float64 in canonical texts of at most 15 digits, as they are."""
WORDS = ColumnForm(f"{_FORMS}words")
"""`true` and `false`, as they are."""
WORDS_AS_DIGITS = ColumnForm(f"{_FORMS}words_as_digits")
"""`true` and `false` as 1 and 0."""
_BLANK, _T = ord(" "), ord("T")
FROM_BLANK = ColumnForm(f"{_BULK}wall_clock", (_BLANK, _T))
"""Wall clocks with a blank between date and time of day, as those with a T."""
TO_BLANK = ColumnForm(f"{_BULK}wall_clock", (_T, _BLANK))
"""The reverse."""
UTC_FROM_BLANK = ColumnForm(f"{_FORMS}utc_from_blank")
"""Wall clocks of UTC with a blank, as instants that end in Z."""
UTC_TO_BLANK = ColumnForm(f"{_FORMS}utc_to_blank")
"""The reverse."""
