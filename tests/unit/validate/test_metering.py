"""What a piece of the gate's work takes, and what the report says of it; without Spark."""

from __future__ import annotations

import re
import time
from html import unescape
from types import SimpleNamespace

import pytest

from tests.unit.validate.test_decisions import kept
from tests.unit.validate.test_page import HOSTILE, checked, result
from waybill.validate.metering import Meter, metered
from waybill.validate.page import gate_page
from waybill.validate.result import Cost, GateResult, SharedCost
from waybill.validate.suite_runs import SuiteInput, run_every
from waybill.validate.suites import load_suites


class Context:
    """A context of Spark that runs jobs on demand, and knows which tags they had."""

    def __init__(self) -> None:
        self.tags: set[str] = set()
        self.jobs: list[set[str]] = []
        of_tag = SimpleNamespace(getJobIdsForTag=self._with_tag)
        self._jsc = SimpleNamespace(sc=lambda: SimpleNamespace(statusTracker=lambda: of_tag))

    def addJobTag(self, tag: str) -> None:
        self.tags.add(tag)

    def removeJobTag(self, tag: str) -> None:
        self.tags.remove(tag)

    def _with_tag(self, tag: str) -> list[int]:
        return [number for number, tags in enumerate(self.jobs) if tag in tags]

    def run(self) -> None:
        self.jobs.append(set(self.tags))


@pytest.fixture
def spark():
    return SimpleNamespace(sparkContext=Context())


def test_a_block_has_its_own_time_and_jobs(spark):
    run = spark.sparkContext.run
    run()
    with metered(spark) as outer:
        run()
        with metered(spark) as inner:
            run()
            time.sleep(0.02)
    run()
    assert (outer.jobs, inner.jobs) == (2, 1)
    assert 0.02 <= inner.seconds <= outer.seconds
    assert spark.sparkContext.tags == set()


def test_what_a_block_raises_is_what_is_raised(spark):
    spark.sparkContext._jsc = None  # Spark has ended
    with pytest.raises(ValueError, match="the cause"), metered(spark):
        raise ValueError("the cause")
    assert spark.sparkContext.tags == set()


def test_every_suite_on_profiles_has_a_line_and_what_they_share_is_not_divided(spark, tmp_path):
    own = tmp_path / "own.json"
    rule = '{"type": "expect_table_row_count_to_equal", "kwargs": {"value": 1}}'
    own.write_text(f'{{"name": "own", "meta": {{"profile": "tables"}}, "expectations": [{rule}]}}')
    suites = load_suites(["tables", "trends", str(own)])
    figures = ("rows", "tombstones", "written", "duplicate_keys", "null_keys", "tombstones_as_rows")
    tables = [{"table": name, **dict.fromkeys(figures, 0)} for name in ("a", "b")]
    made = {"changes": Meter(1.0, 4), "tables": Meter(2.5, 3), "trends": Meter(0.25, 0)}
    spec = SimpleNamespace(quality=SimpleNamespace(max_refused_share=0.05))
    context = SimpleNamespace(spark=spark)
    nothing = SuiteInput(None, None, [])  # suites on profiles look at nothing else
    ran = run_every(spec, context, suites, {"tables": tables, "trends": []}, made, nothing)
    assert [check.error for check in ran.checks] == [None] * len(ran.checks)
    assert [(cost.suite, cost.over, cost.rows, cost.jobs) for cost in ran.costs] == [
        ("tables", "the profile tables", 2, 0),
        ("trends", "the profile trends", 0, 0),
        ("own", "the profile tables", 2, 0),
    ]
    loading, *profiles = ran.shared
    assert (loading.what, loading.suites) == (
        "loading Great Expectations",
        ["tables", "trends", "own"],
    )
    assert profiles == [
        SharedCost("making the profile tables", ["tables", "own"], 2, 2.5, 3),
        SharedCost("making the profile trends", ["trends"], 0, 0.25, 0),
    ], "one that no suite looks at is part of the account"


def test_the_report_states_the_cost_of_every_suite():
    costs = [
        Cost("tables", "the profile tables", 2, 0.04, 0),
        Cost(HOSTILE, "written rows of shop.orders", 12345, 1.5, 3),
    ]
    shared = [SharedCost("making the profile tables", ["tables", HOSTILE], 2, 2.5, 7)]
    found = result(checks=[checked(True)], costs=costs, shared=shared)
    assert kept(found) == found
    page = gate_page(kept(found))
    text = " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())
    assert "tables the profile tables 2 0 0.04" in text
    assert "written rows of shop.orders 12 345 3 1.50" in text
    assert f"making the profile tables tables, {HOSTILE}".split("\x1b")[0] in text
    assert "2 7 2.50" in text
    assert "<script" not in page


def test_a_result_of_before_has_no_such_lines():
    data = result().to_dict()
    del data["shared"]
    assert GateResult.from_dict(data).shared == []
    assert "Shared work, done once" not in gate_page(GateResult.from_dict(data))
