"""A row as of a batch, in lakes as Spark writes them: deletes beside files, moved keys."""

from __future__ import annotations

import json

import pytest

from tests.spark.merge.merge_lake import change_row, put, schema
from tests.spark.merge.test_merge_stage import step
from tests.spark.merge.test_tables_without_spark import row
from waybill import jobs
from waybill.lake.without_spark import LakeWithoutSpark
from waybill.merge.rules import Change
from waybill.order import order_key
from waybill.overview.row_changes import changes_of_row, changes_of_rows
from waybill.overview.row_states import came_later, row_history

pytestmark = pytest.mark.spark


def test_every_batch_has_the_row_that_the_whole_table_has(spark, lake, migration) -> None:
    spec = migration()
    table = schema("shop.t", {"id": "string", "n": "int32"}, ("id",))

    def gone(sequence: int, key: str):
        order = order_key((sequence,), 1, 0, sequence, 0)
        place = ("t", 0, sequence, 0)
        change = Change(order, "delete", json.dumps({"id": key}), None, None, place)
        return change_row(change, table)

    step(lake, spec, "b0", [row(n, table, id=str(n), n="0") for n in range(9)], [table])
    step(lake, spec, "b1", [row(20 + n, table, id=str(n), n="1") for n in (2, 4)], [table])
    step(lake, spec, "b2", [gone(30, "4"), row(31, table, id="ä, b", n="2")], [table])
    step(lake, spec, "b3", [row(40, table, id="4", n="3")], [table])
    looked = LakeWithoutSpark.open(spec)
    for batch in ("b0", "b1", "b2", "b3", ""):
        whole = jobs.read_table(spec, "shop.t", spark=spark, as_of=batch or None)
        rows = {found["id"]: found for found in whole}
        for key in ("1", "2", "4", "ä, b"):
            history = row_history(looked, spec, "shop.t", key, 100, batch)
            assert history.problem == ""
            live = [one.image for one in history.rows if one.image is not None]
            assert live == ([rows[key]] if key in rows else [])
            counting = [change for change in history.changes if not came_later(change)]
            if batch and counting:
                assert {change["batch"] for change in counting} <= {"b0", "b1", "b2", "b3"}
                assert max(change["batch"] for change in counting) <= batch
    deleted = row_history(looked, spec, "shop.t", "4", 100, "b2")
    assert [one.image for one in deleted.rows] == [None], "the table remembers it"
    assert [came_later(change) for change in deleted.changes] == [False, False, False, True]
    before = row_history(looked, spec, "shop.t", "ä, b", 100, "b1")
    assert (list(before.rows), before.problem) == ([], "")


def test_the_changes_of_many_rows_are_those_of_each_and_are_read_once(
    spark, lake, migration, monkeypatch
) -> None:
    spec = migration()
    table = schema("shop.t", {"id": "string", "n": "int32"}, ("id",))

    def other(sequence: int, operation: str, key: str | None, old: str | None = None, **image: str):
        keys = [None if text is None else json.dumps({"id": text}) for text in (key, old)]
        place = ("t", 0, sequence, 0)
        order = order_key((sequence,), 1, 0, sequence, 0)
        change = Change(order, operation, keys[0] or "", image or None, keys[1], place)
        return change_row(change, table)

    first = [row(n, table, id=str(n), n="0") for n in range(9)]
    step(lake, spec, "b0", [*first, row(10, table, id="1", n="no number")], [table])
    moved = other(20, "update", "7b", "7", id="7b", n="1")
    later = [row(30 + n, table, id="2", n=str(n)) for n in range(5)]
    step(lake, spec, "b1", [moved, other(21, "truncate", None), *later], [table])
    put(lake, "b2", [row(40, table, id="3", n="2")], [table])
    looked = LakeWithoutSpark.open(spec)
    keys = [{"id": text} for text in ("1", "2", "3", "7", "7b", "never")]
    reads, scan = [], LakeWithoutSpark.scan
    monkeypatch.setattr(
        LakeWithoutSpark, "scan", lambda *given: (reads.append(given[1]), scan(*given))[1]
    )
    for limit in (1, 2, 20):
        del reads[:]
        found = changes_of_rows(looked, "shop.t", keys, limit, by_time=False)
        assert reads.count(lake.log("changes")) == 1
        each = [changes_of_row(looked, "shop.t", json.dumps(k), limit, False) for k in keys]
        assert found == each
    outcomes = [change["outcome"] for changes in found for change in changes.rows]
    for said in ("refused: ", "took the row away", "not merged yet", "won, ", "void: "):
        assert any(one.startswith(said) for one in outcomes), said
    assert [len(changes.rows) for changes in found] == [3, 7, 3, 2, 2, 0]
