"""What is said of tables that were not verified, and how a verification ends."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from tests.unit.verify.test_history import SPEC
from waybill import jobs
from waybill.errors import Code, ConfigurationError, DifferenceError, UnreachableError
from waybill.verify.newest import FAILED, SKIPPED, VERIFIED, Outcome
from waybill.verify.outcomes import by_outcome, check_equal, outcome_sentence, summary
from waybill.verify.results import TableResult


def result(
    table: str, outcome: Outcome, sentence: str = "", method: str = "full", differing: int = 0
) -> TableResult:
    facts = (table, method, 0, 0, differing, 0, None, None, "", None, sentence, [], {}, None)
    return TableResult(*facts, None, outcome)


def test_tables_are_counted_by_name():
    results = [
        result("shop.a", VERIFIED, method="changed"),
        result("shop.a", VERIFIED, method="counts"),
        result("shop.b", SKIPPED, "by intent"),
        result("shop.c", VERIFIED, method="changed"),
        result("shop.c", FAILED, "permission denied", method="counts"),
    ]
    assert by_outcome(results) == {VERIFIED: ["shop.a"], SKIPPED: ["shop.b"], FAILED: ["shop.c"]}
    said = "1 table verified, 1 skipped (shop.b), 1 not verified (shop.c)"
    assert outcome_sentence(results) == said
    assert summary(results[2]) == "skipped: by intent"
    check_equal(SPEC, results[:3])


def test_an_error_names_a_few_and_counts_the_rest():
    failed = [result(f"shop.t{n}", FAILED, f"reason {n}") for n in range(8)]
    with pytest.raises(ConfigurationError) as error:
        check_equal(SPEC, [result("shop.a", VERIFIED), *failed])
    assert (error.value.code, error.value.exit_code) == (Code.DATABASE_TABLE, 2)
    assert "8 of 9 tables were not verified (shop.t0: reason 0; " in str(error.value)
    assert "shop.t4: reason 4; and 3 more)" in str(error.value)


def test_a_difference_counts_for_more_than_a_table_that_failed():
    results = [
        result("shop.a", VERIFIED, method="changed", differing=2),
        result("shop.a", VERIFIED, method="counts", differing=1),
        result("shop.b", FAILED, "permission denied"),
    ]
    with pytest.raises(DifferenceError) as error:
        check_equal(SPEC, results)
    assert error.value.exit_code == 3
    said = str(error.value)
    assert "(shop.a by 2)" in said, "a row that one side lacks shows in the number of rows as well"
    assert "1 of 2 tables was not verified (shop.b: permission denied)" in said
    assert "`waybill run FILE --reload shop.a --keys differing` rebuilds these rows" in said


def test_rows_whose_keys_nobody_knows_are_repaired_with_their_table():
    found = result("shop.a", VERIFIED, differing=2)._replace(by_key=False)
    assert found.figures.keys().isdisjoint({"by_key", "one_text"})
    with pytest.raises(DifferenceError) as error:
        check_equal(SPEC, [found])
    assert "`waybill run FILE --reload shop.a` rebuilds the table" in str(error.value)


def test_a_number_that_differs_counts_where_no_row_is_known():
    results = [
        result("shop.a", VERIFIED, method="changed"),
        result("shop.a", VERIFIED, method="counts", differing=3),
        result("shop.b", VERIFIED, method="changed", differing=1),
    ]
    with pytest.raises(
        DifferenceError, match=r"\(shop.a by 3 in the number of rows, shop.b by 1\)"
    ):
        check_equal(SPEC, results)


def test_what_may_pass_is_tried_again_if_nothing_else_is_wrong():
    passing = result("shop.a", FAILED, "deadlock found")._replace(transient=True)
    lasting = result("shop.b", FAILED, "permission denied")
    right = result("shop.c", VERIFIED)
    with pytest.raises(UnreachableError, match=r"1 of 2 tables was not verified \(shop.a: dead"):
        check_equal(SPEC, [passing, right])
    with pytest.raises(ConfigurationError, match="2 of 3 tables were not verified"):
        check_equal(SPEC, [passing, lasting, right])
    with pytest.raises(DifferenceError):
        check_equal(SPEC, [passing, right._replace(differing=1)])


def test_the_report_stays_beside_what_is_tried_again(monkeypatch):
    results = [result("shop.a", FAILED, "deadlock")._replace(transient=True)]
    monkeypatch.setattr("waybill.verify.run.run_verify", lambda *_, **__: results)
    monkeypatch.setattr(jobs, "_session", lambda *_: nullcontext())
    monkeypatch.setattr(jobs.Lake, "open", lambda *_: None)
    found = jobs.verify_tables(SPEC)
    assert (found["error"]["transient"], found["error"]["code"]) == (True, "WB-8251")
    assert found["report"]["outcomes"][FAILED] == ["shop.a"]
