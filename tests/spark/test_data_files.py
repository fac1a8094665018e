"""Rows that tasks write themselves are to every reader what Spark would have written."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from waybill.errors import ConflictError, LakeError, WaybillError
from waybill.lake import Lake, Span, TaskRows
from waybill.lake.catalog import Catalog
from waybill.lake.row_sizes import RowSizes
from waybill.lake.settings import ANY_BYTES, ARROW_BYTES, ARROW_ROWS, SESSION_SETTINGS
from waybill.lake.snapshot_ranges import LONGEST
from waybill.lake.storage_errors import plainly
from waybill.lake_columns import ARCHIVE, columns_of
from waybill.report import StageReport

pytestmark = pytest.mark.spark

TIME = datetime(2026, 2, 3, 4, 5, 6, 789, UTC)


def messages(numbers: list[int]) -> pa.RecordBatch:
    rows = [
        {
            "topic": "ok" if n % 3 else "a/b=ü",
            "partition": n % 2,
            "offset": n,
            "timestamp": TIME if n % 2 else None,
            "timestamp_type": "create" if n % 2 else "logappend",
            "value": b"\x00\xff" * n,
            "headers": [{"key": "k", "value": None}] * (n % 3) if n % 4 else None,
        }
        for n in numbers
    ]
    return pa.RecordBatch.from_pylist(rows, ARCHIVE)


def make(batches):
    for numbers in batches:
        yield messages(numbers.column(0).to_pylist())


@pytest.fixture
def table(lake: Lake) -> str:
    return lake.ensure(lake.log("things"), ARCHIVE, ("topic",))


def test_every_reader_finds_what_spark_would_have_written(lake: Lake, table: str) -> None:
    numbers = lake.spark.range(0, 50, 1, 3)
    branch = lake.branch(table, "snapshot", "b1")
    assert branch.append_made(numbers, make, ARCHIVE) == 50
    mine = branch.read()
    other = lake.branch(table, "snapshot", "b2")
    theirs = numbers.mapInArrow(make, from_arrow_schema(ARCHIVE))
    other.append(theirs)
    assert mine.exceptAll(other.read()).isEmpty()
    assert other.read().exceptAll(mine).isEmpty()
    branch.fast_forward()
    pruned = lake.read(table).where("topic = 'a/b=ü' AND offset > 45")
    assert [row.offset for row in pruned.collect()] == [48]
    files = lake.spark.sql(f"SELECT * FROM {table}.files").collect()
    assert sum(file.record_count for file in files) == 50
    assert {file.partition.topic for file in files} == {"ok", "a/b=ü"}
    assert all(file.readable_metrics.offset.upper_bound is not None for file in files)
    # Readers cut files where row groups begin; the first begins after the four letters.
    assert all(file.split_offsets[0] == 4 for file in files)
    assert all(file.split_offsets == sorted({*file.split_offsets}) for file in files)


def test_a_task_that_fails_leaves_nothing(lake: Lake, table: str, tmp_path) -> None:
    def failing(batches):
        yield from make(batches)
        raise WaybillError("this is the reason")

    branch = lake.branch(table, "snapshot", "b1")
    with pytest.raises(WaybillError, match="this is the reason"):
        branch.append_made(lake.spark.range(10), failing, ARCHIVE)
    assert branch.read().isEmpty()
    assert list(tmp_path.rglob("data/**/*.parquet")) == []


@pytest.mark.parametrize("first", [True, False])
def test_a_branch_that_was_taken_over_is_noticed(lake: Lake, table: str, first: bool) -> None:
    if not first:
        # The branch begins at main: one that Iceberg made anew would look the same.
        land(lake, table, "b0", 0, 0)
    branch = lake.branch(table, "snapshot", "b1")
    lake.branch(table, "snapshot", "b1")
    with pytest.raises(ConflictError, match="another run"):
        branch.append_made(lake.spark.range(10), make, ARCHIVE)
    assert lake.read(table).isEmpty()


def test_rows_and_stamp_are_one_snapshot(lake: Lake, table: str) -> None:
    branch = lake.branch(table, "snapshot", "b1")
    begun = branch.head
    assert branch.append_made(lake.spark.range(10), make, ARCHIVE) == 10
    row = [*messages([10]).to_pylist()[0].values()]
    assert branch.append_rows([row], ARCHIVE) == 1
    few = branch.few_written(columns_of(ARCHIVE, "offset", "topic"))
    assert few is not None
    assert sorted(few.column("offset").to_pylist()) == [*range(11)]
    stamped = branch.commit({"upto": 11}, {"rows_in": 11}, "b1", "snapshot")
    snapshot = lake.metadata(table).snapshots[stamped]
    assert (snapshot.parent, snapshot.summary["added-records"]) == (begun, "11")
    # What is committed already is no longer distinguished.
    assert branch.few_written(WANTED) is None
    branch.fast_forward()
    (commit,) = lake.commits(table)
    assert commit.cursor == {"upto": 11}
    assert lake.read(table).count() == 11
    assert lake.added_rows(table, None, stamped) == 11


def total(lake: Lake, table: str, snapshot: int) -> int:
    return int(lake.metadata(table).snapshots[snapshot].summary["total-records"])


@pytest.mark.parametrize("first", [True, False])
def test_a_branch_that_its_first_commit_makes(lake: Lake, table: str, first: bool) -> None:
    if not first:
        land(lake, table, "b0", 0, 3)
    before = set(lake.metadata(table).snapshots)
    one = lake.branch(table, "merge", "b1", at_once=False)
    two = lake.branch(table, "merge", "b2", at_once=False)
    assert lake.waiting(table, "merge") == []
    one.append_made(lake.spark.range(3, 5), make, ARCHIVE)
    one.commit({}, {}, "b1", "merge")
    assert len(set(lake.metadata(table).snapshots) - before) == 1
    one.fast_forward()
    two.append_made(lake.spark.range(5, 7), make, ARCHIVE)
    # Of a table without a snapshot Iceberg makes the branch of main, which has one by now.
    if not first:
        two.commit({}, {}, "b2", "merge")
    with pytest.raises(ConflictError, match="another run"):
        two.commit({}, {}, "b2", "merge") if first else two.fast_forward()
    two.drop()
    assert lake.waiting(table, "merge") == []
    assert next(commit.batch for commit in lake.commits(table)) == "b1"
    main = lake.read(table).count()
    assert total(lake, table, one.head) == main
    more = lake.branch(table, "merge", "b4", at_once=False)
    more.append_made(lake.spark.range(7, 9), make, ARCHIVE)
    assert total(lake, table, more.commit({}, {}, "b4", "merge")) == main + 2
    more.drop()
    late = lake.branch(table, "merge", "b3", at_once=False)
    assert late.read().count() == main
    assert [info.name for info in lake.waiting(table, "merge")] == [late.name]


@pytest.mark.parametrize("rows", [0, 3])
def test_another_s_commit_in_the_middle_of_a_first_one_is_no_error(
    lake: Lake, table: str, rows: int, monkeypatch
) -> None:
    land(lake, table, "b0", 0, 3)
    one = lake.branch(table, "merge", "b1", at_once=False)
    two = lake.branch(table, "merge", "b2", at_once=False)
    for branch in (one, two):
        branch.append_rows([[*messages([n]).to_pylist()[0].values()] for n in range(rows)], ARCHIVE)
    honest = Catalog.load
    # With files, their columns' bounds are looked up in the table first.
    turns = iter([False, True] if rows else [True])

    def overtaken(catalog: Catalog, namespace: str, name: str) -> object:
        table = honest(catalog, namespace, name)
        if not next(turns):
            return table

        def begin() -> object:
            begun = table.newTransaction()
            monkeypatch.undo()
            two.commit({}, {}, "b2", "merge")
            return begun

        return SimpleNamespace(newTransaction=begin)

    monkeypatch.setattr(Catalog, "load", overtaken)
    stamped = one.commit({}, {}, "b1", "merge")
    assert next(turns, None) is None
    assert {branch.head for branch in lake.waiting(table, "merge")} == {two.head, stamped}
    assert total(lake, table, stamped) == 3 + rows


def test_what_waits_is_in_the_order_in_which_it_was_stamped(lake: Lake, table: str) -> None:
    batches = [f"b{number * 7 % 10}" for number in range(10)]
    for batch in batches:
        branch = lake.branch(table, "merge", batch, at_once=False)
        branch.append_made(lake.spark.range(3), make, ARCHIVE)
        branch.commit({}, {}, batch, "merge")
    assert [commit.batch for commit, _ in lake.held(table, "merge")] == batches


def test_rows_are_looked_for_in_few_files_without_a_query(
    lake: Lake, table: str, monkeypatch
) -> None:
    land(lake, table, "b1", 0, 9)

    def found(**where: list) -> list[int]:
        return sorted(row["offset"] for row in lake.scan(table, ["offset"], where))

    monkeypatch.setattr(lake, "read", None)
    assert found() == [*range(9)]
    assert found(topic=["ok"]) == [1, 2, 4, 5, 7, 8]
    assert found(topic=["a/b=ü"], partition=[1]) == [3]
    assert found(offset=[4, 40]) == [4]
    monkeypatch.undo()
    branch = lake.branch(table, "snapshot", "b2")
    branch.sql("DELETE FROM {branch} WHERE offset = 4")
    branch.fast_forward()
    assert found(offset=[4, 5]) == [5]


WANTED = columns_of(ARCHIVE, "offset", "topic", "headers", "timestamp")


def land(lake: Lake, table: str, batch: str, first: int, last: int) -> int:
    branch = lake.branch(table, "snapshot", batch)
    branch.append_made(lake.spark.range(first, last, 1, 2), make, ARCHIVE)
    branch.fast_forward()
    return branch.head


def same_rows(rows: TaskRows) -> int:
    """How many rows tasks are given, which must be those that Spark reads."""
    given = rows.map(lambda batches: batches, from_arrow_schema(WANTED)).persist()
    assert given.exceptAll(rows.rows).isEmpty()
    assert rows.rows.exceptAll(given).isEmpty()
    return given.count()


def test_tasks_read_by_themselves_what_spark_would_have_read(lake: Lake, table: str) -> None:
    first, second = land(lake, table, "b1", 0, 30), land(lake, table, "b2", 30, 50)
    for after, topics, count in (
        (None, ["ok", "a/b=ü"], 50),
        (None, ["ok"], 33),
        (first, ["ok", "a/b=ü"], 20),
        (first, ["a/b=ü"], 7),
        (first, ["there is none"], 0),
    ):
        rows = lake.task_rows(Span(table, after, second), WANTED, {"topic": topics})
        assert rows.read is not None
        assert same_rows(rows) == count
    assert same_rows(lake.task_rows(Span(table, second, second), WANTED, {})) == 0


def test_rows_that_were_deleted_are_left_to_spark(lake: Lake, table: str) -> None:
    first = land(lake, table, "b1", 0, 30)
    branch = lake.branch(table, "snapshot", "b2")
    branch.sql("DELETE FROM {branch} WHERE offset = 7")
    branch.fast_forward()
    rows = lake.task_rows(Span(table, None, branch.head), WANTED, {"topic": ["ok"]})
    assert rows.read is None
    assert same_rows(rows) == 19
    # Where the whole partition has no such row, nothing was deleted.
    others = lake.task_rows(Span(table, None, branch.head), WANTED, {"topic": ["a/b=ü"]})
    assert others.read is not None
    assert same_rows(others) == 10
    # Rows that are not whole partitions, too.
    some = lake.task_rows(Span(table, None, first), WANTED, {"timestamp_type": ["create"]})
    assert some.read is None
    assert same_rows(some) == 15


def test_a_layout_that_only_iceberg_knows_is_left_to_it(lake: Lake, table: str) -> None:
    lake.set_properties(table, {"write.object-storage.enabled": "true"})
    branch = lake.branch(table, "snapshot", "b1")
    assert branch.append_made(lake.spark.range(10), make, ARCHIVE) == 10
    assert branch.read().count() == 10


def test_batches_are_measured_unless_the_longest_row_is_known(lake: Lake, table: str) -> None:
    def settings() -> tuple[str, ...]:
        return tuple(str(lake.spark.conf.get(name)) for name in (ARROW_ROWS, ARROW_BYTES))

    usual = (SESSION_SETTINGS[ARROW_ROWS], SESSION_SETTINGS[ARROW_BYTES])

    def land(batch: str, count: int, measured: bool) -> int:
        branch = lake.branch(table, "snapshot", batch)
        sizes, report = RowSizes(lake.spark.sparkContext), StageReport("snapshot", batch)
        branch.append_made(lake.spark.range(count), lambda b: sizes.of(make(b)), ARCHIVE)
        if measured:
            sizes.tell(report, "things")
        branch.commit({}, report.to_dict(), batch, "snapshot")
        branch.fast_forward()
        return branch.head

    first, second = land("b1", 1000, True), land("b2", 40_000, True)
    measured = lake.find(table, "snapshot", "b2")
    assert measured is not None
    assert 80_000 <= measured.report["details"][LONGEST]["things"] < 81_000
    with lake.batches_by_rows(Span(table, None, first)):
        assert settings() == ("20000", ANY_BYTES)
    with lake.batches_by_rows(Span(table, first, second), Span(table, None, first)):
        assert int(settings()[0]) * 80_000 <= 64 << 20
        assert settings()[1] == ANY_BYTES
    assert settings() == usual
    third = land("b3", 10, False)
    for after, upto in ((second, third), (None, third)):
        with lake.batches_by_rows(Span(table, after, upto)):
            assert settings() == usual
    lake.spark.conf.set(ARROW_ROWS, "77")
    try:
        with lake.batches_by_rows(Span(table, None, first)):
            assert settings() == ("77", usual[1])
    finally:
        lake.spark.conf.set(ARROW_ROWS, usual[0])


def test_spark_reads_no_damaged_page(lake: Lake, table: str, migration) -> None:
    branch = lake.branch(table, "snapshot", "b1")
    branch.append_made(lake.spark.range(1, 10, 1, 1), make, ARCHIVE)
    branch.fast_forward()
    for file in lake.spark.sql(f"SELECT file_path FROM {table}.files").collect():
        path = Path(unquote(urlsplit(file.file_path).path))
        column = pq.read_metadata(path).row_group(0).column(ARCHIVE.names.index("value"))
        content = bytearray(path.read_bytes())
        content[column.data_page_offset + column.total_compressed_size - 1] ^= 1
        path.write_bytes(content)
    with pytest.raises(LakeError, match="not what its checksum says"), plainly(migration()):
        lake.read(table).select("value").collect()
