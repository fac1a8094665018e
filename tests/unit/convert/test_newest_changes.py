"""The newest change of every table, from the report of a conversion to the gate; without Spark."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.unit.overview.made_lake import MadeLake
from waybill.convert.decode import SHOWN_TABLES, Decoding
from waybill.report import NEWEST, StageReport
from waybill.validate.batch import LOOKED_BACK, newest_changes


@pytest.fixture
def counted():
    """The report of a conversion with rows as its tasks count them."""

    def count(*rows) -> StageReport:
        decoding = object.__new__(Decoding)
        decoding._counted = lambda: rows
        report = StageReport("convert", "b-1")
        decoding._count_rows(report)
        return report

    return count


def row(rows: int, time: int | None, table: str, outcome="ok", kind=None, operation="insert"):
    return (rows, time, outcome, kind, operation, "shop", "", table)


def test_a_report_has_the_newest_change_of_every_table(counted):
    many = [row(1, number, f"t{number:04}") for number in range(SHOWN_TABLES + 50)]
    report = counted(*many)
    assert len(report.details["tables"]) == SHOWN_TABLES
    assert report.details[NEWEST] == {
        f"shop.t{number:04}": number for number in range(SHOWN_TABLES + 50)
    }


def test_it_is_that_of_accepted_changes_with_a_time(counted):
    report = counted(
        row(2, 5, "a"),
        row(1, 9, "a", operation="delete"),
        row(1, 99, "a", "refused", "shape"),
        row(1, 99, "a", "skipped", "ddl"),
        row(1, None, "b"),
        row(1, -(10**17), "c"),
    )
    assert report.details[NEWEST] == {"shop.a": 9, "shop.c": -(10**17)}


def test_the_gate_takes_that_of_all_batches_up_to_the_merge():
    lake = MadeLake()
    for number, micros in enumerate((3_000_000, 0, 1_000_000)):
        lake.newest_change = micros
        lake.run(f"b-{number}", 5)
    upto = lake.head_of("changes")
    lake.newest_change = 9_000_000
    lake.snapshot("b-4", 5)
    lake.convert("b-4")

    def of(snapshot: int | None, latest: float = 100.0) -> dict[str, int]:
        merge = SimpleNamespace(cursor={"changes": snapshot})
        return newest_changes(lake, SimpleNamespace(merge=merge), latest)

    assert of(upto) == {"shop.orders": 3_000_000}, "what came later is older, or has no time"
    assert of(lake.head_of("changes")) == {"shop.orders": 9_000_000}
    assert of(None) == {}, "nothing was decoded"
    later = of(lake.head_of("changes"), latest=8.0)
    assert later == {"shop.orders": 3_000_000}, "no clock is right that is ahead of ours"


def test_the_gate_looks_back_at_some_batches_only():
    lake = MadeLake()
    for number in range(LOOKED_BACK + 5):
        lake.newest_change = 1_000_000 if number else 9_000_000
        lake.run(f"b-{number}", 5)
    merge = SimpleNamespace(cursor={"changes": lake.head_of("changes")})
    found = newest_changes(lake, SimpleNamespace(merge=merge), 100.0)
    assert found == {"shop.orders": 1_000_000}
