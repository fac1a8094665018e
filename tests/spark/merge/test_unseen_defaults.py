"""A default that only a statement has named shows through later changes that leave it out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.merge.merge_lake import schema
from tests.spark.merge.test_late_columns import NARROW, WIDE
from tests.spark.merge.test_merge_stage import ddl, images, row, step
from waybill.merge import multi_change_keys

if TYPE_CHECKING:
    from waybill.lake import Lake

pytestmark = pytest.mark.spark

ADDED = ddl(6, "ALTER TABLE shop.t ADD COLUMN t VARCHAR(9) NOT NULL DEFAULT 'basic'", NARROW)
FIRST = [row(sequence, sequence, table=NARROW, n="1") for sequence in (1, 2, 3)]
LATER = [
    row(7, 1, "update", table=NARROW, n="2"),
    # A key change, and an update behind it; the row of another one moves on.
    row(8, 12, "update", old=2, table=NARROW, n="2"),
    row(9, 12, "update", table=NARROW, n="3"),
    row(10, 13, "update", old=3, table=NARROW, n="2"),
    row(11, 23, "update", old=13, table=NARROW, n="3"),
    # An insert is whole: what it leaves out is absent.
    row(12, 4, table=NARROW, n="1"),
]
AFTER = [
    {"id": "1", "n": "2", "t": "basic"},
    {"id": "12", "n": "3", "t": "basic"},
    {"id": "23", "n": "3", "t": "basic"},
    {"id": "4", "n": "1"},
]


@pytest.mark.parametrize(
    ("batches", "few"),
    [
        ([FIRST, [ADDED, *LATER]], multi_change_keys.FEW),
        ([FIRST, [ADDED], LATER], multi_change_keys.FEW),
        ([[*FIRST, *LATER], [ADDED]], 0),
        ([[ADDED], LATER, FIRST], 0),
    ],
    ids=["with", "before", "after", "rows-last"],
)
def test_it_shows_through_updates_and_key_changes(
    lake: Lake, migration, monkeypatch, batches, few: int
) -> None:
    monkeypatch.setattr(multi_change_keys, "FEW", few)
    spec = migration()
    for number, rows in enumerate(batches):
        step(lake, spec, f"b{number}", rows, [NARROW]).reconcile()
    assert images(lake) == AFTER


def test_a_statement_comes_after_rows_that_lack_its_column(lake: Lake, migration) -> None:
    """Others show the column by then, and a row without it moves in the statement's own batch."""
    spec = migration()
    rows = [*FIRST[:2], row(7, 1, "update", table=NARROW, n="2")]
    step(lake, spec, "b1", [*rows, row(8, 2, "update", table=NARROW, n="2")], [NARROW])
    moved = row(10, 12, "update", old=2, table=NARROW, n="3")
    step(lake, spec, "b2", [row(9, 5, table=WIDE, n="5", t="x"), moved, ADDED], [NARROW, WIDE])
    assert images(lake) == [
        {"id": "1", "n": "2", "t": "basic"},
        {"id": "12", "n": "3", "t": "basic"},
        {"id": "5", "n": "5", "t": "x"},
    ]
    live = lake.read(lake.merged("shop.t")).orderBy("id")
    assert [found.t for found in live.collect()] == ["basic", "x", "basic"]


@pytest.mark.parametrize("ends", [(5,), (3, 5), (2, 3, 4, 5)], ids=["one", "two", "four"])
def test_a_table_that_is_made_again_has_the_new_default(lake: Lake, migration, ends) -> None:
    entries = [
        row(1, 1, table=NARROW, n="1"),
        ADDED,
        ddl(8, "DROP TABLE shop.t", NARROW),
        row(9, 2, table=NARROW, n="2"),
        ddl(10, "ALTER TABLE shop.t ADD COLUMN t VARCHAR(9) NOT NULL DEFAULT 'gold'", NARROW),
    ]
    spec = migration()
    for start, end in zip((0, *ends), ends, strict=False):
        step(lake, spec, f"b{end}", entries[start:end], [NARROW]).reconcile()
    assert images(lake) == [{"id": "2", "n": "2", "t": "gold"}]


def test_it_reaches_a_row_with_a_text_of_any_length(lake: Lake, migration) -> None:
    """Spark reads texts of JSON up to 20 million characters unless it is asked for more."""
    spec = migration()
    long = schema("shop.t", {"id": "int64", "n": "int32", "d": "string"}, ("id",))
    wide = schema("shop.t", {"id": "int64", "n": "int32", "d": "string", "t": "string"}, ("id",))
    step(lake, spec, "b1", [row(1, 1, table=long, n="1", d="x" * 20_000_001)], [long])
    step(lake, spec, "b2", [ADDED], [NARROW])
    step(lake, spec, "b3", [row(9, 2, table=wide, n="2", d="y", t="gold")], [wide])
    live = lake.read(lake.merged("shop.t")).orderBy("id").select("t")
    assert [found.t for found in live.collect()] == ["basic", "gold"]
