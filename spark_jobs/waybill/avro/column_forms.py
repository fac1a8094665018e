"""Column forms of values of Avro, loaded when they are used like those of `values.notation`."""

from __future__ import annotations

from waybill.values.notation import ColumnForm

_MADE, _NUMBERS = "waybill.avro.columns:", "waybill.bulk.column_codecs:"
_MOST_SCALE = 30
TEXTS = ColumnForm(f"{_MADE}escaped_texts")
"""Texts as they stand in JSON."""


def counted(form: ColumnForm) -> ColumnForm:
    """A form of numbers in plain digits, for varints."""
    return ColumnForm(f"{_MADE}counted_by", (form,))


def wall_clocks(places: int) -> ColumnForm:
    """Counts of 10**-places seconds since 1970 as wall clocks, all digits written."""
    return counted(ColumnForm(f"{_NUMBERS}units_to_wall_clock", (places,)))


def instants(places: int) -> ColumnForm:
    """The same as instants that end in Z."""
    return counted(ColumnForm(f"{_NUMBERS}units_to_instant", (places,)))


def integers(low: int, high: int) -> ColumnForm:
    """Integers of a range in plain digits."""
    return counted(ColumnForm(f"{_NUMBERS}whole", (low, high)))


def scaled(scale: int, limit: int, lowest: int) -> ColumnForm:
    """Numbers in plain digits as the bytes of their unscaled digits, without their length."""
    return ColumnForm(f"{_MADE}unscaled", (scale, limit, lowest))


def unscaled(scale: int) -> ColumnForm | None:
    """Unscaled digits as numbers in plain digits; None for a scale that is rare."""
    return None if scale > _MOST_SCALE else ColumnForm(f"{_MADE}decimal", (scale,))
