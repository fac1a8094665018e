"""Manifests and data files of a lake, read for what is asked for and held against PyIceberg."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import read_manifest_list

from tests.lake_by_hand import catalog_in, commit
from waybill.errors import LakeError
from waybill.lake import avro_records, parquet_rows, without_spark
from waybill.lake.avro_records import UnknownCodecError, read_container
from waybill.lake.history import Chosen
from waybill.lake.parquet_rows import rows_of_files
from waybill.lake.planned_files import Planned, planned_files
from waybill.lake.without_spark import LakeWithoutSpark
from waybill.spec.migration import Migration

SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("topic", pa.string()),
        ("offset", pa.int64()),
        ("number", pa.int32()),
        ("share", pa.float64()),
        ("time", pa.timestamp("us", "UTC")),
    ]
)
BATCHES = 6
LONG = "a name that is longer than what bounds keep of it, "


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """One partition a kind; every batch brings ten offsets to each, in no order of batches."""
    catalog = catalog_in(tmp_path / "lake")
    catalog.create_namespace("shop_log")
    made = catalog.create_table("shop_log.changes", SCHEMA)
    with made.update_spec() as spec:
        spec.add_identity("kind")
    for batch in range(BATCHES):
        first = (batch * 5 % BATCHES) * 10
        rows = [
            {
                "kind": kind,
                "topic": f"{LONG}{n % 2}" if batch else None,
                "offset": first + n,
                "number": -n,
                "share": n / 3,
                "time": 1_700_000_000_000_000 + n,
            }
            for kind in ("good", "bad")
            for n in range(10)
        ]
        commit(catalog, "shop_log.changes", SCHEMA, rows, (f"b{batch}", "convert", {}, {}))
    return catalog.load_table("shop_log.changes")


@pytest.fixture
def lake(table: Any, tmp_path: Path) -> LakeWithoutSpark:
    source = {"files": {"path": "in"}, "envelope": "canal"}
    document = {"name": "shop", "source": source, "lake": {"warehouse": str(tmp_path / "lake")}}
    found = LakeWithoutSpark.open(Migration.model_validate(document))
    assert found is not None
    return found


def read(place: str) -> bytes:
    return Path(place.removeprefix("file://")).read_bytes()


def manifests(table: Any) -> list[Path]:
    listed = table.current_snapshot().manifests(table.io)
    return [Path(one.manifest_path.removeprefix("file://")) for one in listed]


def planned(table: Any, where: Any, by: tuple[str, ...] = ()) -> list[Planned]:
    found = planned_files(table.current_snapshot().manifest_list, read, where, by)
    assert found is not None
    assert found.deletes == []
    return found.files


def test_a_container_is_read_as_pyiceberg_reads_it(table: Any) -> None:
    place = table.current_snapshot().manifest_list
    theirs = list(read_manifest_list(table.io.new_input(place)))
    wanted = {"manifest_path": None, "content": None, "added_rows_count": None, "partitions": None}
    ours = list(read_container(read(place), wanted).records)
    assert [one["manifest_path"] for one in ours] == [one.manifest_path for one in theirs]
    assert [one["added_rows_count"] for one in ours] == [one.added_rows_count for one in theirs]
    bounds = [[(p["lower_bound"], p["upper_bound"]) for p in one["partitions"]] for one in ours]
    assert bounds == [
        [(p.lower_bound, p.upper_bound) for p in one.partitions or ()] for one in theirs
    ]
    files = {
        entry.data_file.file_path: entry.data_file
        for one in theirs
        for entry in one.fetch_manifest_entry(table.io)
    }
    wanted = {"data_file": dict.fromkeys(("file_path", "lower_bounds", "null_value_counts"))}
    for path in manifests(table):
        for record in read_container(path.read_bytes(), wanted).records:
            file = record["data_file"]
            known = files.pop(file["file_path"])
            for name in ("lower_bounds", "null_value_counts"):
                assert {one["key"]: one["value"] for one in file[name]} == getattr(known, name)
    assert files == {}


@pytest.mark.parametrize("cut", [3, 400, -1, -20])
def test_a_container_that_is_cut_off_is_an_error(table: Any, cut: int) -> None:
    data = read(table.current_snapshot().manifest_list)[:cut]
    with pytest.raises(ValueError, match=r"no Avro file|header is broken|cut off or damaged"):
        list(read_container(data, {"manifest_path": None}).records)


def test_numbers_are_stepped_over_at_once() -> None:
    numbers = b"\x80\x80\x01" + b"\x7f" + b"\xff\x01" + b"\x00"
    step = avro_records._skipper({"type": "array", "items": "long"})
    assert step(b"\x08" + numbers + b"\x00rest", 0) == len(numbers) + 2
    # A block may tell its size, and is not looked into then.
    assert step(b"\x07\x0c" + b"\xff" * 6 + b"\x00rest", 0) == 9
    with pytest.raises(IndexError):
        step(b"\x08" + numbers[:-2], 0)


def test_files_are_left_out_by_partition_and_bounds(table: Any) -> None:
    assert len(planned(table, {})) == 2 * BATCHES
    good = planned(table, {"kind": ["good"]})
    assert len(good) == BATCHES
    assert all("kind=good" in file.path and file.where == {} for file in good)
    (file,) = planned(table, {"kind": ["bad"], "offset": [37]})
    assert file.where == {"offset": [37]}
    assert len(planned(table, {"offset": [9, 10, 99]})) == 4
    assert planned(table, {"offset": [60]}) == []
    assert len(planned(table, {"number": [-9]})) == 2 * BATCHES
    assert planned(table, {"number": [-10]}) == []
    # What bounds keep of a text is cut; a file that has only nulls tells none.
    assert len(planned(table, {"topic": [f"{LONG}0"]})) == 2 * BATCHES
    assert len(planned(table, {"topic": ["b"]})) == 2
    # No bounds of fractions are looked at.
    assert len(planned(table, {"share": [99]})) == 2 * BATCHES


def plain(rows: list[dict[str, Any]]) -> list[str]:
    """Rows that are the same, whatever the order of rows and columns."""
    return sorted(
        json.dumps(row, sort_keys=True, default=lambda time: time.isoformat()) for row in rows
    )


def test_rows_are_those_that_pyiceberg_finds(table: Any, lake: LakeWithoutSpark) -> None:
    columns = ("offset", "time", "topic", "kind")
    for where in ({}, {"kind": ["bad"], "offset": [3, 37]}, {"topic": [f"{LONG}1"]}):
        ours = list(lake.scan("lake.shop_log.changes", columns, where))
        theirs = list(lake._by_pyiceberg("lake.shop_log.changes", columns, where, None))
        assert ours
        assert plain(ours) == plain(theirs)


def test_the_first_rows_open_no_file_that_comes_later(
    lake: LakeWithoutSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    honest = lake._opened
    monkeypatch.setattr(lake, "_opened", lambda place: opened.append(place) or honest(place))
    monkeypatch.setattr(without_spark, "FILES_AT_ONCE", 1)
    asked = ("lake.shop_log.changes", ("offset", "kind"), {"kind": ["good"]})
    assert [row["offset"] for row in lake.first(*asked, ("offset",), 15)] == list(range(15))
    assert len([place for place in opened if place.endswith(".parquet")]) == 2
    # A file with nulls may come first, whatever its bounds say.
    columns = ("topic", "offset")
    found = lake.first("lake.shop_log.changes", columns, {}, columns, 25)
    assert [row["topic"] for row in found] == [None] * 20 + [f"{LONG}0"] * 5
    assert [row["offset"] for row in found[20:]] == [10, 10, 12, 12, 14]
    odd = Chosen(("offset",), lambda row: row["offset"] % 2 == 1)
    found = lake.first(*asked, ("offset",), 3, None, odd)
    assert [row["offset"] for row in found] == [1, 3, 5]


@pytest.mark.parametrize("few", [0, 10_000])
def test_rows_of_large_groups_are_those_of_small_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(parquet_rows, "FEW", few)
    rows = [{"topic": f"t{n % 3}", "offset": n} for n in range(100)]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=30)
    read_groups: list[int] = []
    honest = pq.ParquetFile.read_row_group

    def noted(file: Any, group: int, *more: Any, **named: Any) -> Any:
        read_groups.append(group)
        return honest(file, group, *more, **named)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", noted)
    even = Chosen(("offset", "later"), lambda row: row["offset"] % 2 == 0 and not row["later"])
    where = {"offset": [31, 40, 99], "topic": ["t0", "t1"]}
    file = Planned(str(path), 1, where)
    found = list(rows_of_files([file], str, ("offset", "later"), even))
    assert found == [{"offset": 40, "later": None}]
    assert set(read_groups) == {1, 3}
    assert list(rows_of_files([file], str, ("topic", "offset"))) == [
        {"topic": "t1", "offset": 31},
        {"topic": "t1", "offset": 40},
        {"topic": "t0", "offset": 99},
    ]
    assert list(rows_of_files([Planned(str(path), 1, {"later": [1]})], str, ("offset",))) == []
    new = Chosen(("later",), lambda row: row["later"] is None)
    assert len(list(rows_of_files([Planned(str(path), 1, {})], str, ("offset",), new))) == 100
    gone = frozenset({0, 29, 31, 32, 60, 99})
    rest = list(rows_of_files([Planned(str(path), 1, {}, gone=gone)], str, ("offset",)))
    assert [row["offset"] for row in rest] == [n for n in range(100) if n not in gone]
    assert list(rows_of_files([file._replace(gone=gone)], str, ("offset", "later"), even)) == found
    left = list(rows_of_files([file._replace(gone=frozenset({40, 99}))], str, ("offset",)))
    assert left == [{"offset": 31}]


def test_a_damaged_list_of_files_is_reported(table: Any, lake: LakeWithoutSpark) -> None:
    manifests(table)[0].write_bytes(b"Obj\x01 and nothing more")
    with pytest.raises(LakeError, match=r"table lake\.shop_log\.changes .* cannot be read .*copy"):
        list(lake.scan("lake.shop_log.changes", ("offset",), {}))


def test_a_codec_that_is_not_known_is_left_to_pyiceberg(
    lake: LakeWithoutSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: Any) -> Any:
        raise UnknownCodecError("its compression zstandard is not known here")

    monkeypatch.setattr(without_spark, "planned_files", unknown)
    assert len(list(lake.scan("lake.shop_log.changes", ("offset",), {"offset": [3]}))) == 2
    found = lake.first("lake.shop_log.changes", ("offset",), {}, ("offset",), 3)
    assert [row["offset"] for row in found] == [0, 0, 1]


def test_another_codec_is_named(table: Any) -> None:
    data = read(table.current_snapshot().manifest_list)
    changed = re.sub(rb"avro.codec.deflate|avro.codec.null", b"avro.codec\x0esnappyX", data)
    if changed == data:
        pytest.fail("the file tells no codec")
    with pytest.raises(UnknownCodecError, match="snappyX"):
        read_container(changed, {})
