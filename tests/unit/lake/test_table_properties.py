"""Since when tables of messages are whole, as their properties tell it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from waybill.lake.history import History
from waybill.lake.table_properties import CUT_TABLES, KEPT_SINCE, cut_tables, deletion_marks

SINCE = {KEPT_SINCE: "1763618400000"}
CUT = {**SINCE, CUT_TABLES: '{"shop.orders": "1/119/113/1"}'}
THEN = "2025-11-20 06:00 UTC"


@pytest.mark.parametrize(
    ("properties", "qualified", "since"),
    [
        (None, None, None),
        ({}, None, None),
        # Only messages that were skipped went.
        (SINCE, None, None),
        (CUT, None, THEN),
        (CUT, "shop.orders", THEN),
        (CUT, "shop.order", None),
    ],
)
def test_a_table_without_all_of_its_changes_says_since_when(properties, qualified, since):
    metadata = None if properties is None else SimpleNamespace(properties=properties)
    lake: Any = SimpleNamespace(log=lambda name: name, found=lambda table: metadata)
    assert History.changes_since(lake, qualified) == since
    assert (History.kept_since(lake, "archive") is None) == (not properties)
    assert History.cut_tables(lake) == ({"shop.orders"} if properties == CUT else set())
    below = None if qualified is None else History.cut_below(lake, qualified)
    assert below == ("1/119/113/1" if qualified == "shop.orders" and since else None)


def test_a_mark_never_goes_back():
    first = deletion_marks({}, 500, {})
    assert first == {KEPT_SINCE: "500"}
    cut = deletion_marks(first, 300, {"a": "1/115", "b": "1/117"})
    assert cut[KEPT_SINCE] == "500"
    again = deletion_marks(cut, 1000, {"b": "1/116", "c": "1/111"})
    assert again[KEPT_SINCE] == "1000"
    assert cut_tables(again) == {"a": "1/115", "b": "1/117", "c": "1/111"}
    # Skipped messages cut no table, and leave what others cut as it is.
    assert deletion_marks(again, 2000, {}) == {KEPT_SINCE: "2000"}


def test_marks_that_another_deletion_has_overwritten_are_missed():
    def are_there(now: dict[str, str]) -> bool:
        return deletion_marks(now, 500, {"a": "1/115"}).items() <= now.items()

    mine = deletion_marks({}, 500, {"a": "1/115"})
    assert are_there(mine)
    assert are_there(deletion_marks(mine, 900, {"a": "1/116", "b": "1/111"}))
    assert not are_there({})
    assert not are_there({**mine, KEPT_SINCE: "400"})
    assert not are_there({**mine, CUT_TABLES: '{"a": "1/114"}'})
    assert not are_there({**mine, CUT_TABLES: '{"b": "1/119"}'})
