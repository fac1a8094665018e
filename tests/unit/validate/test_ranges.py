"""Ranges that are checked without Great Expectations come out as they do with it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from tests.unit.cli.command_line import PROJECT
from waybill.cli.check_suites import _nothing
from waybill.validate.expectations import run_suites
from waybill.validate.ranges import TYPE, check_ranges
from waybill.validate.result import PROFILES, Checked
from waybill.validate.suites import Over, Suite, load_suite

PARAMETERS = {"max_refused_share": 0.05, "text": "much"}


def suite_of(*expectations: dict[str, Any]) -> Suite:
    return Suite("mine", Over("profile", "tables"), expectations)


def between(**kwargs: Any) -> dict[str, Any]:
    return {"type": TYPE, "kwargs": {"column": "rows", **kwargs}}


def rows_of(*values: Any) -> list[dict[str, Any]]:
    return [{"table": f"shop.t{n}", "rows": value, "other": "x"} for n, value in enumerate(values)]


def plain(checks: list[Checked]) -> list[Checked]:
    """With what was found in one spelling: pandas makes floats of whole numbers beside nulls."""
    return [
        replace(one, observed=[{**seen, "value": float(seen["value"])} for seen in one.observed])
        for one in checks
    ]


def test_the_product_s_own_suites():
    for name in PROFILES:
        suite, good = load_suite(name), _nothing(name)
        bad = {key: value if isinstance(value, str) else 7e9 for key, value in good.items()}
        for rows in ([good], [bad], [good, bad, good]):
            checks = check_ranges(suite, rows, PARAMETERS)
            assert checks is not None, "waybill check waits for Great Expectations"
            assert plain(checks) == plain(run_suites([suite], {name: rows}, PARAMETERS)), name
        assert any(not check.success for check in check_ranges(suite, [bad], PARAMETERS) or [])


def test_bounds_are_inclusive_and_nulls_are_left_out():
    expectations = [
        between(min_value=2, max_value=3),
        between(min_value=2.5),
        {**between(max_value={"$PARAMETER": "max_refused_share"}), "severity": "warning"},
        {
            **between(min_value=-1, max_value=-1),
            "description": "It is.",
            "meta": {"look": "there", "waivable": False},
        },
    ]
    suite = suite_of(*expectations)
    for rows in (rows_of(2, 3, None), rows_of(1.9, 0, 2.5), rows_of(None), rows_of(-1, 10**12)):
        checks = check_ranges(suite, rows, PARAMETERS)
        assert checks is not None
        assert plain(checks) == plain(run_suites([suite], {"tables": rows}, PARAMETERS)), rows


@pytest.mark.parametrize(
    "expectation",
    [
        {"type": "expect_the_moon", "kwargs": {"column": "rows", "min_value": 1}},
        {"type": TYPE},
        {"type": TYPE, "kwargs": {"min_value": 1}},
        {**between(min_value=1), "surprise": 1},
        between(),
        between(min_value=1, mostly=0.5),
        between(min_value=1, strict_min=True),
        between(min_value="1"),
        between(min_value=True),
        between(max_value=None),
        between(min_value=3, max_value=2),
        between(min_value={"$PARAMETER": "nobody"}),
        between(min_value={"$PARAMETER": "text"}),
        {"type": TYPE, "kwargs": {"column": "other", "min_value": 1}},
        {"type": TYPE, "kwargs": {"column": "nowhere", "min_value": 1}},
        {"type": TYPE, "kwargs": {"column": 7, "min_value": 1}},
        {**between(min_value=1), "description": ["line 1", "line 2"]},
        between(min_value={"$PARAMETER": ["a"]}),
        between(max_value=2**53 + 1),
        between(max_value=10**400),
    ],
    ids=json.dumps,
)
def test_what_only_great_expectations_can_tell_is_left_to_it(expectation):
    good = between(min_value=1)
    assert check_ranges(suite_of(good), rows_of(2), PARAMETERS) is not None
    assert check_ranges(suite_of(good, expectation), rows_of(2), PARAMETERS) is None


@pytest.mark.parametrize("value", ["2", True, nan, inf, [2]])
def test_so_is_a_value_that_is_no_number(value):
    suite = suite_of(between(min_value=1))
    assert check_ranges(suite, rows_of(2, value), PARAMETERS) is None
    assert check_ranges(suite, [], PARAMETERS) is None


LOADED = """
import sys
from waybill.cli import main
try:
    main(["check", "migrations/shop.yaml"])
finally:
    print("great_expectations" in sys.modules)
"""


def test_a_check_of_a_migration_loads_no_great_expectations(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", LOADED],
        cwd=PROJECT,
        env={"PYTHONPATH": str(PROJECT / "spark_jobs"), "WAYBILL_DEMO": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "ready to run" in done.stdout
    assert done.stdout.splitlines()[-1] == "False"
