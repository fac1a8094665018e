"""A table of many columns is typed twice, and becomes what a narrow one does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.merge.merge_lake import schema
from tests.spark.merge.test_merge_stage import images, row, step
from waybill.merge import table

if TYPE_CHECKING:
    from waybill.lake import Lake

pytestmark = pytest.mark.spark

TABLE = schema("shop.t", {"id": "int64", "n": "int32", "t": "string"}, ("id",))


@pytest.mark.parametrize("most", [2, 3])
def test_only_texts_of_a_wide_table_are_kept(lake: Lake, migration, monkeypatch, most: int) -> None:
    """Rows that their newest image decides, and those that are folded, started anew, refused."""
    monkeypatch.setattr(table, "WIDE", most)
    frames = type(lake.spark.range(1))
    kept, persist = [], frames.persist
    monkeypatch.setattr(frames, "persist", lambda self: kept.append(self) or persist(self))
    spec = migration()
    first = [row(key, key, table=TABLE, n="1", t=f"t{key}") for key in range(1, 7)]
    step(lake, spec, "b1", [*first, row(8, 7, "update", table=TABLE, n="7")], [TABLE])
    changes = [
        row(10, 1, "update", table=TABLE, n="2", t="new"),
        row(11, 2, "update", table=TABLE, n="2"),
        row(12, 3, "delete", table=TABLE),
        row(13, 4, "update", table=TABLE, n="x", t="new"),
        row(14, 15, "update", old=5, table=TABLE, n="2", t="new"),
        row(0, 6, "update", table=TABLE, n="late", t="late"),
        row(7, 7, table=TABLE, n="1", t="t7"),
    ]
    report = step(lake, spec, "b2", changes, [TABLE])
    report.reconcile()
    assert (report.rows_out, report.superseded, report.refused) == (5, 2, {"column": 1})
    assert images(lake) == [
        {"id": "1", "n": "2", "t": "new"},
        {"id": "15", "n": "2", "t": "new"},
        {"id": "2", "n": "2", "t": "t2"},
        {"id": "4", "n": "1", "t": "t4"},
        {"id": "6", "n": "1", "t": "t6"},
        {"id": "7", "n": "7", "t": "t7"},
    ]
    live = lake.read(lake.merged("shop.t")).orderBy("id")
    assert [(found.id, found.n, found.t) for found in live.collect()] == [
        *((1, 2, "new"), (2, 2, "t2"), (4, 1, "t4"), (6, 1, "t6"), (7, 7, "t7"), (15, 2, "new")),
    ]
    judged = [frame for frame in kept if "unsettled" in frame.columns]
    assert len(judged) == 2
    wide = len(TABLE.columns) > most
    assert all(("value_0" in frame.columns) is not wide for frame in judged)
