"""The columns of a merged table: names and types in the lake for those of the source.

A type in the lake holds every value of the logical type exactly; where there is none (numbers of
more than 38 digits, times finer than microseconds, times of day, intervals) the column is a string
with the exact text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from waybill.errors import Code, SchemaChangeError
from waybill.lake_columns import lake_name
from waybill.types import with_digits

if TYPE_CHECKING:
    from waybill.records import TableSchema
    from waybill.types import LogicalType

KEY, ORDER, DELETED = "_waybill_key", "_waybill_order", "_waybill_deleted"
IMAGE, SOURCES, BATCH = "_waybill_image", "_waybill_sources", "_waybill_batch"
GONE = "_waybill_gone"
BY_CHANGE, BY_RELOAD = "delete", "reload"
"""Why a tombstone stands."""

OWN_COLUMNS = {
    KEY: "string",
    ORDER: "string",
    DELETED: "boolean",
    IMAGE: "string",
    SOURCES: "string",
    BATCH: "string",
    GONE: "string",
}
"""Columns that every merged table has beside the source's, with their types:

- `_waybill_key`: key image as JSON text; one row or tombstone per key;
- `_waybill_order`: order key of the change that made the row what it is;
- `_waybill_deleted`: true for a tombstone;
- `_waybill_image`: the row as text image, exact; null for a tombstone;
- `_waybill_sources`: null if the newest change alone decides the row, else a JSON list of the
  other keys whose changes went into it (`waybill.merge.rules.Row.sources`);
- `_waybill_batch`: the batch that wrote the row;
- `_waybill_gone`: why a tombstone stands: `delete` (also the old key of a key change), or `reload`
  where a full reload does not have the row.
"""

_TYPES = {
    **dict.fromkeys(("int8", "int16", "int32", "uint8", "uint16"), "int"),
    **dict.fromkeys(("int64", "uint32"), "bigint"),
    "uint64": "decimal(20,0)",
    "boolean": "boolean",
    "float32": "float",
    "float64": "double",
    "bytes": "binary",
    "bit": "binary",
    "geometry": "binary",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
}
_MICROSECOND = 6
"""Digits of the second that a timestamp of the lake holds."""
_WIDER = {("int", "bigint"), ("float", "double")}
_DIGITS = {"int": 10, "bigint": 19}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


class Column(NamedTuple):
    """One column of a merged table.

    Attributes:
        name: the source's name, as it stands in images.
        lake: the name in the lake.
        type: the Spark SQL type in the lake.
        known: whether an envelope or the migration said the type; a column of unknown type takes
            the type that is told later, as long as it is not in the lake.
    """

    name: str
    lake: str
    type: str
    known: bool = True


def lake_type(logical: LogicalType) -> str:
    """The Spark SQL type that holds every value of a logical type exactly."""
    if logical.kind == "decimal":
        precision, scale = logical.precision or 0, logical.scale or 0
        fits = 0 < precision <= 38 and 0 <= scale <= precision
        return f"decimal({precision},{scale})" if fits else "string"
    if finer_time(logical):
        return "string"
    return _TYPES.get(logical.kind, "string")


def finer_time(logical: LogicalType) -> bool:
    """Whether it is a timestamp with more digits of the second than the lake's types hold."""
    finer = logical.precision is not None and logical.precision > _MICROSECOND
    return finer and logical.kind in ("timestamp", "timestamptz")


def extend(
    columns: tuple[Column, ...],
    schemas: Iterable[TableSchema],
    declared: Mapping[str, LogicalType],
    table: str,
    in_lake: int,
) -> tuple[Column, ...]:
    """The columns of a table after changes with these schemas.

    Args:
        columns: those so far.
        schemas: how the changes of the batch describe the table.
        declared: types that the migration declares; they go before what a schema says.
        table: qualified name, for the message.
        in_lake: how many of `columns` are in the lake already, so that their types can only be
            widened.

    Raises:
        SchemaChangeError: a type changed in a way that the column in the lake cannot follow.
    """
    found = {column.name: column for column in columns}
    fixed = {column.name for column in columns[:in_lake]}
    for schema in schemas:
        for stated in schema.columns:
            logical = declared.get(stated.name) or with_digits(stated.type, stated.source_type)
            known = logical.kind != "unknown"
            type_ = lake_type(logical)
            have = found.get(stated.name)
            if have is None:
                lake = lake_name(stated.name, [column.lake for column in found.values()])
                found[stated.name] = Column(stated.name, lake, type_, known)
            elif known:
                in_use = stated.name in fixed
                joined = _joined(have, type_, in_use, stated.name in declared)
                if not in_use and finer_time(logical) and have.type == _TYPES[logical.kind]:
                    joined = type_
                if joined is None:
                    raise SchemaChangeError(_sentence(table, have, logical), code=Code.COLUMN_TYPE)
                found[stated.name] = have._replace(type=joined, known=True)
    return tuple(found.values())


def _sentence(table: str, have: Column, logical: LogicalType) -> str:
    wide = logical if finer_time(logical) and have.type == _TYPES[logical.kind] else "string"
    example = f"tables: {{{table}: {{columns: {{{have.name}: {wide}}}}}}}"
    return (
        f"column {have.name} of {table} is {have.type} in the lake and now comes as {logical}, "
        "which does not fit: take the change back at the source, or declare a type that holds "
        f"both, e.g. {example}, under a new migration name"
    )


def _joined(have: Column, want: str, in_use: bool, declared: bool) -> str | None:
    """The type of a column that now also takes another type, None if there is none."""
    if not have.known and not in_use:
        return want
    if have.type in (want, "string"):
        return have.type
    if declared:
        return want if _wider(have.type, want, in_use) == want else None
    return have.type if holds(have.type, want) else _wider(have.type, want, in_use)


def holds(big: str, small: str) -> bool:
    """Whether a type holds every value of another one."""
    if (small, big) in _WIDER:
        return True
    big_decimal, small_decimal = _DECIMAL.fullmatch(big), _as_decimal(small)
    if big_decimal is None or small_decimal is None:
        return False
    precision, scale = int(big_decimal[1]), int(big_decimal[2])
    return small_decimal[1] <= scale and small_decimal[0] - small_decimal[1] <= precision - scale


def widens(have: str, want: str) -> bool:
    """Whether a column of the lake has to become wider to take values of a type, and can."""
    return have != want and _wider(have, want, True) == want


def _wider(have: str, want: str, fixed: bool) -> str | None:
    """The type that holds both, None if there is none that the column can become."""
    if (have, want) in _WIDER:
        return want
    one, other = _as_decimal(have), _as_decimal(want)
    if one is None or other is None:
        return None
    scale = max(one[1], other[1])
    precision = max(one[0] - one[1], other[0] - other[1]) + scale
    # Iceberg lets a decimal grow in precision only.
    if precision > 38 or (fixed and (have in _DIGITS or scale != one[1])):
        return None
    return f"decimal({precision},{scale})"


def _as_decimal(type_: str) -> tuple[int, int] | None:
    if type_ in _DIGITS:
        return _DIGITS[type_], 0
    match = _DECIMAL.fullmatch(type_)
    return None if match is None else (int(match[1]), int(match[2]))
