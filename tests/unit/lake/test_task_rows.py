"""What tasks read from data files by themselves: every row once, and in order if that is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.effort import cases
from waybill.errors import WaybillError
from waybill.lake.ordered_rows import RowGroup, clusters, in_order, read_in_order, row_groups
from waybill.lake.task_rows import DataFile, deal, read_piece

COLUMNS: list[tuple[str, Any]] = [
    ("batch", pa.string()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("message", pa.int32()),
    ("key", pa.binary()),
]
SCHEMA = pa.schema(COLUMNS)
BOUNDS = ("batch", "topic", "partition", "offset")
ORDER = ("topic", "partition", "offset", "message")

places = st.tuples(
    st.sampled_from(["a", "a/b", "é", "\U0001f600"]), st.integers(0, 3), st.integers(0, 20)
)
tables = st.lists(st.lists(places, min_size=1, max_size=8), max_size=6)
"""Row groups of one file."""


def rows(found: list[tuple[str, int, int]], number: int) -> list[dict[str, Any]]:
    return [
        {
            "batch": f"b{number}",
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "message": i,
            "key": None if offset % 3 else b"k" * offset,
        }
        for i, (topic, partition, offset) in enumerate(found)
    ]


def write(path: Path, groups: list[list[dict[str, Any]]], **given: Any) -> DataFile:
    with pq.ParquetWriter(path, SCHEMA, **given) as writer:
        for group in groups:
            writer.write_table(pa.Table.from_pylist(group, SCHEMA))
    return DataFile(str(path), path.stat().st_size)


@settings(max_examples=cases(25), deadline=None)
@given(tables, st.integers(500, 8000))
def test_every_row_is_in_one_piece(tmp_path_factory, groups, size) -> None:
    folder = tmp_path_factory.mktemp("files")
    pieces = [rows(group, 0) for group in groups]
    files = [write(folder / "one", pieces), write(folder / "two", pieces[:1])]
    dealt = deal(files, size)
    read = [
        row
        for task in dealt
        for piece in task
        for batch in read_piece(piece, SCHEMA)
        for row in batch.to_pylist()
    ]
    assert read == [row for group in (*pieces, *pieces[:1]) for row in group]


def test_small_files_share_a_task_and_a_large_one_takes_several() -> None:
    small = [DataFile(str(i), 10) for i in range(20)]
    assert [len(task) for task in deal(small, 800)] == [8, 8, 4]
    assert [len(task) for task in deal([DataFile("large", 4000)], 1000)] == [1, 1, 1, 1]
    assert deal([], 1000) == []


def test_a_column_that_a_file_does_not_have_is_null(tmp_path: Path) -> None:
    file = write(tmp_path / "f", [rows([("a", 0, 1)], 0)])
    wanted = pa.schema([*SCHEMA, pa.field("later", pa.string())])
    (task,) = deal([file], 10**6)
    (batch,) = read_piece(task[0], wanted)
    assert batch.schema == wanted
    assert batch.column("later").to_pylist() == [None]


def test_a_file_that_is_gone_or_is_none_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone.parquet"
    for content in (None, b"PAR1 this is no Parquet PAR1"):
        if content is not None:
            gone.write_bytes(content)
        (task,) = deal([DataFile(str(gone), 100)], 1000)
        with pytest.raises(WaybillError, match=r"gone\.parquet cannot be read"):
            list(read_piece(task[0], SCHEMA))


@settings(max_examples=cases(25), deadline=None)
@given(st.lists(tables, min_size=1, max_size=3))
def test_rows_come_in_order_whatever_file_they_are_in(tmp_path_factory, given_files) -> None:
    folder = tmp_path_factory.mktemp("files")
    everything, files = [], []
    for number, groups in enumerate(given_files):
        pieces = [rows(group, number) for group in groups]
        everything += [row for group in pieces for row in group]
        files.append(write(folder / str(number), pieces))
    groups = row_groups(files, BOUNDS, ("key",))
    assert groups is not None
    assert sum(group.nulls["key"] for group in groups) == sum(r["key"] is None for r in everything)
    ordered = clusters(groups)
    assert ordered is not None
    read = []
    for cluster, batch in read_in_order(ordered, SCHEMA, ORDER):
        assert {group.low[0] for group in cluster} == set(batch.column("batch").to_pylist())
        read += batch.to_pylist()

    def place(row: dict[str, Any]) -> tuple[Any, ...]:
        return (row["batch"], *(row[name] for name in ORDER))

    assert [place(row) for row in read] == sorted(place(row) for row in everything)


def test_row_groups_that_only_touch_are_read_together() -> None:
    def group(low: int, high: int, size: int = 10) -> RowGroup:
        return RowGroup((low,), (high,), "f", low, 1, size, {})

    apart = [group(4, 5), group(0, 2), group(3, 3)]
    assert clusters(apart) == [[apart[1]], [apart[2]], [apart[0]]]
    assert clusters([group(0, 2), group(2, 4), group(4, 4), group(5, 6)]) == [
        [group(0, 2), group(2, 4), group(4, 4)],
        [group(5, 6)],
    ]
    assert clusters([group(0, 9), group(1, 2), group(5, 6)], 29) is None
    assert clusters([group(0, 9, 10**9)], 29) == [[group(0, 9, 10**9)]]


def test_a_footer_without_bounds_tells_nothing(tmp_path: Path) -> None:
    bare = write(tmp_path / "bare", [rows([("a", 0, 1)], 0)], write_statistics=False)
    assert row_groups([bare], BOUNDS, ("key",)) is None
    null = write(tmp_path / "null", [[{"topic": None, "batch": "b", "partition": 0, "offset": 1}]])
    assert row_groups([null], BOUNDS, ("key",)) is None
    assert row_groups([], BOUNDS, ("key",)) == []


def test_order_is_that_of_all_columns_together() -> None:
    def table(*found: tuple[str, int, int, int]) -> pa.Table:
        return pa.table(dict(zip(ORDER, map(list, zip(*found, strict=True)), strict=True)))

    assert in_order(table(("a", 1, 1, 0), ("a", 1, 1, 0), ("a", 1, 1, 1), ("b", 0, 0, 0)), ORDER)
    assert not in_order(table(("a", 1, 1, 1), ("a", 1, 1, 0)), ORDER)
    assert not in_order(table(("b", 0, 0, 0), ("a", 9, 9, 9)), ORDER)
