"""The rule for tables without key against an imaginary database."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.effort import EFFORT
from tests.property.bag_histories import Heap, dealt
from waybill.merge.rules import bag


@settings(max_examples=200 * EFFORT, deadline=None)
@given(st.data())
def test_any_order_and_duplication_gives_the_source_s_rows(data):
    def choose(n):
        return data.draw(st.integers(0, n - 1)) if n > 1 else 0

    source = Heap(choose)
    source.run(choose(20))
    sent = [change for part in dealt(choose, source, 3) for change in part]
    assert bag(sent) == source.truth


def test_a_delete_before_its_insert_is_owed():
    source = Heap(lambda n: 0)
    source.insert()
    source.delete()
    assert bag(source.changes[1:]) == Counter({frozenset({("a", "0")}): -1})
    assert bag(source.changes) == Counter()
