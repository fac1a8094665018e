"""Which tables of a batch are plain: the newest image of each key decides its row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.merge.renamings import above

if TYPE_CHECKING:
    from collections.abc import Iterable

    from waybill.merge.table_plans import TablePlan
    from waybill.records import TableSchema


_RENAMED = "columns were renamed"
_GAVE_DEFAULT = "a statement gave rows a default"


def changed_in_place(plan: TablePlan) -> str | None:
    """What the batch does to rows that are there, whatever changes it brings; None if nothing."""
    if plan.retyped:
        return "columns are rewritten"
    if plan.renamings:
        return _RENAMED
    if plan.keys:
        return "rows are rebuilt"
    if plan.truncated or plan.reload is not None:
        return "it was emptied"
    if plan.defaults or plan.to_fill:
        return _GAVE_DEFAULT
    return None


def not_plain(plan: TablePlan, schemas: Iterable[TableSchema], ambiguous: str) -> str | None:
    """Why a table does not go from the log to data files in tasks; None if it does.

    Args:
        plan: what the batch means for it.
        schemas: the schemas of its changes.
        ambiguous: the migration's `order.ambiguous`.
    """
    if reason := changed_in_place(plan):
        return reason
    state, survey = plan.state, plan.survey
    names = set(state.names)
    if above(state.renamed, survey.lowest):
        return _RENAMED
    if survey.moves:
        return "rows got other keys"
    if any(d.column not in names for d in state.defaults):
        return _GAVE_DEFAULT
    if plan.late_columns:
        return "rows may lack a column that came late"
    if state.open_rows:
        return "rows rest on several changes"
    if ambiguous == "fail" and survey.places and len(state.places) > 1:
        return "positions in several partitions have to be compared"
    if any(not names <= set(schema.names) for schema in schemas):
        return "changes leave out columns"
    return None
