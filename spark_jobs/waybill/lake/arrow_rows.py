"""Rows of Arrow tables as Python objects, and which rows have one of some values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import repeat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from waybill.lake.planned_files import Where

ROWS = 10_000
"""How many rows become Python objects at once."""

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
    if not pa.types.is_timestamp(kind) or kind.unit != "us":
        return column.to_pylist()
    first = datetime(1970, 1, 1, tzinfo=None if kind.tz is None else UTC)
    return [
        None if value is None else first + timedelta(microseconds=value)
        for value in column.view(pa.int64()).to_pylist()
    ]
