"""Times of changes in the source: microseconds since 1970, as messages state them.

A message may state a time that no calendar has, such as microseconds in a field of milliseconds. It
is carried on exactly, as a number. It says nothing about how new anything is, though: the newest of
several times would be that one for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from waybill.types import FIRST_MICRO, LAST_MICRO

if TYPE_CHECKING:
    import pyarrow as pa


def on_calendar(micros: int | None) -> bool:
    """Whether a time is stated, and in the years 1 to 9999."""
    return micros is not None and FIRST_MICRO <= micros <= LAST_MICRO


def calendar_sql(column: str) -> str:
    """A column of times in Spark's SQL, null where a time is on no calendar."""
    return (
        f"CASE WHEN unix_micros({column}) BETWEEN {FIRST_MICRO} AND {LAST_MICRO} THEN {column} END"
    )


def calendar_column(times: Any) -> pa.ChunkedArray[Any]:
    """A column of times of Arrow, null where a time is on no calendar."""
    import pyarrow as pa
    import pyarrow.compute as pc

    compute: Any = pc
    micros = times.cast(pa.int64())
    known = compute.and_(
        compute.greater_equal(micros, FIRST_MICRO), compute.less_equal(micros, LAST_MICRO)
    )
    found: pa.ChunkedArray[Any] = compute.if_else(known, times, pa.scalar(None, times.type))
    return found
