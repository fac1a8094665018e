"""The stage snapshot in Spark: what reaches the archive, batch after batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from waybill.errors import ReconciliationError, SourceError
from waybill.lake import Lake
from waybill.sources.snapshot import run_snapshot
from waybill.stage_context import Options, StageContext

pytestmark = pytest.mark.spark


def snapshot(spark, spec, batch: str, mode: str = "incremental"):
    lake = Lake.open(spark, spec)
    context = StageContext(lake.spark, lake, spec, batch, Options(mode=mode))
    return run_snapshot(spec, context)


def archive(spark, spec):
    lake = Lake.open(spark, spec)
    rows = lake.read(lake.log("archive")).collect()
    return sorted((r.batch, r.topic, r.partition, r.offset, bytes(r.value)) for r in rows)


def test_new_files_and_nothing_else(spark, migration, tmp_path: Path) -> None:
    spec = migration()
    folder = tmp_path / "in"
    (folder / "a.jsonl").write_bytes(b'\xff\x00\xe2\x80\xa8\r\n\n{"a":1}')
    first = snapshot(spark, spec, "b1")
    assert (first.rows_in, first.rows_out, first.skipped) == (3, 2, {"empty line": 1})
    (folder / "b.jsonl").write_bytes(b"2\n")
    second = snapshot(spark, spec, "b2")
    assert (second.rows_in, second.details["known_files"]) == (1, 1)
    third = snapshot(spark, spec, "b3")
    assert (third.rows_in, third.rows_out) == (0, 0)
    assert archive(spark, spec) == [
        ("b1", "shop", 0, 0, b"\xff\x00\xe2\x80\xa8\r"),
        ("b1", "shop", 0, 2, b'{"a":1}'),
        ("b2", "shop", 1, 0, b"2"),
    ]


def test_a_finished_batch_is_not_done_twice(spark, migration, tmp_path: Path) -> None:
    spec = migration()
    (tmp_path / "in" / "a.jsonl").write_bytes(b"1\n2\n")
    first = snapshot(spark, spec, "b1")
    (tmp_path / "in" / "b.jsonl").write_bytes(b"3\n")
    again = snapshot(spark, spec, "b1")
    assert again.repeated
    again.repeated = False
    assert again == first
    assert len(archive(spark, spec)) == 2


def test_a_changed_file_stops_the_batch_and_full_mode_reads_it(
    spark, migration, tmp_path: Path
) -> None:
    spec = migration()
    path = tmp_path / "in" / "a.jsonl"
    path.write_bytes(b"1\n")
    snapshot(spark, spec, "b1")
    path.write_bytes(b"1\n2\n")
    with pytest.raises(SourceError, match=r"a\.jsonl has changed"):
        snapshot(spark, spec, "b2")
    assert len(archive(spark, spec)) == 1
    assert snapshot(spark, spec, "b3", mode="full").rows_out == 2
    assert snapshot(spark, spec, "b4").rows_out == 0
    assert [row[:4] for row in archive(spark, spec)] == [
        ("b1", "shop", 0, 0),
        ("b3", "shop", 0, 0),
        ("b3", "shop", 0, 1),
    ]


def test_an_error_in_a_task_is_said_as_what_it_is(spark, migration, tmp_path: Path) -> None:
    spec = migration(layout="kcat")
    (tmp_path / "in" / "a.kcat").write_bytes(b"nonsense\n")
    with pytest.raises(
        SourceError, match=r"^WB-2005: line 1 of .*a\.kcat is not a line of `kcat -J`"
    ) as e:
        snapshot(spark, spec, "b1")
    assert "\n" not in str(e.value)
    lake = Lake.open(spark, spec)
    assert lake.head(lake.log("archive")) is None


def test_rows_that_do_not_arrive_stop_the_batch(
    spark, migration, tmp_path: Path, monkeypatch
) -> None:
    spec = migration()
    (tmp_path / "in" / "a.jsonl").write_bytes(b"1\n2\n")
    from waybill.lake.commit import Branch

    honest = Branch.append_made
    monkeypatch.setattr(Branch, "append_made", lambda *given: honest(*given) - 1)
    with pytest.raises(ReconciliationError, match="2 rows in"):
        snapshot(spark, spec, "b1")
    lake = Lake.open(spark, spec)
    assert lake.head(lake.log("archive")) is None
    assert lake.waiting(lake.log("archive"), "snapshot") == []


def test_many_files_in_several_tasks(spark, migration, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("waybill.sources.files.BYTES_PER_TASK", 100)
    spec = migration()
    for n in range(30):
        (tmp_path / "in" / f"{n:03}.jsonl").write_bytes(b"".join(b"%d\n" % i for i in range(n)))
    report = snapshot(spark, spec, "b1")
    assert report.rows_out == sum(range(30))
    rows = archive(spark, spec)
    assert [row[2:] for row in rows] == [(n, i, b"%d" % i) for n in range(30) for i in range(n)]
