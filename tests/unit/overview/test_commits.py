"""What is read of commits."""

from __future__ import annotations

from types import SimpleNamespace

from waybill.overview.commits import table_rows
from waybill.report import TABLE_ROWS


def commit(stage: str, rows: dict[str, int] | None):
    return SimpleNamespace(
        stage=stage, report={"details": {} if rows is None else {TABLE_ROWS: rows}}
    )


def test_rows_are_those_of_the_newest_verdict_that_let_a_table_through():
    verdicts = [
        commit("validate-failed", {"a": 99}),
        commit("gate-approved", None),
        commit("validate", {"a": 3}),
        commit("validate", None),
        commit("validate", {"a": 2, "b": 7}),
    ]
    assert table_rows(verdicts) == {"a": 3, "b": 7}
    assert table_rows([]) == {}
