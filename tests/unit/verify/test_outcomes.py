"""What is said of tables that were not verified, and how a verification ends."""

from __future__ import annotations

import pytest

from tests.unit.verify.test_history import SPEC
from waybill.errors import Code, ConfigurationError, DifferenceError
from waybill.verify.newest import FAILED, SKIPPED, VERIFIED, Outcome
from waybill.verify.results import TableResult
from waybill.verify.run import by_outcome, check_equal, outcome_sentence, summary


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
    assert "(shop.a by 2, shop.a by 1 in the number of rows)" in said
    assert "1 of 2 tables was not verified (shop.b: permission denied)" in said
