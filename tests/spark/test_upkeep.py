"""Upkeep: fewer files, the same rows, nothing taken from who needs it."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

import waybill.lake.upkeep
from tests.spark.merge.merge_lake import let_pass, merge, put, rows_of, schema
from tests.spark.merge.test_merge_stage import TABLE, images, row, step
from tests.spark.merge.test_merge_transactions import event, inside
from tests.spark.test_jobs import canal
from waybill import jobs
from waybill.errors import ConfigurationError, ConflictError, LakeError
from waybill.lake import Lake
from waybill.lake.upkeep import BUSY, MEANWHILE, keep_up
from waybill.merge.table_states import snapshot_at
from waybill.merge.tombstones import UNKNOWN, forget_tombstones
from waybill.upkeep.run import run_upkeep

pytestmark = pytest.mark.spark


def files(lake: Lake, table: str) -> int:
    return lake.spark.table(f"{table}.files").count()


def test_rows_stay_and_files_go(lake: Lake, migration) -> None:
    spec = migration()
    for n in range(6):
        rows = [row(10 * n + 1, n, n="1"), row(10 * n + 2, 0, "update", n=str(n))]
        if n == 3:
            rows.append(row(39, 2, "delete"))
        step(lake, spec, f"b{n}", rows)
    before, table = images(lake), lake.merged("shop.t")
    rows_before = lake.read(lake.log("changes")).count()
    many = files(lake, table)
    done = {kept.table: kept for kept in run_upkeep(spec, lake)}
    assert files(lake, table) < many
    assert done[table].files >= 5
    assert done[table].snapshots == 0
    assert images(lake) == before
    assert lake.read(lake.log("changes")).count() == rows_before
    # A batch goes on as if nothing had been.
    report = step(lake, spec, "b9", [row(90, 1, "update", n="9"), row(30, 2, "update", n="0")])
    assert (report.rows_in, report.rows_out, report.superseded) == (2, 1, 1)
    assert "2" not in {image["id"] for image in images(lake)}


def test_a_key_that_stands_twice_is_named_when_all_is_done(lake: Lake, migration) -> None:
    spec = migration()
    for n in range(6):
        step(lake, spec, f"b{n}", [row(10 * n + 1, n, n="1")])
    table = lake.merged("shop.t")
    many = files(lake, table)
    branch = lake.branch(table, "merge", "by-hand")
    branch.append(branch.read().limit(1))
    branch.fast_forward()
    with pytest.raises(LakeError) as caught:
        run_upkeep(spec, lake)
    said = (
        r"^WB-5006: 1 row of shop\.t has the key of another row, e\.g\. \{\"id\":\"\d\"\}, as if "
    )
    assert re.match(said, str(caught.value)), "for the log"
    public = "1 row of shop.t has the key of another row (the log names one), as if "
    assert caught.value.sentence.startswith(public)
    assert '{"id"' not in caught.value.sentence
    assert files(lake, table) < many


def parts(lake: Lake, table: str) -> dict[str, int]:
    """What the time of reading a table depends on beside its rows."""
    kinds = ("data_files", "delete_files")
    found = {kind: lake.spark.table(f"{table}.{kind}").count() for kind in kinds}
    lists = lake.spark.table(f"{table}.manifests")
    # Those that name no file which is still there are not opened.
    there = ("added_data", "existing_data", "added_delete", "existing_delete")
    counts = " + ".join(f"{kind}_files_count" for kind in there)
    return {**found, "manifests": lists.where(f"{counts} > 0").count()}


def test_many_small_batches_are_read_as_one_big_batch(lake: Lake, migration) -> None:
    """How long reading takes, `python -m bench --only upkeep` measures."""
    spec, whole = migration(), migration("whole")
    big = Lake.open(lake.spark, whole)
    every = []
    for n in range(12):
        rows = [row(10 * n + 1, n, n="1"), row(10 * n + 2, 0, "update", n=str(n))]
        if n % 3 == 2:
            rows.append(row(10 * n + 3, n - 1, "delete"))
        step(lake, spec, f"b{n}", rows)
        every += rows
    step(big, whole, "b1", every)
    assert images(lake) == images(big)
    before = parts(lake, lake.merged("shop.t"))
    assert min(before.values()) >= 10, before
    run_upkeep(spec, lake)
    for there, like in (
        (lake.merged("shop.t"), big.merged("shop.t")),
        (lake.log("changes"), big.log("changes")),
    ):
        assert parts(lake, there) == parts(big, like)
    assert images(lake) == images(big)


def test_tombstones_go_when_they_are_old_and_what_waits_is_left(lake: Lake, migration) -> None:
    spec = migration(tombstones={"keep": "0s"})
    step(lake, spec, "b1", [row(1, 1, n="1"), row(2, 2, "delete")])
    put(lake, "b2", [row(3, 3, n="3")], [TABLE])
    merge(lake, spec, "b2")
    time.sleep(0.1)
    (held,) = [kept for kept in run_upkeep(spec, lake) if kept.table == lake.merged("shop.t")]
    assert (held.left, held.tombstones) == (BUSY, 0)
    let_pass(lake, "b2")
    (done,) = [kept for kept in run_upkeep(spec, lake) if kept.table == lake.merged("shop.t")]
    assert (done.left, done.tombstones) == (None, 1)
    assert [image["id"] for image in images(lake)] == ["1", "3"]
    young = migration(tombstones={"keep": "90d"})
    step(lake, young, "b3", [row(4, 1, "delete")])
    assert all(kept.tombstones == 0 for kept in run_upkeep(young, lake))


def test_old_snapshots_go_and_the_next_batch_goes_on(spark, migration, tmp_path: Path) -> None:
    spec = migration(publish=[{"envelope": "canal", "files": {"path": str(tmp_path / "out")}}])
    for n in range(2):
        message = canal("INSERT", {"id": str(n), "title": f"t{n}"})
        (tmp_path / "in" / f"{n}.jsonl").write_bytes(message)
        jobs.run_migration(spec, batch=f"b{n}", spark=spark)
    lake = Lake.open(spark, spec)
    done = run_upkeep(spec, lake, "0s")
    assert sum(kept.snapshots for kept in done) > 0
    (tmp_path / "in" / "9.jsonl").write_bytes(canal("INSERT", {"id": "9", "title": "t9"}))
    waybill = jobs.run_migration(spec, batch="b9", spark=spark)
    assert [report.rows_in for report in waybill.stages][:3] == [1, 1, 1]
    assert [r["id"] for r in jobs.read_table(spec, spark=spark)] == ["0", "1", "9"]
    assert waybill.stage("publish").rows_out == 1


def compacting_after(monkeypatch, table: str, work) -> None:
    """Let upkeep find nobody at a table, and somebody do his work before the files are joined."""
    real = waybill.lake.upkeep._compact

    def compact(lake: Lake, name: str):
        if name == table:
            work()
        return real(lake, name)

    monkeypatch.setattr(waybill.lake.upkeep, "_compact", compact)


def many_steps(lake: Lake, spec) -> str:
    for n in range(6):
        step(lake, spec, f"b{n}", [row(10 * n + 1, n, n="1")])
    return lake.merged("shop.t")


def test_a_merge_that_began_before_a_compaction_takes_its_place(
    lake: Lake, migration, monkeypatch
) -> None:
    spec = migration()
    table = many_steps(lake, spec)

    def merged_meanwhile() -> None:
        put(lake, "b9", [row(90, 0, "update", n="9"), row(91, 9, n="1")], [TABLE])
        merge(lake, spec, "b9")

    compacting_after(monkeypatch, table, merged_meanwhile)
    before = lake.head(table)
    assert keep_up(lake, table, 0).files >= 5
    compacted = lake.head(table)
    assert compacted != before
    # So it is for the record of merges.
    assert merge(lake, spec, "b9").repeated
    let_pass(lake, "b9")
    assert [image["id"] for image in images(lake)] == ["0", "1", "2", "3", "4", "5", "9"]
    assert images(lake)[0]["n"] == "9"
    monkeypatch.undo()
    # What the compaction wrote is let go with the snapshots of its age.
    assert keep_up(lake, table, int(time.time() * 1000) + 1).left is None
    assert compacted not in lake.metadata(table).snapshots
    step(lake, spec, "b10", [row(100, 0, "delete")])
    assert [image["id"] for image in images(lake)] == ["1", "2", "3", "4", "5", "9"]


def test_a_compaction_that_a_consumer_has_read_up_to_stays(lake: Lake, migration) -> None:
    table = many_steps(lake, migration())
    branch = lake.branch(table, "merge", "late")
    branch.commit({}, {}, "late", "merge")
    waybill.lake.upkeep._compact(lake, table)
    assert branch.stands()
    lake.mark_read(table, "somebody", lake.head(table))
    assert not branch.stands()
    with pytest.raises(ConflictError, match="another run has moved"):
        branch.fast_forward()


def test_a_batch_whose_table_was_changed_is_merged_again(spark, migration, tmp_path: Path) -> None:
    spec = migration()
    (tmp_path / "in" / "0.jsonl").write_bytes(canal("INSERT", {"id": "0", "title": "t"}))
    jobs.run_migration(spec, batch="b0", spark=spark)
    (tmp_path / "in" / "1.jsonl").write_bytes(canal("INSERT", {"id": "1", "title": "t"}))
    jobs.run_migration(spec, batch="b1", until="merge", spark=spark)
    lake = Lake.open(spark, spec)
    (table,) = lake.merged_tables().values()
    lake.spark.sql(f"DELETE FROM {table} WHERE id = '0'")
    with pytest.raises(ConflictError, match="has been changed since batch b1 was merged"):
        jobs.run_stage("validate", spec, "b1", spark)
    assert lake.waiting(table, "merge") == lake.waiting(lake.log("merges"), "merge") == []
    jobs.run_migration(spec, batch="b1", spark=spark)
    assert [r["id"] for r in jobs.read_table(spec, spark=spark)] == ["1"]


def test_tombstones_are_kept_although_snapshots_are_not(lake: Lake, migration) -> None:
    spec = migration(tombstones={"keep": "90d"})
    step(lake, spec, "b1", [row(1, 1, n="1"), row(2, 2, "delete")])
    step(lake, spec, "b2", [row(3, 3, n="3")])
    first = [commit.batch for commit in lake.commits(lake.log("merges"))]
    run_upkeep(spec, lake, "0s")
    assert [commit.batch for commit in lake.commits(lake.log("merges"))] == first
    assert all(kept.tombstones == 0 for kept in run_upkeep(spec, lake, "0s"))
    step(lake, spec, "b3", [row(1, 2, n="late")])
    assert [image["id"] for image in images(lake)] == ["1", "3"]


def test_tombstones_stay_where_nobody_knows_their_age(lake: Lake, migration) -> None:
    """An earlier version let go of the snapshots that tell which batches are young."""
    spec = migration(tombstones={"keep": "90d"})
    step(lake, spec, "b1", [row(1, 1, n="1"), row(2, 2, "delete")])
    for batch in ("b2", "b3"):
        step(lake, spec, batch, [row(3, 3, n="3")])
    assert keep_up(lake, lake.log("merges"), int(time.time() * 1000)).snapshots > 0
    (kept,) = [k for k in run_upkeep(spec, lake) if k.table == lake.merged("shop.t")]
    assert (kept.tombstones, kept.left) == (0, UNKNOWN)


@pytest.mark.parametrize("shown", ["merged", "half", "whole"])
def test_tombstones_of_a_batch_that_comes_meanwhile_stay(
    lake: Lake, migration, monkeypatch, shown: str
) -> None:
    spec = migration(tombstones={"keep": "0s"})
    step(lake, spec, "b1", [row(1, 1, n="1"), row(2, 2, n="2"), row(9, 9, "delete")])
    table, merges, oldest = lake.merged("shop.t"), lake.log("merges"), int(time.time() * 1000) + 1

    def show(*names: str) -> None:
        for name in names:
            for info in lake.waiting(name, "merge", "b2"):
                lake.reopen(name, info.name).fast_forward()

    real = Lake.known_since

    def meanwhile(self: Lake, name: str) -> int:
        """The table is on a branch of upkeep by now, what is young is not known yet."""
        put(lake, "b2", [row(13, 2, "delete")], [TABLE])
        merge(lake, spec, "b2")
        show(*{"merged": [], "half": [table], "whole": [table, merges]}[shown])
        return real(self, name)

    with monkeypatch.context() as patch:
        patch.setattr(Lake, "known_since", meanwhile)
        assert forget_tombstones(lake, "shop.t", oldest) == (0, MEANWHILE)
    show(table, merges)
    assert rows_of(lake, "shop.t", dead=True)['{"id":"2"}'][1] is None
    step(lake, spec, "b3", [row(12, 2, "update", n="late")])
    assert [image["id"] for image in images(lake)] == ["1"]


def test_a_half_shown_batch_is_young(lake: Lake, migration) -> None:
    spec = migration(tombstones={"keep": "0s"})
    step(lake, spec, "b1", [row(1, 1, n="1"), row(2, 2, "delete")])
    put(lake, "b2", [row(3, 3, "delete")], [TABLE])
    merge(lake, spec, "b2")
    table = lake.merged("shop.t")
    (info,) = lake.waiting(table, "merge", "b2")
    lake.reopen(table, info.name).fast_forward()
    assert forget_tombstones(lake, "shop.t", int(time.time() * 1000) + 1) == (1, None)
    assert set(rows_of(lake, "shop.t", dead=True)) == {'{"id":"1"}', '{"id":"3"}'}


def test_a_killed_upkeep_does_not_stop_the_next_one(lake: Lake, migration, monkeypatch) -> None:
    spec = migration(tombstones={"keep": "0s"})
    step(lake, spec, "b1", [row(1, 1, n="1"), row(2, 2, "delete")])
    table = lake.merged("shop.t")
    for batch in ("tombstones-1", "tombstones"):
        lake.branch(table, "upkeep", batch)
    time.sleep(0.01)
    (kept,) = [k for k in run_upkeep(spec, lake) if k.table == table]
    assert (kept.left, kept.tombstones) == (None, 1)
    assert lake.waiting(table, "upkeep") == []


def test_a_table_is_read_as_of_any_time_that_is_kept(lake: Lake, migration) -> None:
    spec = migration()
    other = schema("shop.other", {"id": "int64", "n": "int32"}, ("id",))
    step(lake, spec, "b1", [row(1, 1, n="1")])
    step(lake, spec, "b2", [row(2, 1, "update", n="2")])
    for batch in ("b3", "b4"):
        step(lake, spec, batch, [row(3, 3, n="3", table=other)], [other])
    time.sleep(0.01)
    limit = int(time.time() * 1000)
    step(lake, spec, "b5", [row(5, 1, "update", n="5")])
    table = lake.merged("shop.t")
    assert keep_up(lake, table, limit).snapshots > 0
    # The record of merges does not know b2 any more, the table was not changed since.
    assert keep_up(lake, lake.log("merges"), limit).snapshots > 0
    snapshot = snapshot_at(lake, table, "b4")
    assert [r.n for r in lake.read(table, snapshot).collect()] == [2]
    assert snapshot_at(lake, lake.merged("shop.other"), "b5") is not None
    many = int(time.time() * 1000) + 1
    assert keep_up(lake, table, many).snapshots > 0
    with pytest.raises(ConfigurationError, match=r"upkeep has expired what .* was after batch b4"):
        snapshot_at(lake, table, "b4")


def test_what_an_open_transaction_brought_stays(lake: Lake, migration) -> None:
    spec = migration()
    step(lake, spec, "b1", [row(1, 1, n="1")])
    begun = [event("begin", "x", 2), inside("x", row(3, 2, n="2"))]
    step(lake, spec, "b2", begun)
    for number in range(3, 8):
        step(lake, spec, f"b{number}", [row(10 * number, number, n="1")])
    step(lake, spec, "b8", [inside("x", row(4, 8, n="8"))])
    time.sleep(1.1)
    done = {kept.table: kept.snapshots for kept in run_upkeep(spec, lake, "1s")}
    assert done[lake.merged("shop.t")] > 0
    step(lake, spec, "b9", [event("commit", "x", 90)])
    assert [image["id"] for image in images(lake)] == [str(n) for n in range(1, 9)]


def test_what_a_held_merge_goes_on_from_stays(lake: Lake, migration) -> None:
    spec = migration()
    put(lake, "b1", [row(1, 1, n="1")], [TABLE])
    merge(lake, spec, "b1")
    put(lake, "b2", [row(2, 2, n="2")], [TABLE])
    put(lake, "b3", [row(3, 3, n="3")], [TABLE])
    time.sleep(0.01)
    run_upkeep(spec, lake, "0s")
    let_pass(lake, "b1")
    assert merge(lake, spec, "b3").rows_in == 2
    let_pass(lake, "b3")
    assert [image["id"] for image in images(lake)] == ["1", "2", "3"]
