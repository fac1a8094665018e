"""Rows that are made of rows, column by column."""

from __future__ import annotations

from types import SimpleNamespace

from waybill.values.row_functions import AS_IT_IS, Step, one_row, picked, two_rows

CALLS: list[str] = []


def _call(value: str) -> str:
    CALLS.append(value)
    return value.upper()


STEPS = [
    AS_IT_IS,
    Step(("if {t}({v}): {v} = {c}({v})",), _call, str.islower),
    Step(("if {v} is not None:", "    {v} = seen({v})")),
]


def _row(*values: object) -> SimpleNamespace:
    return SimpleNamespace(**{f"f{i}": value for i, value in enumerate(values)})


def test_a_row_is_made_of_what_its_columns_become():
    made = one_row(STEPS, lambda *values: values, {"seen": len})
    assert made(_row("x", "y", None)) == ("x", "Y", None)
    assert made(_row("x", "Y", "zzz")) == ("x", "Y", 3)


def test_a_value_that_did_not_change_is_made_once():
    made = two_rows(STEPS, lambda *values: values, {"seen": len})
    CALLS.clear()
    assert made(_row(1, "a", "b"), _row(2, "a", None)) == ((1, "A", 1), (2, "A", None))
    assert CALLS == ["a"]
    assert made(_row(1, "a", "b"), _row(2, "c", "b")) == ((1, "A", 1), (2, "C", 1))
    assert CALLS == ["a", "c", "a"]


def test_a_table_without_columns_has_rows_too():
    assert one_row([], lambda *values: values)(_row()) == ()
    assert two_rows([], lambda *values: values)(_row(), _row()) == ((), ())


def test_fields_are_picked_in_the_order_of_their_names():
    pick = picked(lambda *values: values, ["f2", "f0"], "table")
    assert pick(_row(1, 2, 3), "t") == (3, 1, "t")
