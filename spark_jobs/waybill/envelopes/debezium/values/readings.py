"""How one column of a Debezium row is read, and held against the type that it is declared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET

from waybill.types import INTEGER_RANGE
from waybill.values.declared import check_for, may_hold
from waybill.values.notation import (
    KNOWN_INTEGERS,
    ColumnForm,
    digits,
    integers,
    units_to_wall_clocks,
)

if TYPE_CHECKING:
    from msgspec import Raw

    from waybill.types import LogicalType

_COUNTS = {
    3: ColumnForm("waybill.envelopes.debezium.bulk.values:wall_clocks_of_millis"),
    6: units_to_wall_clocks(6),
}
_MOST = 60
_NUMBERS = digits(_MOST, _MOST)
"""Numbers that are not too long to be seen at once."""
TEXT_KINDS = frozenset({"string", "enum", "set", "json", "interval", "xml", "unknown"})
"""Kinds whose text is whatever the source says."""


class ColumnReading(NamedTuple):
    """How one column is read.

    Attributes:
        type: its logical type.
        wire: the msgspec type of its JSON value, null included.
        convert: JSON value to text, None where the text is the value.
        source_type: the type as the message says it.
        marks: texts that stand for a value that was not sent.
        raw: whether `convert` takes the value's JSON text, null included.
        quick: `plain` where a number in plain digits is its own text; `str` where `convert` gives
            what `str` does for every value that `wire` lets through; `unsigned` where it does so
            for every integer from zero on; else empty.
        wide: a wire type that lets more through than `wire`, for `convert` to say what is wrong.
        digits: how many digits a number in plain digits may have before the point and behind it to
            be its own text; None where that is not known.
        unit: digits of the second in the unit, where `convert` makes a wall clock of a count; else
            0.
    """

    type: LogicalType
    wire: Any
    convert: Callable[[Any], Any] | None = None
    source_type: str | None = None
    marks: tuple[str, ...] = ()
    raw: bool = False
    quick: str = ""
    wide: Any = None
    digits: tuple[int, int] | None = None
    unit: int = 0

    @property
    def texts(self) -> ColumnForm | None:
        """The column form of `convert` for strings."""
        if self.raw or self.unit:
            return None
        if self.digits is not None:
            return digits(*self.digits)
        return _NUMBERS if self.quick == "plain" else None

    @property
    def counts(self) -> ColumnForm | None:
        """The column form of `convert` for integers."""
        if self.raw:
            return None
        if self.quick == "str":
            low, high = INTEGER_RANGE.get(self.type.kind, KNOWN_INTEGERS)
            return integers(max(low, KNOWN_INTEGERS[0]), min(high, KNOWN_INTEGERS[1]))
        if self.quick == "unsigned":
            return integers(0, KNOWN_INTEGERS[1])
        return _COUNTS.get(self.unit)


def checked(reading: ColumnReading, declared: LogicalType) -> ColumnReading:
    """A reading whose texts are checked against another type.

    Raises:
        ValueError: no value of the one is a value of the other.
    """
    found, wanted = reading.type.kind, declared.kind
    if not may_hold(declared, reading.type):
        raise ValueError(_strange(reading.type, declared))
    if found == "unknown" or wanted in TEXT_KINDS:
        return reading._replace(type=declared)
    check = check_for(declared)
    if check is None and wanted != found:
        raise ValueError(_strange(reading.type, declared))
    fitting = _digits(reading, declared)
    unit = reading.unit if check is None else 0
    convert = _both(reading, declared)
    quick = "unsigned" if reading.quick == "str" and wanted == "uint64" else ""
    return reading._replace(type=declared, convert=convert, quick=quick, digits=fitting, unit=unit)


def held(reading: ColumnReading) -> ColumnReading:
    """A reading of a decimal that takes no number of more digits than its type has."""
    if reading.type.kind != "decimal":
        return reading
    convert = _both(reading, reading.type)
    return reading._replace(convert=convert, quick="", digits=_digits(reading, reading.type))


def _digits(reading: ColumnReading, wanted: LogicalType) -> tuple[int, int] | None:
    """The digits of a number that is its own text, where it is checked against a type."""
    plain = not reading.raw and (reading.convert is None or reading.quick == "plain")
    scale, precision = wanted.scale or 0, wanted.precision or 0
    if not plain or wanted.kind != "decimal" or not 0 < scale < precision:
        return None
    return precision - scale, scale


def _strange(found: LogicalType, declared: LogicalType) -> str:
    return f"a JSON value of kind {found} is in a column declared {declared}"


def _both(reading: ColumnReading, wanted: LogicalType) -> Callable[[Any], Any] | None:
    """What converts the values of a reading and checks them against a type."""
    convert, check = reading.convert, check_for(wanted)
    if check is None or convert is None:
        return check or convert
    if reading.quick == "plain" and wanted.kind == "decimal":
        # The check of a decimal takes a number in any notation, and says so of the special values.
        return check
    if not reading.raw:
        return lambda value: check(convert(value))

    def read(raw: Raw) -> Any:
        text = convert(raw)
        return text if text is None or text is UNSET else check(text)

    return read
