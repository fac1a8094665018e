"""Upkeep: fewer files, the same rows, nothing taken from who needs it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.spark.merge_lake import let_pass, merge, put
from tests.spark.test_jobs import canal
from tests.spark.test_merge_stage import TABLE, images, row, step
from waybill import jobs
from waybill.lake import Lake
from waybill.lake.upkeep import BUSY
from waybill.upkeep import run_upkeep

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


def parts(lake: Lake, table: str) -> dict[str, int]:
    """What the time of reading a table depends on beside its rows."""
    kinds = ("data_files", "delete_files", "manifests")
    return {kind: lake.spark.table(f"{table}.{kind}").count() for kind in kinds}


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
