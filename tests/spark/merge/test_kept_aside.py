"""Tombstones are kept aside: main shows rows only, whatever happens to it, and forgets none."""

from __future__ import annotations

import time

import pytest

from tests.spark.merge.merge_lake import rows_of, schema
from tests.spark.merge.test_merge_stage import TABLE, ddl, images, row, step
from waybill.lake import Lake
from waybill.lake.catalog import Catalog
from waybill.lake.table_properties import QUALIFIED
from waybill.lake.upkeep import keep_up
from waybill.merge.table_rows import rows_in_order
from waybill.merge.table_states import table_state
from waybill.upkeep.run import run_upkeep

pytestmark = pytest.mark.spark

NAME = '{"id":"2"}'


def with_a_tombstone(lake: Lake, spec) -> str:
    """Rows 1, 3 and 5 and the tombstone of 2, of several batches."""
    step(lake, spec, "b1", [row(10 + n, n, n="1") for n in (1, 2, 3)])
    step(lake, spec, "b2", [row(20, 2, "delete"), row(21, 5, n="1")])
    return lake.merged("shop.t")


def late_change_loses(lake: Lake, spec, batch: str = "late") -> None:
    step(lake, spec, batch, [row(15, 2, "update", n="9"), row(50, 1, "update", n="5")])
    assert rows_of(lake, "shop.t", dead=True)[NAME][1] is None
    assert NAME not in rows_of(lake, "shop.t")


def test_no_state_of_main_ever_showed_one(lake: Lake, migration) -> None:
    spec = migration()
    table = with_a_tombstone(lake, spec)
    step(lake, spec, "b3", [row(30, 2, n="3")])
    step(lake, spec, "b4", [row(40, 2, "delete"), row(41, 7, "delete")])
    assert keep_up(lake, table, 0).left is None
    late_change_loses(lake, spec)
    shown = [r.snapshot_id for r in lake.spark.table(f"{table}.history").collect()]
    assert len(shown) == 6
    for snapshot in shown:
        assert lake.read(table, snapshot).where("_waybill_deleted").isEmpty()
    assert [r["id"] for r in images(lake)] == ["1", "3", "5"]


@pytest.mark.parametrize("again", [False, True])
def test_a_compaction_of_another_program_costs_no_tombstone(
    lake: Lake, migration, again: bool
) -> None:
    spec = migration()
    table = with_a_tombstone(lake, spec)
    name = table.removeprefix("lake.")
    compact = (
        f"CALL lake.system.rewrite_data_files('{name}', options => map('rewrite-all', 'true'))"
    )
    lake.spark.sql(compact)
    if again:
        assert keep_up(lake, table, 0).left is None
    late_change_loses(lake, spec)
    assert [r["id"] for r in images(lake)] == ["1", "3", "5"]


def test_a_change_of_another_program_stays_and_costs_no_tombstone(lake: Lake, migration) -> None:
    spec = migration()
    table = with_a_tombstone(lake, spec)
    lake.spark.sql(f"DELETE FROM {table} WHERE id = 3")
    late_change_loses(lake, spec)
    assert [r["id"] for r in images(lake)] == ["1", "5"]
    late_change_loses(lake, spec, "later")


def tombstones(lake: Lake, table: str) -> list[str]:
    every = lake.read(table, lake.head(table)).where("_waybill_deleted")
    return sorted(r[0] for r in every.select("_waybill_key").collect())


def test_tombstones_are_brought_back_once(lake: Lake, migration) -> None:
    spec = migration()
    table = with_a_tombstone(lake, spec)
    lake.spark.sql(f"DELETE FROM {table} WHERE id = 3")
    for _ in range(2):
        assert keep_up(lake, table, 0).left is None
        assert tombstones(lake, table) == [NAME]
    late_change_loses(lake, spec)
    assert tombstones(lake, table) == [NAME]
    step(lake, spec, "back", [row(60, 2, n="6")])
    assert [(r["id"], r["n"]) for r in images(lake)] == [("1", "5"), ("2", "6"), ("5", "1")]


def test_forgotten_tombstones_are_not_brought_back(lake: Lake, migration) -> None:
    table = with_a_tombstone(lake, migration())
    lake.spark.sql(f"DELETE FROM {table} WHERE id = 3")
    assert keep_up(lake, table, 0).left is None
    forgetful = migration(tombstones={"keep": "0s"})
    time.sleep(0.01)
    (kept,) = [one for one in run_upkeep(forgetful, lake) if one.table == table]
    assert (kept.left, kept.tombstones) == (None, 1)
    assert tombstones(lake, table) == []
    lake.spark.sql(f"DELETE FROM {table} WHERE id = 5")
    assert keep_up(lake, table, 0).left is None
    assert tombstones(lake, table) == []


