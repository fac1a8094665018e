"""What a reload has to bring so that it may replace what came before."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from waybill.convert.brought_again import Messages, not_brought
from waybill.lake.local_rows import local_rows
from waybill.lake_columns import CHANGES

pytestmark = pytest.mark.spark

BOTH = {"operation": "update", "before": "{}"}
"""An update that was made of two halves."""


def change(offset: int, table: str = "t", outcome: str = "ok", **more: Any) -> dict[str, Any]:
    row = dict.fromkeys(CHANGES.names)
    names = {"database": "shop", "table": table, "outcome": outcome, "operation": "insert"}
    return {**row, **names, "topic": "in", "partition": 0, "offset": offset, **more}


def half(offset: int, side: str, sequence: str, table: str = "t") -> dict[str, Any]:
    order = f"1/{sequence}/1"
    return change(offset, table, "waiting", half=side, order_key=order, operation="update")


def update(offset: int, sequence: str) -> dict[str, Any]:
    return change(offset, order_key=f"1/{sequence}/1", **BOTH)


def missing(spark, old: list, new: list, pairs: bool = True) -> dict[str, Messages]:
    frames = [
        local_rows(spark, [[row[n] for n in CHANGES.names] for row in rows], ddl)
        for rows, ddl in ((old, from_arrow_schema(CHANGES)), (new, from_arrow_schema(CHANGES)))
    ]
    return not_brought(*frames, pairs)


def test_a_message_has_to_come_as_one_of_the_same_table(spark):
    old = [change(n) for n in (1, 1, 2, 3, 4)] + [change(5, "u"), change(6, "u")]
    new = [change(1), change(2, outcome="refused"), change(3, "u"), change(5, "u"), change(6, "u")]
    wanted = {"shop.t": Messages(2, ("in", 0, 3))}
    assert missing(spark, old, new, pairs=False) == wanted
    assert missing(spark, old, new) == wanted


def test_halves_may_meet_and_may_not_be_alone(spark):
    """The row before of an update leaves no row where both halves met."""
    old = [half(1, "before", "10"), half(4, "after", "20"), update(6, "30"), update(8, "40")]
    meets = [update(2, "10"), update(4, "20"), half(5, "before", "30"), half(6, "after", "30")]
    assert missing(spark, old[:3], meets) == {}
    alone = [half(2, "after", "10"), update(4, "20"), half(6, "after", "30"), update(8, "40")]
    assert missing(spark, old, alone) == {"shop.t": Messages(2, ("in", 0, 1))}
    # Of another table, with the same id.
    others = [half(2, "after", "10", "u"), half(1, "before", "10", "u")]
    assert missing(spark, old[:1], others) == {"shop.t": Messages(1, ("in", 0, 1))}
