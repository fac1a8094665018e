"""The columns of a merged table: names and types in the lake for those of the source.

A type in the lake holds every value of the logical type exactly; where there is none (numbers of
more than 38 digits, times finer than microseconds, times of day, intervals) the column is a string
with the exact text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
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
- `_waybill_image`: the row as text image, exact, or what the typed columns do not say of it
  (`waybill.merge.short_images`); null for a tombstone;
- `_waybill_sources`: null if the newest change alone decides the row, else a JSON list of the
  other keys whose changes went into it (`waybill.merge.rules.Row.sources`);
- `_waybill_batch`: the batch that wrote the row;
- `_waybill_gone`: why a tombstone stands: `delete` (also the old key of a key change), or `reload`
  where a full reload does not have the row.
"""

TYPES = {
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
"""The types of the lake by logical type, where they hold all of its values."""

_MICROSECOND = 6
"""Digits of the second that a timestamp of the lake holds."""


class MergedColumn(NamedTuple):
    """One column of a merged table.

    Attributes:
        name: the source's name, as it stands in images.
        lake: the name in the lake.
        type: the Spark SQL type in the lake.
        known: whether an envelope or the migration said the type; a column of unknown type takes
            the type that is stated later, as long as it is not in the lake.
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
    return TYPES.get(logical.kind, "string")


def finer_time(logical: LogicalType) -> bool:
    """Whether it is a timestamp with more digits of the second than the lake's types hold."""
    finer = logical.precision is not None and logical.precision > _MICROSECOND
    return finer and logical.kind in ("timestamp", "timestamptz")
