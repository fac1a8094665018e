"""Row groups keep to one stretch of a partition, so that stages can read them in order."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from waybill.lake import data_files, place_runs
from waybill.lake.data_files import DataFileWriter, with_field_ids
from waybill.lake.ordered_rows import clusters, row_groups
from waybill.lake.place_runs import JUMP, MOST_RUNS, PlaceRuns, file_prefix
from waybill.lake.task_rows import DataFile
from waybill.lake_columns import MESSAGE_PLACE

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("n", pa.int64())]
)


def rows_of(places: list[tuple[str, int, int]]) -> pa.RecordBatch:
    columns = zip(*places, strict=True) if places else [[], [], []]
    arrays = [
        pa.array(list(column), field.type) for column, field in zip(columns, SCHEMA, strict=False)
    ]
    return pa.RecordBatch.from_arrays([*arrays, pa.array(range(len(places)))], schema=SCHEMA)


def write(folder: Path, pieces: list[list[tuple[str, int, int]]]) -> list[DataFile]:
    """One file of some pieces, each a batch."""
    fields = [{"id": n, "name": name, "type": "x"} for n, name in enumerate(SCHEMA.names)]
    schema = with_field_ids(SCHEMA, {"fields": fields})
    made = DataFileWriter(str(folder), str(folder), schema, (), by_place=True)
    (files,) = made.write(map(rows_of, pieces))
    return [DataFile(file["path"], file["bytes"]) for file in files.to_pylist()]


offset = st.integers(0, 9) | st.integers(JUMP - 5, JUMP + 5) | st.integers(0, 2**62)
place = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 1), offset)


@given(st.lists(st.lists(place, max_size=12)))
def test_pieces_are_all_rows_and_each_is_one_run(batches) -> None:
    runs, found, last = PlaceRuns(), [], None
    for places in batches:
        cut = [(follows, run.to_pylist()) for follows, run in runs.cut(rows_of(places))]
        for follows, run in cut:
            for row in run:
                now = tuple(row[name] for name in MESSAGE_PLACE)
                if last is not None:
                    in_order = last[:2] == now[:2] and 0 <= now[2] - last[2] <= JUMP
                    assert in_order == (follows or row is not run[0])
                last = now
                found.append(now)
    assert found == [one for places in batches for one in places]


def test_rows_of_many_runs_stay_together() -> None:
    places = [("a", n % 2, n) for n in range(3 * MOST_RUNS)]
    assert len(list(PlaceRuns().cut(rows_of(places)))) == 1


def test_rows_without_a_place_follow_whatever_was_before() -> None:
    runs = PlaceRuns()
    for rows in (rows_of([("a", 0, 7)]), rows_of([("a", None, 1), ("b", 1, 2)]), rows_of([])):  # type: ignore[list-item]
        assert [follows for follows, _ in runs.cut(rows)] == [True]
    assert file_prefix(rows_of([("a", None, 1)])) == ""  # type: ignore[list-item]


def test_columns_of_a_merged_table_may_have_the_same_names(tmp_path) -> None:
    """A source table of consumer offsets: its columns say nothing of where rows came from."""
    types = [pa.string(), pa.string(), pa.decimal128(20, 0)]
    schema = pa.schema(list(zip(MESSAGE_PLACE, types, strict=True)))
    rows = pa.RecordBatch.from_pylist(
        [{"topic": "shop", "partition": "p1", "offset": 2}, dict.fromkeys(MESSAGE_PLACE)], schema
    )
    fields = [{"id": n, "name": name, "type": "x"} for n, name in enumerate(schema.names)]
    made = DataFileWriter(
        str(tmp_path), str(tmp_path), with_field_ids(schema, {"fields": fields}), ()
    )
    (files,) = made.write([rows, rows])
    assert [file["rows"] for file in files.to_pylist()] == [4]


def test_row_groups_can_be_read_in_order_whatever_pieces_a_task_gets(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(data_files, "ROW_GROUP_BYTES", 40 * 30)
    monkeypatch.setattr(place_runs, "JUMP", 40)
    pieces = [
        [(topic, partition, first + n) for n in range(50)]
        for topic in ("shop", "crm")
        for partition in range(3)
        for first in range(0, 500, 50)
    ]
    random.Random(1).shuffle(pieces)
    # A batch may end in the middle of a partition, and hold the end of one and another's beginning.
    batches = [one + other[:25] for one, other in zip(pieces[::2], pieces[1::2], strict=True)]
    rests = [other[25:] for other in pieces[1::2]]
    dealt = [piece for both in zip(batches, rests, strict=True) for piece in both]
    files = write(tmp_path, dealt[:30]) + write(tmp_path, dealt[30:])
    groups = row_groups(files, MESSAGE_PLACE, ())
    assert groups is not None
    assert sum(group.rows for group in groups) == 3000
    assert clusters(groups, most=0) is not None  # none overlaps another


def test_files_sort_as_their_first_rows_do(tmp_path) -> None:
    places = [("shop", p, o) for p in (0, 2, 10) for o in (0, 9, 10, 2**62)]
    random.Random(2).shuffle(places)
    for one in places:
        write(tmp_path, [[one]])
    found = [
        tuple(pq.read_table(path).to_pylist()[0][name] for name in MESSAGE_PLACE)
        for path in sorted(tmp_path.glob("*.parquet"))
    ]
    assert found == sorted(places)


def test_rows_that_jump_back_and_forth_make_few_row_groups(tmp_path) -> None:
    jumping = [[("shop", n % 2, n)] for n in range(1000)]
    (file,) = write(tmp_path, jumping)
    assert pq.read_metadata(file.path).num_row_groups <= data_files.EARLY + 1


def test_a_topic_of_many_partitions_has_a_row_group_for_each(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(data_files, "SMALL", 100)
    pieces = [[("shop", partition, n) for n in range(10)] for partition in range(100)]
    files = write(tmp_path, pieces[::2]) + write(tmp_path, pieces[1::2])
    groups = row_groups(files, MESSAGE_PLACE, ())
    assert groups is not None
    assert len(groups) == 100
    assert clusters(groups, most=0) is not None
