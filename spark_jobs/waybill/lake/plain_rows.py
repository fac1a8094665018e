"""Rows of a query of Spark as objects of Python, the same as data files give them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from waybill.lake.arrow_rows import day_of, moment_of
from waybill.lake.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_Read = Callable[[Any], Any]


def plain_rows(rows: DataFrame, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Some columns of rows; those that the rows do not have are None.

    Times come as numbers: Spark makes them by this machine's clock, which some of them are beyond.
    """
    types = {field.name: field.dataType for field in rows.schema}
    there = [name for name in columns if name in types]
    asked = [_asked(name, types[name]) for name in there]
    reads = [read for _, read in asked]
    lacking = {name: None for name in columns if name not in types}
    found = rows.select(*(column for column, _ in asked))
    for row in found.toLocalIterator(prefetchPartitions=True):
        values = (read(value) for read, value in zip(reads, row, strict=True))
        yield {**dict(zip(there, values, strict=True)), **lacking}


def _asked(name: str, kind: DataType) -> tuple[Column, _Read]:
    """A column as it is asked for, and what makes its values of that."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    column = F.col(quoted(name))
    if isinstance(kind, T.DecimalType):
        # What Spark hands over may have more zeros at its end.
        text = column.cast("string")
        return text.alias(name), lambda digits: None if digits is None else Decimal(digits)
    if isinstance(kind, T.DateType):
        return F.unix_date(column).alias(name), day_of
    if isinstance(kind, T.TimestampType):
        return F.unix_micros(column).alias(name), lambda micros: moment_of(micros, True)
    if isinstance(kind, T.TimestampNTZType):
        # The session's clock is UTC.
        moment = F.unix_micros(column.cast("timestamp"))
        return moment.alias(name), lambda micros: moment_of(micros, False)
    return column, lambda value: bytes(value) if isinstance(value, bytearray) else value
