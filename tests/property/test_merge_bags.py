"""The rule for tables without key against an imaginary database."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.effort import cases
from tests.property.bag_histories import Heap, dealt
from waybill.merge.rules import Change, bag
from waybill.order import order_key


@settings(max_examples=cases(200), deadline=None)
@given(st.data())
def test_any_order_and_duplication_gives_the_source_s_rows(data):
    def choose(n):
        return data.draw(st.integers(0, n - 1)) if n > 1 else 0

    source = Heap(choose)
    source.run(choose(20))
    sent = [change for part in dealt(choose, source, 3) for change in part]
    assert bag(sent) == source.truth


def test_equal_rows_of_a_reload_are_several():
    """All rows of a reload (or of a Debezium snapshot) share one sequence id."""
    rows = [
        Change(
            order_key((20,), 1, 0, offset, 0),
            "read",
            image={"a": "1"},
            place=("full:shop.log@20", 0, offset, 0),
        )
        for offset in (1, 2, 3)
    ]
    assert bag([*rows, rows[0]]) == Counter({frozenset({("a", "1")}): 3})


def test_a_delete_before_its_insert_is_owed():
    source = Heap(lambda n: 0)
    source.insert()
    source.delete()
    assert bag(source.changes[1:]) == Counter({frozenset({("a", "0")}): -1})
    assert bag(source.changes) == Counter()
