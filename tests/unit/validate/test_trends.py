"""Rules over time: off until there is history, then held against it; without Spark."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from waybill.validate.expectations import run_suites
from waybill.validate.result import sentence_of
from waybill.validate.suites import load_suite
from waybill.validate.trends import (
    NO_AGES,
    Ages,
    Past,
    Spoken,
    ages_of,
    past_of,
    trends_profile,
)


def topic(messages: int, refused_share: float = 0.0) -> dict:
    return {"topic": "shop", "messages": messages, "refused_share": refused_share}


def table(rows: int, name: str = "shop.orders") -> dict:
    return {"table": name, "rows": rows}


def past(count: int, messages=100, rows=1000, age=20.0, tables=("shop.orders",)) -> list[Past]:
    """Batches that differ a little, as batches do."""
    return [
        Past(
            {"shop": topic(messages + i % 3, 0.01 * (i % 2))},
            {name: table(rows + i, name) for name in tables},
            dict.fromkeys(tables, age),
        )
        for i in range(count)
    ]


def unmet(changes, tables, ages, before) -> dict[str, str]:
    """Sentences of the rules of the suite that are not met, by the column that they look at."""
    profile = trends_profile(changes, tables, Ages(ages, {}), before)
    checks = run_suites([load_suite("trends")], {"trends": profile}, {})
    assert [check.error for check in checks] == [None] * 5
    assert {check.severity for check in checks} == {"warning"}
    return {c.arguments["column"]: sentence_of(c) for c in checks if not c.success}


def test_a_first_batch_has_nothing_to_be_compared_with():
    assert unmet([topic(5, 0.9)], [table(3)], {"shop.orders": 1e9}, []) == {}
    assert unmet([], [], {}, []) == {}


def test_a_batch_like_those_before_meets_every_rule():
    assert unmet([topic(104)], [table(1010)], {"shop.orders": 25.0}, past(30)) == {}


@pytest.mark.parametrize(
    ("changes", "tables", "age", "column"),
    [
        ([topic(300)], [table(1010)], 20.0, "messages_off"),
        ([topic(20)], [table(1010)], 20.0, "messages_off"),
        ([topic(100, 0.04)], [table(1010)], 20.0, "refused_rise"),
        ([topic(100)], [table(500)], 20.0, "rows_fell"),
        ([topic(100)], [table(1010)], 7200.0, "age_times"),
    ],
)
def test_what_differs_is_reported(changes, tables, age, column):
    assert unmet(changes, tables, {"shop.orders": age}, past(10)).keys() == {column}
    few = unmet(changes, tables, {"shop.orders": age}, past(3))
    assert few.keys() == ({column} if column == "rows_fell" else set())


def test_counts_that_never_differed_leave_room_for_one_more():
    same = [Past({"shop": topic(100)}, {}, {}) for _ in range(10)]
    assert unmet([topic(101)], [], {}, same) == {}
    assert unmet([topic(161)], [], {}, same).keys() == {"messages_off"}


def test_a_table_that_always_changed_and_does_not_any_more():
    both = past(12, tables=("shop.orders", "shop.notes"))
    found = []
    for quiet in range(1, 4):
        before = both + past(quiet - 1)
        found.append(unmet([topic(100)], [table(1010)], {}, before))
    assert [trend.keys() for trend in found[:2]] == [set(), set()]
    assert found[2] == {
        "batches_without": "A table that every batch changed is still changed in at least one of "
        "three batches (found shop.notes: 3)"
    }
    # Batches that bring nothing at all say nothing about a table, and a table that came and went
    # is not missed.
    empty = [Past({"shop": topic(0)}, {}, {})] * 5
    assert "batches_without" not in unmet([topic(0)], [], {}, both + empty)
    now_and_then = past(12) + past(1, tables=("shop.notes",)) + past(9)
    assert unmet([topic(100)], [table(1010)], {}, now_and_then) == {}


def test_ages_are_those_of_tables_whose_sources_tell_the_time():
    now = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    merged = {
        "sizes": {"bytes": 3},
        "a": {"complete up to": {"sequence": "1", "time": "2026-01-01T00:00:00.5Z"}},
        "b": {"complete up to": {"sequence": "1", "time": None}},
        "c": {"complete up to": {"sequence": None, "time": "2026-01-01T00:09:00Z"}},
    }
    micros = int(now.timestamp()) * 1_000_000
    newest = {"a": micros - 1_500_000, "c": micros + 60_000_000, "d": -(10**17), "e": 10**18}
    ages = ages_of(newest, merged, now)
    assert ages.complete == {"a": 59.5, "c": 0.0}
    assert ages.newest.keys() == newest.keys()
    assert (ages.newest["a"], ages.newest["c"], ages.newest["e"]) == (1.5, 0.0, 0.0)
    assert ages.newest["d"] > 10**11, "a time that Python has no date for"


def test_freshness_is_the_age_of_the_newest_change():
    """One partition that stands still holds back up to when a table is complete, and no more."""
    stands_still = Ages({"shop.orders": 20.0}, {"shop.orders": 9e6})
    profile = trends_profile([topic(100)], [table(1010)], stands_still, past(10))
    row = profile[-1]
    assert (row["age"], row["age_usual"], row["age_times"]) == (20.0, 20.0, 1.0)
    assert row["complete_age"] == 9e6
    old = Ages({"shop.orders": 9e6}, {"shop.orders": 9e6})
    row = trends_profile([topic(100)], [table(1010)], old, past(10))[-1]
    assert row["age_times"] == 9e6 / 600
    (rule,) = [
        item
        for item in load_suite("trends").expectations
        if item["kwargs"]["column"] == "age_times"
    ]
    assert rule["description"].startswith("The newest change of a table is at most three")


def test_a_table_that_is_missed_has_the_age_of_its_last_change():
    before = past(12, tables=("shop.orders", "shop.notes")) + past(2)
    ages = Ages({"shop.orders": 20.0, "shop.notes": 86_400.0, "long.gone": 9e9}, {})
    found = trends_profile([topic(100)], [table(1010)], ages, before)
    assert {row["name"]: row["age"] for row in found[1:]} == {
        "shop.notes": 86_400.0,
        "shop.orders": 20.0,
    }


def test_ages_of_results_that_measured_another_one_are_not_compared():
    """What was kept before `complete_age` was beside it is the age that this has now."""
    rows = trends_profile([topic(100)], [table(3)], Ages({"shop.orders": 5.0}, {}), [])
    old = [{k: v for k, v in row.items() if k != "complete_age"} for row in rows]
    verdicts = [
        Spoken("passed", "", {"profiles": {"changes": [], "tables": [], "trends": trends}})
        for trends in (rows, old)
    ]
    assert [batch.ages for batch in past_of(verdicts)] == [{"shop.orders": 5.0}, {}]
    nothing = {"profiles": {"changes": [topic(3)], "tables": []}}
    assert past_of([Spoken("passed", "", nothing)])[0].ages == {}
    assert trends_profile([topic(100)], [table(3)], NO_AGES, [])[-1]["age"] is None
