"""Since when tables of messages are whole, as their properties tell it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from waybill.lake.history import History
from waybill.lake.table_properties import CUT_TABLES, KEPT_SINCE

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
