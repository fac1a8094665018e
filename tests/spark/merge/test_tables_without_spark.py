"""Merged tables read without Spark: the rows that Spark reads, in its order."""

from __future__ import annotations

import json

import pytest

from tests.spark.merge.merge_lake import change_row, merge, put, schema
from tests.spark.merge.test_merge_stage import step
from waybill import jobs
from waybill.lake.without_spark import LakeWithoutSpark
from waybill.merge.rules import Change
from waybill.merge.table_rows import rows_in_order
from waybill.merge.table_states import table_state
from waybill.order import order_key

pytestmark = pytest.mark.spark

KEYS = (
    *("10", "9", "-3", "+4", "1.5", "2.5", "-0.5", "1e3", "1E-2", " 7", "", "abc", "Zebra", "ä"),
    *("NaN", "0x10", "1_0", "007", "7", "9" * 38, "9" * 39, "9" * 37 + ".5", "9" * 38 + ".5"),
    *(".5", "5.", ".", "1e400", "٣", "\U0001f600", "\uffff"),
)


def row(sequence: int, table, **image: str):
    """An upsert of a row; the table's key is among its columns."""
    key = json.dumps({name: image[name] for name in table.key}, ensure_ascii=False)
    order = order_key((sequence,), 1, 0, sequence, 0)
    return change_row(Change(order, "insert", key, image, None, ("t", 0, sequence, 0)), table)


def both(spark, lake, spec, **asked) -> list[dict[str, str | None]]:
    """What either way of reading the table tells; they must agree."""
    looked = LakeWithoutSpark.open(spec)
    ours = list(rows_in_order(looked, table_state(looked, spec, "shop.t", **asked)))
    assert ours == list(jobs.read_table(spec, "shop.t", spark=spark, **asked))
    return ours


def test_rows_are_sorted_the_same_way_with_and_without_spark(spark, lake, migration) -> None:
    spec = migration()
    table = schema("shop.t", {"id": "string", "part": "string", "n": "int32"}, ("id", "part"))
    rows = [
        row(at, table, id=key, part=part, n=str(at))
        for at, (key, part) in enumerate((k, p) for k in KEYS for p in ("2", "10"))
    ]
    step(lake, spec, "b0", rows, [table])
    assert len(both(spark, lake, spec)) == 2 * len(KEYS)


def test_rows_that_later_batches_took_away(spark, lake, migration) -> None:
    """Updates and deletes leave the old rows in their files, beside files that say so."""
    spec = migration()
    table = schema("shop.t", {"id": "int64", "n": "int32"}, ("id",))
    step(lake, spec, "b0", [row(n, table, id=str(n), n="0") for n in range(20)], [table])
    changed = [row(30 + n, table, id=str(n), n="1") for n in range(0, 20, 3)]
    step(lake, spec, "b1", changed, [table])
    after_b1 = both(spark, lake, spec)
    assert [found["n"] for found in after_b1] == ["1", "0", "0"] * 6 + ["1", "0"]
    put(lake, "b2", [row(60, table, id="5", n="2")], [table])
    merge(lake, spec, "b2")
    assert both(spark, lake, spec) == after_b1
    held = both(spark, lake, spec, held=True)
    assert [found["n"] for found in held if found["id"] == "5"] == ["2"]
    assert both(spark, lake, spec, as_of="b0") == [{"id": str(n), "n": "0"} for n in range(20)]
