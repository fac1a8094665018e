"""Rows are kept in memory for a suite that reads them more than once, and for no other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql.classic.dataframe import DataFrame

from waybill.lake.local_rows import local_rows
from waybill.validate import row_suites
from waybill.validate.row_suites import NAME, run_row_suite
from waybill.validate.suites import Suite, load_suite

pytestmark = pytest.mark.spark

NOT_NULL = ("expect_column_values_to_not_be_null", {"column": "id"})
POSITIVE = ("expect_column_values_to_be_between", {"column": "id", "min_value": 1})
ONE_OF = ("expect_column_values_to_be_in_set", {"column": "word", "value_set": ["a", "bb"]})
SHORT = ("expect_column_value_lengths_to_be_between", {"column": "word", "max_value": 2})
UNIQUE = ("expect_column_values_to_be_unique", {"column": "id"})
SOME = ("expect_column_values_to_not_be_null", {"column": "id", "row_condition": "id > 1"})
QUERY = (
    "unexpected_rows_expectation",
    {"unexpected_rows_query": "SELECT * FROM {batch} WHERE id = 9"},
)


def suite_of(folder, *rules: tuple[str, dict[str, Any]]) -> Suite:
    expectations = []
    for type_, given in rules:
        more = {"condition_parser": "spark"} if "row_condition" in given else {}
        expectations.append({"type": type_, "kwargs": {**given, **more}})
    content = {"name": "own", "meta": {"rows": "shop.t"}, "expectations": expectations}
    file = folder / "own.json"
    file.write_text(json.dumps(content))
    return load_suite(str(file))


@pytest.fixture
def rows(spark):
    return local_rows(
        spark, [(1, "a", "k1"), (2, "bb", "k2")], f"id int, word string, {NAME} string"
    )


@pytest.fixture
def levels(monkeypatch):
    """How rows were kept when Great Expectations was given them, and what became of that."""
    seen: list[str] = []
    unpatched, persist, unpersist = row_suites._checked, DataFrame.persist, DataFrame.unpersist

    def checked(context, suite, numbered, frame):
        level = frame.storageLevel
        seen.append("in memory" if level.useMemory else "read again")
        return unpatched(context, suite, numbered, frame)

    def persisted(frame, *level):
        seen.append("kept")
        return persist(frame, *level)

    def unpersisted(frame, *blocking):
        seen.append("let go")
        return unpersist(frame, *blocking)

    monkeypatch.setattr(row_suites, "_checked", checked)
    monkeypatch.setattr(DataFrame, "persist", persisted)
    monkeypatch.setattr(DataFrame, "unpersist", unpersisted)
    return seen


@pytest.mark.parametrize(
    "rules",
    [[NOT_NULL], [NOT_NULL, POSITIVE, ONE_OF], [SOME, (SOME[0], {**SOME[1], "column": "word"})]],
)
def test_what_one_pass_reads_is_not_kept(levels, rows, tmp_path, rules):
    """However many rules: those that look at one value at a time are one aggregate."""
    judged = run_row_suite(suite_of(tmp_path, *rules), rows, kept=True)
    assert all(check.success for check in judged.checks)
    assert levels == ["read again"]


@pytest.mark.parametrize(
    "more", [[SOME], [UNIQUE], [QUERY], [SHORT], [UNIQUE, QUERY]], ids=lambda more: more[0][0]
)
def test_what_is_read_more_than_once_is_kept_and_let_go(levels, rows, tmp_path, more):
    judged = run_row_suite(suite_of(tmp_path, NOT_NULL, *more), rows, kept=True)
    assert all(check.success for check in judged.checks)
    assert levels == ["kept", "in memory", "let go"]
    assert not rows.storageLevel.useMemory


def test_a_table_that_is_too_large_is_read_again(levels, rows, tmp_path):
    """Of it only the columns that are needed are read; to keep it would take all of them."""
    run_row_suite(suite_of(tmp_path, NOT_NULL, UNIQUE, QUERY), rows, kept=False)
    assert levels == ["read again"]


def test_rows_are_let_go_when_a_suite_breaks(levels, rows, tmp_path, monkeypatch):
    def broken(*_):
        raise RuntimeError("Spark has ended")

    monkeypatch.setattr(row_suites, "_checked", broken)
    with pytest.raises(RuntimeError, match="Spark has ended"):
        run_row_suite(suite_of(tmp_path, NOT_NULL, UNIQUE), rows, kept=True)
    assert levels == ["kept", "let go"]
    assert not rows.storageLevel.useMemory


def test_lengths_take_a_second_pass(rows, tmp_path):
    """What the rule goes by: Great Expectations computes them before it counts."""
    one = run_row_suite(suite_of(tmp_path, NOT_NULL, ONE_OF), rows, kept=False).cost.jobs
    assert run_row_suite(suite_of(tmp_path, NOT_NULL), rows, kept=False).cost.jobs == one
    assert run_row_suite(suite_of(tmp_path, NOT_NULL, SHORT), rows, kept=False).cost.jobs > one
