"""What the source has done to the columns of a table that a reload rebuilds.

The table begins without columns, so nothing of it shows as a change while it is made. Without this
a reload would take what the migration lets a person decide about. What only the mapping or a
declaration has changed, a person has decided already: all messages have it, the oldest too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.merge.column_changes import TakenChanges, change_class
from waybill.merge.columns import lake_type
from waybill.spec.decisions import RETYPE
from waybill.types import with_digits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from waybill.merge.columns import MergedColumn
    from waybill.merge.state import TableState
    from waybill.records import TableSchema
    from waybill.spec.decisions import ColumnDecision
    from waybill.types import LogicalType


def ask_again(
    name: str,
    was: TableState | None,
    now: TableState,
    schemas: Sequence[TableSchema],
    declared: Mapping[str, LogicalType],
    decision: ColumnDecision,
) -> None:
    """Ask about what the reload brings of the source that the table did not have.

    Args:
        name: qualified name of the table.
        was: what was known of it; None where it is not rebuilt.
        now: what is known of it, with the columns of the reload.
        schemas: how the changes of the reload describe it.
        declared: types that the migration declares; they are a decision of their own.
        decision: what the migration has decided.

    Raises:
        SchemaChangeError: a person has to decide about a change.
    """
    if was is None or not was.columns:
        return
    asked = TakenChanges(name, decision, dict(was.stated))
    for column in now.columns:
        have = was.column(column.name)
        if have is None:
            if any(column.name not in schema.index for schema in schemas):
                asked.check_add(column.name)
        elif column.name not in declared:
            _ask_about_types(have, column.type, _stated(column.name, schemas), asked)


def _stated(name: str, schemas: Sequence[TableSchema]) -> dict[str, LogicalType]:
    """The types that messages state of a column, by what they are in the lake."""
    columns = [schema.columns[schema.index[name]] for schema in schemas if name in schema.index]
    logical = [with_digits(column.type, column.source_type) for column in columns]
    return {lake_type(one): one for one in logical if one.kind != "unknown"}


def _ask_about_types(
    have: MergedColumn, becomes: str, stated: Mapping[str, LogicalType], asked: TakenChanges
) -> None:
    """Ask about types that came beside the one that a column had.

    If none of the messages states that one, the mapping makes another of all of them.
    """
    for want, logical in stated.items() if have.type in stated else ():
        if want in asked.stated.get(have.name, ()):
            continue
        if change_class(have, have._replace(type=want)) == RETYPE:
            asked.rewritten(have, logical, want, declared=False, in_use=True)
        else:
            asked.retype(have, want, becomes)
