"""Rows of Arrow tables as Python objects, and which rows have one of some values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import repeat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from waybill.lake.planned_files import Where

ROWS = 10_000
"""How many rows become Python objects at once."""

_DAY = date(1970, 1, 1)
_CLOCK = datetime(1970, 1, 1)  # noqa: DTZ001 - a time of a column that has no zone
_INSTANT = _CLOCK.replace(tzinfo=UTC)
_FIRST_DAY, _LAST_DAY = (date.min - _DAY).days, (date.max - _DAY).days
_MICROS_A_DAY = 24 * 3600 * 1_000_000

Row = dict[str, Any]


def objects(table: pa.Table) -> Iterator[Row]:
    """Rows as Python objects."""
    names = table.column_names
    for batch in table.to_batches(max_chunksize=ROWS):
        for values in zip(*map(_values, batch.columns), strict=True):
            yield dict(zip(names, values, strict=True))


def filled(table: pa.Table, columns: Sequence[str], there: Iterable[str]) -> Iterator[Row]:
    """Rows as Python objects with these columns; those that are not there are None."""
    names = [name for name in dict.fromkeys(columns) if name in there]
    lacking = {name: None for name in columns if name not in there}
    rows = objects(table.select(names)) if names else repeat({}, table.num_rows)
    for row in rows:
        yield {**row, **lacking} if lacking else row


def having(table: pa.Table, where: Where) -> Any:
    """A mask of the rows that have one of the values in every column that is asked."""
    import pyarrow.compute as pc

    mask: Any = None
    for column, values in where.items():
        there = table.column(column)
        one = pc.is_in(there, value_set=_of_type(values, there.type))
        mask = one if mask is None else pc.and_(mask, one)
    return mask


def _of_type(values: Sequence[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Values as a column of a type has them, without those that are beyond what it can hold."""
    import pyarrow as pa

    try:
        return pa.array([*values], kind)
    except (pa.ArrowInvalid, OverflowError):
        return pa.array([value for value in values if _fits(value, kind)], kind)


def _fits(value: Any, kind: pa.DataType) -> bool:
    import pyarrow as pa

    try:
        pa.scalar(value, kind)
    except (pa.ArrowInvalid, OverflowError):
        return False
    return True


def _values(column: pa.Array[Any]) -> list[Any]:
    """The values of a column; Arrow's own way to make times imports all of pandas."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_date32(kind):
        return [day_of(days) for days in column.view(pa.int32()).to_pylist()]
    if not pa.types.is_timestamp(kind) or kind.unit != "us":
        return column.to_pylist()
    zoned = kind.tz is not None
    return [moment_of(micros, zoned) for micros in column.view(pa.int64()).to_pylist()]


def day_of(days: int | None) -> date | None:
    """A day by its number from 1970; None for one that Python has no date of."""
    if days is None or not _FIRST_DAY <= days <= _LAST_DAY:
        return None
    return _DAY + timedelta(days)


def moment_of(micros: int | None, zoned: bool) -> datetime | None:
    """A time by its microseconds from 1970; None for one in a year that Python has none of.

    Args:
        micros: the number.
        zoned: whether it is an instant, and not what a clock shows.
    """
    if micros is None or not _FIRST_DAY <= micros // _MICROS_A_DAY <= _LAST_DAY:
        return None
    return (_INSTANT if zoned else _CLOCK) + timedelta(microseconds=micros)
