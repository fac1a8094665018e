"""Local files get the permissions that Hadoop asks for, and no process is started for any."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from waybill.lake.local_permissions import CLASS, _local_files, set_permissions_in_java

pytestmark = pytest.mark.spark


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_have_the_permissions_that_are_asked_for(spark, tmp_path: Path) -> None:
    assert set_permissions_in_java(spark)
    assert set_permissions_in_java(spark), "a second session of the same Java changes nothing"
    files, jvm = _local_files(spark), spark._jvm
    assert str(files.getRawFileSystem().getClass().getName()) == CLASS
    path = getattr(jvm, "org.apache.hadoop.fs.Path")
    permission = getattr(jvm, "org.apache.hadoop.fs.permission.FsPermission")
    file = tmp_path / "a file"
    file.touch()
    # The last one is left to chmod.
    for asked in (0o000, 0o644, 0o600, 0o750, 0o007, 0o421, 0o124, 0o777, 0o1755):
        files.setPermission(path(str(file)), permission(f"{asked:03o}"))
        assert mode_of(file) == asked
    made = tmp_path / "made"
    files.create(path(str(made)), True).close()
    assert mode_of(made) == 0o644
    assert (tmp_path / ".made.crc").exists()
    assert files.mkdirs(path(str(tmp_path / "one" / "two")), permission("700"))
    assert mode_of(tmp_path / "one" / "two") == 0o700


def test_a_lake_starts_no_process_for_a_commit(spark, lake) -> None:
    import pyarrow as pa

    raw = _local_files(spark).getRawFileSystem()
    assert str(raw.getClass().getName()) == CLASS, "opening the lake has seen to it"
    table = lake.ensure(lake.log("changes"), pa.schema([("n", pa.int64())]))

    def commit(batch: str) -> bool:
        """Whether no process has ended meanwhile."""
        before = of_children(spark)
        branch = lake.branch(table, "convert", batch)
        branch.append(lake.spark.range(3).selectExpr("id AS n"))
        branch.commit({}, {}, batch, "convert")
        branch.fast_forward()
        return of_children(spark) == before

    # Workers of earlier tests end now and then; chmod would be there each time.
    assert any(commit(f"b{number}") for number in range(5))
    folder = Path(str(lake.iceberg(table).location()).removeprefix("file:"))
    assert {mode_of(file) for file in folder.rglob("*.metadata.json")} == {0o644}


def of_children(spark) -> int:
    """How often processes that Java started, and that have ended, asked for pages of memory."""
    pid = getattr(spark._jvm, "java.lang.ProcessHandle").current().pid()
    figures = Path(f"/proc/{pid}/stat").read_text()
    return int(figures.rpartition(")")[2].split()[8])
