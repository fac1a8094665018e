"""Columns of times that name their zone, declared as instants.

OMS writes `2020-11-25 00:01:02.5 Asia/Shanghai` of a ZONED_DATETIME. As a text, which it is unless
it is declared otherwise, it goes on whole. Declared as `timestamptz` it becomes the same instant in
UTC, and no target can write the name of the zone any more: that is counted as a loss of the type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.caches import Bounded

if TYPE_CHECKING:
    from waybill.records import Change, TableSchema

DIALECT = "oms"
NAMES = frozenset({"ZONED_DATETIME", "TIMESTAMP WITH TIME ZONE"})
"""Types of OMS whose values name their zone (OceanBase documentation, "Data formats")."""

_gives_up: Bounded[TableSchema, bool] = Bounded()


def gives_up_zones(schema: TableSchema) -> bool:
    """Whether a table has such a column."""
    found = _gives_up.get(schema)
    if found is None:
        found = _gives_up[schema] = schema.dialect == DIALECT and any(
            column.type.kind == "timestamptz" and (column.source_type or "").upper() in NAMES
            for column in schema.columns
        )
    return found


def count_zones(change: Change, losses: list[str]) -> None:
    """Count a written change of a table with such a column.

    Args:
        change: what was written.
        losses: what is given up by it already; gets `types`.
    """
    has_row = change.after is not None or change.before is not None
    if has_row and "types" not in losses and gives_up_zones(change.schema):
        losses.append("types")
