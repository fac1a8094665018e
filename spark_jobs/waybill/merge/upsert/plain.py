"""Which tables of a batch are plain: the newest image of each key decides its row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.merge.renamings import above

if TYPE_CHECKING:
    from collections.abc import Iterable

    from waybill.merge.table_plans import TablePlan
    from waybill.records import TableSchema


def not_plain(plan: TablePlan, schemas: Iterable[TableSchema], ambiguous: str) -> str | None:
    """Why a table does not go from the log to data files in tasks; None if it does.

    Args:
        plan: what the batch means for it.
        schemas: the schemas of its changes.
        ambiguous: the migration's `order.ambiguous`.
    """
    state, survey = plan.state, plan.survey
    names = set(state.names)
    if plan.retyped:
        return "columns are rewritten"
    if plan.renamings or above(state.renamed, survey.lowest):
        return "columns were renamed"
    if survey.moves or plan.keys:
        return "rows are rebuilt" if plan.keys else "rows got other keys"
    if plan.truncated or plan.reload is not None:
        return "it was emptied"
    if plan.defaults or plan.to_fill or any(d.column not in names for d in state.defaults):
        return "a statement gave rows a default"
    if plan.late_columns:
        return "rows may lack a column that came late"
    if state.open_rows:
        return "rows rest on several changes"
    if ambiguous == "fail" and survey.places and len(state.places) > 1:
        return "positions in several partitions have to be compared"
    if any(not names <= set(schema.names) for schema in schemas):
        return "changes leave out columns"
    return None
