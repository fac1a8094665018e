"""The account of a stage must add up."""

from __future__ import annotations

import json

import pytest

from waybill.errors import ReconciliationError
from waybill.report import StageReport, Waybill, without_rows


def report(**figures: object) -> StageReport:
    return StageReport(stage="convert", batch="b1", **figures)  # type: ignore[arg-type]


def test_rows_that_add_up_pass() -> None:
    report(
        rows_in=10,
        extra_in={"further rows": 2},
        rows_out=7,
        refused={"json": 2},
        skipped={"tombstone": 1},
        superseded=1,
        waiting=1,
    ).reconcile()


def test_a_lost_row_is_named_with_both_sides() -> None:
    with pytest.raises(ReconciliationError, match=r"10 rows in .* 9 accounted for"):
        report(rows_in=10, rows_out=9).reconcile()


def test_a_waybill_reads_back() -> None:
    waybill = Waybill("shop", "b1", [report(rows_in=1, rows_out=1, cursor={"to": "5"})])
    data = json.loads(waybill.to_json())
    assert StageReport.from_dict(data["stages"][0]) == waybill.stages[0]
    assert waybill.stage("convert") is waybill.stages[0]
    assert waybill.stage("merge") is None


def test_ids_of_snapshots_are_texts_for_other_programs():
    """Readers of JSON that have floats alone make 2574707495988812000 of the first."""
    report = StageReport("merge", "b1", rows_in=2, rows_out=2)
    report.snapshots = {"lake.m.t": 2574707495988811973}
    report.cursor = {"after": None, "changes": {"upto": 12}, "branches": {"t": "m"}}
    data = report.to_json_safe()
    assert data["snapshots"] == {"lake.m.t": "2574707495988811973"}
    assert data["cursor"] == {
        "after": None,
        "changes": {"upto": "12"},
        "branches": {"t": "m"},
    }
    assert data["rows_in"] == 2
    assert StageReport.from_dict(data).snapshots == report.snapshots


def test_offsets_stay_numbers_where_they_are_exact():
    report = StageReport("snapshot", "b1")
    report.cursor = {"topics": {"shop": {"0": 1500}}, "changed": 2**60}
    assert report.to_json_safe()["cursor"] == {
        "topics": {"shop": {"0": 1500}},
        "changed": str(2**60),
    }


NAMED = ' (12 rows: {"id":"7"}: a) (b, {"id":"8 (2 rows: x)"}:\n, {"id":"9"} and 9 more)'


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        (f"No e-mail is missing{NAMED}", "No e-mail is missing (12 rows)"),
        (f"warning: No e-mail is missing{NAMED}", "warning: No e-mail is missing (12 rows)"),
        ("Totals are positive (1 row: 7: -1)", "Totals are positive (1 row)"),
        ("Totals are positive (12,345 rows: 7)", "Totals are positive (12,345 rows)"),
        ("Totals are positive (12 rows)", None),
        ("The share is low (found shop: 0.4)", None),
        ("No more than few rows: (found 4)", None),
        ("", None),
    ],
)
def test_rows_that_earlier_versions_named_are_counted(sentence: str, shown: str | None) -> None:
    assert without_rows(sentence) == (sentence if shown is None else shown)
