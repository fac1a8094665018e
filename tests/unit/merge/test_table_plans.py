"""What a batch's plan for one table tells of it."""

from __future__ import annotations

import pytest

from waybill.merge.columns import MergedColumn
from waybill.merge.increment_counts import TableSurvey
from waybill.merge.state import Default, TableState
from waybill.merge.table_plans import NAMED, TablePlan
from waybill.merge.upsert.plain import changed_in_place, not_plain


def with_columns(count: int) -> TableState:
    return TableState(columns=tuple(MergedColumn(f"c{n}", f"c{n}", "int") for n in range(count)))


def test_a_report_names_so_many_columns_and_counts_the_others() -> None:
    def told(count: int) -> list[str]:
        plan = TablePlan(TableSurvey(), TableState(), TableState(), was=with_columns(count))
        return plan.column_sentences

    gone = [f"c{n} is gone" for n in range(NAMED)]
    assert told(0) == []
    assert told(NAMED) == gone
    assert told(NAMED + 3) == [*gone, "and 3 more"]


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize(
    ("state", "more", "reason"),
    [
        (TableState(), {}, None),
        (TableState(truncated="1/5"), {}, "it was emptied"),
        (
            TableState(),
            {"defaults": [Default("1/5", "tier", "basic")]},
            "a statement gave rows a default",
        ),
        (TableState(), {"keys": frozenset({"1"})}, "rows are rebuilt"),
    ],
    ids=["nothing", "emptied", "default", "keys"],
)
def test_what_changes_a_table_at_once_is_the_reason_with_or_without_rows(
    rows: int, state: TableState, more, reason: str | None
) -> None:
    plan = TablePlan(TableSurvey(rows=rows), TableState(), state, **more)
    assert changed_in_place(plan) == reason
    assert not_plain(plan, [], "fail") == reason
