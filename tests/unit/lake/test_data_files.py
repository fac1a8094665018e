"""Data files as tasks write them, without Spark: what stands in them, and how long rows are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybill.errors import ReconciliationError, WaybillError
from waybill.lake import data_files
from waybill.lake.data_files import DataFileWriter, with_field_ids
from waybill.lake.parquet_rows import rows_of_files
from waybill.lake.planned_files import Planned
from waybill.lake.row_sizes import longest_row
from waybill.lake.sizing import BATCH_BYTES, MOST_ROWS, rows_per_batch
from waybill.lake.task_rows import FilePiece, read_piece
from waybill.lake_columns import ARCHIVE

SCHEMA = pa.schema([("id", pa.int64()), ("outcome", pa.string()), ("text", pa.string())])
ICEBERG = {
    "fields": [{"id": 7 + n, "name": name, "type": "x"} for n, name in enumerate(SCHEMA.names)]
}


def writer(folder: Path, *partition_by: str) -> DataFileWriter:
    return DataFileWriter(str(folder), str(folder), with_field_ids(SCHEMA, ICEBERG), partition_by)


def batch(*rows: tuple[int, str | None, str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA
    )


def written(made: DataFileWriter, *batches: pa.RecordBatch) -> list[dict[str, object]]:
    (files,) = made.write(iter(batches))
    return files.to_pylist()


def test_every_row_is_in_the_file_of_its_partition_and_in_its_order(tmp_path: Path) -> None:
    first = batch((1, "ok", "a"), (2, "a/b=ü", "b"), (3, "ok", "c"))
    files = written(writer(tmp_path, "outcome"), first, batch((4, "ok", "d")), batch())
    found = {}
    for file in files:
        path = Path(str(file["path"]))
        assert path.stat().st_size == file["bytes"]
        found[tuple(file["partition"])] = pq.read_table(path, partitioning=None)["id"].to_pylist()
    assert found == {("ok",): [1, 3, 4], ("a/b=ü",): [2]}


def test_files_carry_the_field_ids_of_the_table(tmp_path: Path) -> None:
    (file,) = written(writer(tmp_path), batch((1, "ok", "a")))
    schema = pq.read_schema(str(file["path"]))
    assert [field.metadata[b"PARQUET:field_id"] for field in schema] == [b"7", b"8", b"9"]


def test_lists_and_what_is_in_them_have_ids_too() -> None:
    header = {"id": 3, "name": "headers"}
    inner = [{"id": 5, "name": "key", "type": "string"}, {"id": 6, "name": "value", "type": "x"}]
    kind = {"type": "list", "element-id": 4, "element": {"type": "struct", "fields": inner}}
    schema = {"fields": [{**header, "type": kind}]}
    found = with_field_ids(pa.schema([ARCHIVE.field("headers")]), schema)
    element = found.field("headers").type.value_field
    assert element.metadata == {b"PARQUET:field_id": b"4"}
    assert [part.metadata[b"PARQUET:field_id"] for part in element.type] == [b"5", b"6"]


def test_long_writes_become_row_groups_and_files(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(data_files, "ROW_GROUP_BYTES", 100)
    monkeypatch.setattr(data_files, "FILE_BYTES", 400)
    batches = [batch(*((n, "ok", "x" * 20) for n in range(i, i + 5))) for i in range(0, 50, 5)]
    files = written(writer(tmp_path, "outcome"), *batches)
    assert len(files) > 2
    groups = [pq.ParquetFile(str(file["path"])).metadata.num_row_groups for file in files]
    assert max(groups) > 1
    ids = [i for file in files for i in pq.read_table(str(file["path"]))["id"].to_pylist()]
    assert ids == list(range(50))


def test_a_failure_leaves_no_file(tmp_path: Path) -> None:
    def failing():
        yield batch((1, "ok", "a"), (2, "refused", "b"))
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        list(writer(tmp_path, "outcome").write(failing()))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_row_without_partition_is_not_lost(tmp_path: Path) -> None:
    rows = batch((1, "ok", "a"), (2, None, "b"))
    with pytest.raises(ReconciliationError, match="1 row has no value in outcome"):
        list(writer(tmp_path, "outcome").write([rows]))
    with pytest.raises(ReconciliationError):
        list(writer(tmp_path, "outcome").write([batch((2, None, "b"))]))


def test_nothing_makes_no_file(tmp_path: Path) -> None:
    assert written(writer(tmp_path, "outcome")) == []
    assert list(tmp_path.iterdir()) == []


header = st.fixed_dictionaries({"key": st.text(), "value": st.none() | st.binary()})
message = st.fixed_dictionaries(
    {
        "topic": st.text(),
        "key": st.none() | st.binary(),
        "value": st.none() | st.binary(),
        "headers": st.none() | st.lists(header, max_size=3),
    }
)


@given(st.lists(message, min_size=1), st.data())
def test_no_row_is_longer_than_the_longest(messages, data) -> None:
    rows = pa.RecordBatch.from_pylist(messages, ARCHIVE)
    part = rows.slice(data.draw(st.integers(0, len(messages) - 1)))
    sizes = [
        len(m["topic"].encode())
        + sum(len(m[name] or b"") for name in ("key", "value"))
        + sum(len(h["key"].encode()) + len(h["value"] or b"") for h in m["headers"] or ())
        for m in messages[len(messages) - part.num_rows :]
    ]
    assert longest_row(part) >= max(sizes)


@given(st.integers(0, 1 << 40))
def test_the_longest_rows_fit_a_batch(longest) -> None:
    rows = rows_per_batch(longest)
    assert 1 <= rows <= MOST_ROWS
    assert rows == 1 or rows * longest <= BATCH_BYTES


def test_only_what_comes_again_and_again_gets_a_dictionary(tmp_path: Path) -> None:
    (file,) = written(writer(tmp_path), batch(*((i, "ok", f"text {i}") for i in range(500))))
    group = pq.read_metadata(str(file["path"])).row_group(0)
    dictionaries = {
        group.column(i).path_in_schema: group.column(i).has_dictionary_page for i in range(3)
    }
    assert dictionaries == {"id": False, "outcome": True, "text": False}


def test_a_damaged_page_is_reported_and_not_read(tmp_path: Path) -> None:
    """One byte of a value, deep in a page: what was read would look as good as any other."""
    (file,) = written(writer(tmp_path), batch(*((i, "ok", f"text {i}") for i in range(500))))
    path = Path(str(file["path"]))
    column = pq.read_metadata(path).row_group(0).column(2)
    content = bytearray(path.read_bytes())
    content[column.data_page_offset + column.total_compressed_size // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(WaybillError, match=f"the data file {path} cannot be read"):
        list(read_piece(FilePiece(str(path), 0, len(content)), SCHEMA))
    planned = [Planned(str(path), len(content), {})]
    with pytest.raises(WaybillError, match=f"the data file {path} cannot be read"):
        list(rows_of_files(planned, str, ["text"]))
    path.write_bytes(content[:-1])
    with pytest.raises(WaybillError, match=f"the data file {path} cannot be read"):
        list(rows_of_files(planned, str, ["text"]))
