"""What the gate takes from footers is what a count would find, or it is counted."""

from __future__ import annotations

import pytest

from waybill.lake.ordered_rows import RowGroup
from waybill.order import order_key
from waybill.validate.footers import _outcomes


def group(low: str, high: str, topics=("t", "t"), indexes=(0, 0)) -> RowGroup:
    return RowGroup(
        (topics[0], 0, 0, indexes[0], low), (topics[1], 0, 9, indexes[1], high), "f", 0, 10, 99, {}
    )


def key(*sequence: int, full_row: bool = False) -> str:
    return order_key(sequence or None, 1, 0, 7, 0, full_row)


@pytest.mark.parametrize(
    ("low", "high", "ordered"),
    [
        (key(), key(), 0),
        (key(full_row=True), key(3, full_row=True), 0),
        (key(0), key(10**30, 5), 10),
        (key(-9), key(-1), 10),
        (key(-9), key(1), None),
        (key(), key(0), None),
        (key(3, full_row=True), key(3), None),
    ],
)
def test_a_row_group_is_ordered_where_all_of_its_rows_are(low, high, ordered):
    low, high = sorted([low, high])
    found = _outcomes([group(low, high)])
    assert found == (None if ordered is None else [("t", "ok", 10, 10, ordered)])


def test_what_footers_do_not_tell_is_counted():
    plain = group(key(), key())
    assert _outcomes([plain, plain]) == [("t", "ok", 20, 20, 0)]
    assert _outcomes([plain, group(key(), key(), topics=("t", "u"))]) is None
    assert _outcomes([plain, group(key(), key(), indexes=(0, 1))]) is None
    assert _outcomes([]) == []
