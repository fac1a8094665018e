"""Names that columns had and have: what they are read as, and where that cannot be told."""

from __future__ import annotations

import pytest

from waybill.lake.future_columns import GONE, left_behind, shown_names
from waybill.merge.change_facts import changes_of
from waybill.merge.renamings import Renaming, above, is_unclear, present, present_schema
from waybill.order import order_key
from waybill.overview.row_changes import key_test
from waybill.records import Column, intern_schema


def at(sequence: int) -> str:
    return order_key((sequence,), 1, 0, sequence, 0)


def renamed(*names: dict[str, str]) -> tuple[Renaming, ...]:
    return tuple(Renaming(at(10 * i), one) for i, one in enumerate(names, start=1))


TO_B, BACK = {"a": "b"}, {"b": "a"}
SWAP = {"a": "b", "b": "a"}


def test_a_change_has_the_names_of_its_place():
    every = renamed(TO_B, {"b": "c"})
    assert [present("a", above(every, at(n))) for n in (5, 15, 25)] == ["c", "a", "a"]
    assert [present("b", above(every, at(n))) for n in (5, 15, 25)] == ["c", "c", "b"]
    assert present("x", every) == "x"


@pytest.mark.parametrize(
    ("names", "every", "columns", "unclear"),
    [
        ("a", renamed(TO_B), "b", False),
        ("b", renamed(TO_B), "b", False),
        # The name was given to a new column: the row may have either.
        ("a", renamed(TO_B), "ab", True),
        ("ab", renamed(TO_B), "ab", False),
        ("ab", renamed(SWAP), "ab", True),
        ("a", renamed(TO_B, BACK), "a", False),
        ("b", renamed(TO_B, BACK), "a", False),
        ("n", renamed(SWAP), "abn", False),
    ],
)
def test_full_rows_that_may_have_been_read_before_or_after(names, every, columns, unclear):
    assert is_unclear(list(names), every, list(columns)) is unclear


def test_a_schema_with_the_names_of_now():
    columns = tuple(Column(name) for name in "an")
    schema = intern_schema("shop", None, "t", columns, ("a",), "mysql")
    now = present_schema(schema, renamed(TO_B))
    assert (now.names, now.key, now.qualified_name) == (("b", "n"), ("b",), "shop.t")
    assert present_schema(schema, renamed({"x": "y"})) is schema
    assert present_schema(schema, renamed({"a": "n"})) is None


@pytest.mark.parametrize(
    ("names", "becomes", "shown"),
    [
        ("kan", {"a": "b"}, {"k": "k", "b": "a", "n": "n"}),
        ("kab", {"a": "b", "b": "a"}, {"k": "k", "b": "a", "a": "b"}),
        # One takes the place of another, which goes.
        ("kanx", {"x": "a"}, {"k": "k", "a": "x", "n": "n"}),
        ("kabn", {"a": "b"}, {"k": "k", "b": "a", "n": "n"}),
        # A new column has the name that becomes free, and one goes that got another type too.
        ("kanx", {"a": "b", "x": "a"}, {"k": "k", "b": "a", "n": "n", "a": "x"}),
        ("kanx", {"a": GONE, "x": "b"}, {"k": "k", "n": "n", "b": "x"}),
        ("kan", {}, {"k": "k", "a": "a", "n": "n"}),
    ],
)
def test_the_columns_of_a_branch_once_it_is_visible(names, becomes, shown):
    """`shown` has the names of before by the new ones."""
    found = shown_names(list(names), becomes)
    assert list(found.items()) == [(old, new) for new, old in shown.items()]
    assert left_behind(list(names), becomes) == set(names) - set(shown.values())


def test_a_row_is_found_by_the_name_that_its_key_has_now():
    every = renamed({"id": "no"}, {"no": "number"})
    accepts = key_test('{"number": 7}', every)
    for name in ("id", "no", "number"):
        assert accepts({"key": f'{{"{name}":"7"}}', "old_key": None})
    assert not accepts({"key": '{"id":"8"}', "old_key": None})
    assert not key_test('{"id": 7}', every)({"key": '{"number":"7"}', "old_key": None})
    place = {"topic": "t", "partition": 0, "offset": 0, "index": 0, "operation": "update"}
    told = {"key": '{"id":"7"}', "old_key": None, "after": '{"id":"7","n":"1"}'}
    rows = [{**place, **told, "order_key": at(5)}]
    (change,) = changes_of(rows, every).values()
    assert (change.key, change.image) == ('{"number":"7"}', {"number": "7", "n": "1"})
