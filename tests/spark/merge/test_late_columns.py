"""Columns that come up late: older changes that bring them reach rows that lack them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.merge.merge_lake import schema
from tests.spark.merge.test_merge_stage import ddl, images, row, step

if TYPE_CHECKING:
    from waybill.lake import Lake

pytestmark = pytest.mark.spark

NARROW = schema("shop.t", {"id": "int64", "n": "int32"}, ("id",))
WIDE = schema("shop.t", {"id": "int64", "n": "int32", "t": "string"}, ("id",))


@pytest.mark.parametrize("few", [0, 10])
def test_an_older_change_brings_a_column_that_nobody_knew(
    lake: Lake, migration, monkeypatch, few: int
) -> None:
    monkeypatch.setattr("waybill.merge.multi_change_keys.FEW", few)
    spec = migration()
    first = [row(50, key, "update", table=NARROW, n="5") for key in (1, 2, 3, 4)]
    step(lake, spec, "b1", [*first, row(51, 5, table=NARROW, n="5")], [NARROW])
    # Another row brings the column up; then older changes of rows of the first batch have it.
    step(lake, spec, "b2", [row(60, 9, table=WIDE, n="9", t="z")], [WIDE])
    late = [row(10 + key, key, table=WIDE, n="1", t=f"t{key}") for key in (1, 2, 5)]
    report = step(
        lake, spec, "b3", [*late, row(20, 2, "update", table=WIDE, n="2", t=None)], [WIDE]
    )
    assert (report.rows_in, report.rows_out, report.superseded) == (4, 0, 4)
    step(lake, spec, "b4", [row(15, 3, table=WIDE, n="1", t="t3"), row(16, 3, "delete")], [WIDE])
    assert images(lake) == [
        {"id": "1", "n": "5", "t": "t1"},
        {"id": "2", "n": "5", "t": None},
        {"id": "3", "n": "5"},
        {"id": "4", "n": "5"},
        # An insert is whole: nothing older shows through it.
        {"id": "5", "n": "5"},
        {"id": "9", "n": "9", "t": "z"},
    ]
    typed = lake.read(lake.merged("shop.t")).where("id < 3").orderBy("id").select("n", "t")
    assert [tuple(found) for found in typed.collect()] == [(5, "t1"), (5, None)]


def test_a_row_that_moved_gets_it_from_its_old_key(lake: Lake, migration) -> None:
    spec = migration()
    moves = [
        row(50, 2, "update", old=1, table=NARROW, n="5"),
        row(51, 3, "update", old=2, table=NARROW, n="6"),
        row(52, 3, "update", table=NARROW, n="7"),
    ]
    step(lake, spec, "b1", moves, [NARROW])
    report = step(lake, spec, "b2", [row(10, 1, table=WIDE, n="1", t="t1")], [WIDE])
    assert (report.rows_in, report.rows_out, report.superseded) == (1, 0, 1)
    assert images(lake) == [{"id": "3", "n": "7", "t": "t1"}]


def test_what_comes_in_order_asks_the_table_nothing(lake: Lake, migration, monkeypatch) -> None:
    """The usual new column, with newer changes, costs no look at the rows."""
    spec = migration()
    step(lake, spec, "b1", [row(1, 1, "update", table=NARROW, n="1")], [NARROW])

    def looked(*_):
        raise AssertionError("the rows were read")

    monkeypatch.setattr("waybill.merge.key_changes.Resolver.lacking", looked)
    step(lake, spec, "b2", [row(2, 1, "update", table=WIDE, n="2", t="x")], [WIDE])
    step(lake, spec, "b3", [row(3, 2, "update", table=WIDE, n="3", t="y")], [WIDE])
    assert [image.get("t") for image in images(lake)] == ["x", "y"]


@pytest.mark.parametrize(
    ("kind", "definition", "default", "shown", "values"),
    [
        ("string", "VARCHAR(40) NOT NULL DEFAULT 'basic'", "basic", "x", ("basic", "x")),
        # MySQL's BOOLEAN is a TINYINT(1), and so its rows say.
        ("int8", "BOOLEAN NOT NULL DEFAULT TRUE", "1", "0", (1, 0)),
    ],
)
def test_a_default_reaches_rows_of_its_own_batch(
    lake: Lake, migration, kind: str, definition: str, default: str, shown: str, values
) -> None:
    """The statement comes in one batch, the first row with the column in a later one."""
    spec = migration()
    wide = schema("shop.t", {"id": "int64", "n": "int32", "t": kind}, ("id",))
    step(lake, spec, "b1", [row(10, 1, table=NARROW, n="1")], [NARROW])
    added = ddl(30, f"ALTER TABLE shop.t ADD COLUMN t {definition}", NARROW)
    rows = [row(20, 2, table=NARROW, n="2"), row(21, 3, "update", old=1, table=NARROW, n="3")]
    step(lake, spec, "b2", [*rows, added], [NARROW])
    step(lake, spec, "b3", [row(25, 4, table=NARROW, n="4")], [NARROW])
    step(lake, spec, "b4", [row(40, 5, table=wide, n="5", t=shown)], [wide])
    assert [(image["id"], image["t"]) for image in images(lake)] == [
        *(("2", default), ("3", default), ("4", default), ("5", shown))
    ]
    live = lake.read(lake.merged("shop.t")).orderBy("id")
    assert [found.t for found in live.collect()] == [*([values[0]] * 3), values[1]]