@pytest.mark.parametrize("anew", [False, True])
def test_tombstones_come_back_without_columns_that_are_gone(
    lake: Lake, migration, anew: bool
) -> None:
    table = with_a_tombstone(lake, migration())
    lake.spark.sql(f"DELETE FROM {table} WHERE id = 3")
    lake.spark.sql(f"ALTER TABLE {table} DROP COLUMN n")
    if anew:
        lake.spark.sql(f"ALTER TABLE {table} ADD COLUMN n date")
    assert keep_up(lake, table, 0).left is None
    assert tombstones(lake, table) == [NAME]
    assert [r["id"] for r in images(lake)] == ["1", "5"]


def as_before(self: Lake, qualified, schema, aside, properties=None):
    """Makes a merged table as earlier versions did."""
    own = {QUALIFIED: qualified, **(properties or {})}
    table = self.ensure(self.merged(qualified), schema, (), own)
    return table, self.metadata(table).shape


@pytest.mark.parametrize("keep", ["0s", "90d", None])
def test_a_table_of_before_is_read_rightly_and_moved(
    lake: Lake, migration, monkeypatch, keep: str | None
) -> None:
    """By upkeep that forgets its tombstone, by upkeep that keeps it, or by the next batch."""
    spec = migration()
    with monkeypatch.context() as patch:
        patch.setattr(Lake, "ensure_merged", as_before)
        table = with_a_tombstone(lake, spec)
    assert len(rows_of(lake, "shop.t", dead=True)) == lake.read(table).count() == 4
    live = list(rows_in_order(lake, table_state(lake, spec, "shop.t")))
    assert [row["id"] for row in live] == ["1", "3", "5"]
    if keep is not None:
        time.sleep(0.01)
        upkeep = run_upkeep(migration(tombstones={"keep": keep}), lake)
        (kept,) = [one for one in upkeep if one.table == table]
        assert (kept.left, kept.tombstones) == (None, 1 if keep == "0s" else 0)
        assert lake.read(table).count() == 3
        assert len(rows_of(lake, "shop.t", dead=True)) == (3 if keep == "0s" else 4)
    if keep != "0s":
        late_change_loses(lake, spec)
    assert [r["id"] for r in images(lake)] == ["1", "3", "5"]


@pytest.mark.parametrize("done", [False, True])
def test_a_commit_that_is_not_answered_is_looked_at_again(
    lake: Lake, migration, monkeypatch, done: bool
) -> None:
    """Whether or not it went through."""
    real, asked = Catalog.commit, []

    def commit(operations, before, after) -> bool:
        if after.ref("main") is None or before.ref("main") == after.ref("main") or asked:
            return real(operations, before, after)
        asked.append(after)
        assert not done or real(operations, before, after)
        return False

    spec = migration()
    with monkeypatch.context() as patch:
        patch.setattr(Catalog, "commit", staticmethod(commit))
        with_a_tombstone(lake, spec)
    assert asked
    late_change_loses(lake, spec)


def test_comments_of_columns_tell_where_they_come_from(lake: Lake, migration) -> None:
    spec = migration()
    step(lake, spec, "b1", [row(1, 1, n="1")])
    comments = {f.name: f.metadata.get("comment") for f in lake.read(lake.merged("shop.t")).schema}
    assert (comments["id"], comments["n"]) == ("id int64 of shop.t", "n int32 of shop.t")
    assert comments["_waybill_deleted"] == "true in tombstones, which only Waybill sees"
    wider = schema("shop.t", {"id": "int64", "n": "int64", "note": "string"}, ("id",))
    altered = ddl(2, "ALTER TABLE t MODIFY n BIGINT, ADD COLUMN note TEXT", wider)
    step(lake, spec, "b2", [altered, row(3, 1, "update", n="7", note="x", table=wider)], [wider])
    comments = {f.name: f.metadata.get("comment") for f in lake.read(lake.merged("shop.t")).schema}
    assert (comments["n"], comments["note"]) == ("n int64 of shop.t", "note string of shop.t")
    assert TABLE.id != wider.id
