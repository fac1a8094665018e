"""What is remembered of a lake's files is what they say, and never too much."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.lake_by_hand import catalog_in, commit
from waybill.lake.file_memory import FileMemory
from waybill.lake.history import Chosen
from waybill.lake.parquet_rows import rows_of_files
from waybill.lake.planned_files import FILE_BYTES, PLACE_BYTES, Planned
from waybill.lake.without_spark import LakeWithoutSpark, opened
from waybill.spec.migration import Migration

TABLE = "lake.shop_log.changes"
SCHEMA = pa.schema([("kind", pa.string()), ("offset", pa.int64()), ("text", pa.string())])
LIKELY = Chosen(
    ("text",),
    lambda row: row["text"].endswith("7"),
    lambda table: pc.match_substring(table.column("text"), "7"),
)
"""The mask takes more than is wanted."""

ASKED: list[tuple[Any, ...]] = [
    (("offset", "kind"), {}),
    (("offset", "kind"), {"kind": ["good"]}),
    (("offset", "kind"), {"kind": ["bad"]}),
    (("text", "offset"), {"offset": [3, 17]}),
    (("text", "offset"), {"offset": [3, 4]}),
    (("kind",), {"kind": ["good", "bad"], "offset": [25]}),
    (("text",), {"text": ["text 11"]}),
    (("offset",), {}, None, Chosen(("text",), lambda row: row["text"].endswith("7"))),
    (("offset",), {}, None, Chosen(("text",), lambda row: row["text"].endswith("8"))),
    (("offset", "kind"), {"kind": ["bad"]}, None, LIKELY),
    (("offset", "lacking"), {"text": ["text 7", "text 8"]}, None, LIKELY),
    (("offset",), {"text": ["text 5", "text"]}),
    (("kind",), {"offset": [7, 2**70]}),
]
"""What `History.scan` is asked, one after the other."""


@pytest.fixture
def spec(tmp_path: Path) -> Migration:
    """A lake of three batches."""
    catalog = catalog_in(tmp_path / "lake")
    catalog.create_namespace("shop_log")
    made = catalog.create_table("shop_log.changes", SCHEMA)
    with made.update_spec() as partitions:
        partitions.add_identity("kind")
    for batch in range(3):
        add(tmp_path, batch)
    source = {"files": {"path": "in"}, "envelope": "canal"}
    document = {"name": "shop", "source": source, "lake": {"warehouse": str(tmp_path / "lake")}}
    return Migration.model_validate(document)


def add(folder: Path, batch: int) -> None:
    rows = [
        {"kind": kind, "offset": 10 * batch + n, "text": f"text {10 * batch + n}"}
        for kind in ("good", "bad")
        for n in range(10)
    ]
    commit(
        catalog_in(folder / "lake"),
        "shop_log.changes",
        SCHEMA,
        rows,
        (f"b{batch}", "convert", {}, {}),
    )


def answers(spec: Migration, memory: FileMemory | None) -> list[list[dict[str, Any]]]:
    """All answers, of a lake that is opened anew for each."""
    found = []
    for asked in ASKED:
        with opened(spec, memory) as lake:
            assert lake is not None
            rows = list(lake.scan(TABLE, *asked))
            found.append(sorted(rows, key=str))
            by = [name for name in ("offset", "kind") if name in asked[0]]
            found.append(lake.first(TABLE, asked[0], asked[1], by, 4, *asked[2:]))
    return found


@pytest.mark.parametrize("most", [0, 3_000, 1 << 20])
def test_whoever_remembers_says_what_the_files_say(spec: Migration, most: int) -> None:
    memory = FileMemory(most)
    fresh = answers(spec, None)
    assert all(fresh)
    assert answers(spec, memory) == fresh
    assert answers(spec, memory) == fresh


def test_what_a_batch_adds_is_seen(spec: Migration, tmp_path: Path) -> None:
    memory = FileMemory()
    before = answers(spec, memory)
    add(tmp_path, 3)
    after = answers(spec, memory)
    assert after == answers(spec, None)
    assert after != before


def test_no_file_of_the_table_is_opened_a_second_time(
    spec: Migration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = FileMemory()
    places: list[str] = []
    honest = LakeWithoutSpark._opened

    def noted(lake: LakeWithoutSpark, place: str) -> Any:
        places.append(place)
        return honest(lake, place)

    monkeypatch.setattr(LakeWithoutSpark, "_opened", noted)
    answers(spec, memory)
    for part in (".parquet", "-m0.avro", ".metadata.json", "/snap-"):
        assert [one for one in places if part in one]
    places.clear()
    answers(spec, memory)
    assert places == []
    # The catalog is asked each time where the metadata is, and of a batch only its own is read.
    add(tmp_path, 3)
    with opened(spec, memory) as lake:
        assert lake is not None
        assert len([*lake.scan(TABLE, ("offset", "kind"), {})]) == 80
        assert [*lake.batches(TABLE)] == ["b3", "b2", "b1", "b0"]
        assert [commit.batch for commit in lake.commits(TABLE)] == [*lake.batches(TABLE)]
    for part, count in ((".parquet", 2), ("-m0.avro", 1), (".metadata.json", 1), ("/snap-", 1)):
        assert len([one for one in places if part in one]) == count


def test_metadata_whose_name_may_be_used_again_is_read_again(
    spec: Migration, tmp_path: Path
) -> None:
    catalog = catalog_in(tmp_path / "lake")
    memory = FileMemory()
    for number in range(2):
        table = catalog.load_table("shop_log.changes")
        place = table.metadata_location
        named = tmp_path / "v1.metadata.json"
        named.write_bytes(Path(place.removeprefix("file://")).read_bytes())
        catalog.drop_table("shop_log.changes")
        catalog.register_table("shop_log.changes", str(named))
        with opened(spec, memory) as lake:
            assert lake is not None
            assert len([*lake.batches(TABLE)]) == 3 + number
        catalog.drop_table("shop_log.changes")
        catalog.register_table("shop_log.changes", place)
        add(tmp_path, 3 + number)


def test_of_files_that_are_half_remembered_the_rest_is_read(tmp_path: Path) -> None:
    memory = FileMemory()
    files = []
    for number, kind in enumerate((pa.int32(), pa.int64(), pa.int64())):
        path = tmp_path / f"{number}.parquet"
        table = pa.table({"number": pa.array([number, 9], kind), "text": [f"{number}", None]})
        pq.write_table(table, path)
        files.append(Planned(str(path), 1, {}))

    def found(columns: tuple[str, ...], **where: Any) -> list[Any]:
        asked = [file._replace(where=where) for file in files]
        rows = rows_of_files(asked, str, columns, None, memory)
        return sorted((tuple(row[name] for name in columns) for row in rows), key=str)

    for _ in range(2):
        assert found(("number",), number=[1, 2]) == [(1,), (2,)]
        assert found(("text",), number=[1, 9]) == [("1",), (None,), (None,), (None,)]
        assert found(("text",), number=[2**40]) == []
        assert found(("text", "none"), text=["0", "2"]) == [("0", None), ("2", None)]
        assert found(("none",), number=[9]) == [(None,)] * 3
        assert found((), text=["0"]) == [()]
        assert found(("text",), none=["0"]) == []


OTHERS = {("order_x2Did", 1): "order-id", ("_2nd", 3): "2nd", ("plain", 9): "of another id"}


@pytest.mark.parametrize("memory", [None, FileMemory()])
@pytest.mark.parametrize("rows", [2, 20_000])
def test_columns_that_a_file_calls_otherwise_are_found_by_their_ids(
    tmp_path: Path, memory: FileMemory | None, rows: int
) -> None:
    """As Iceberg's writer calls names that Avro does not allow."""
    called = {"order_x2Did": 1, "plain": 2, "_2nd": 3, "no_id": None}
    fields = [
        pa.field(name, pa.int64(), metadata=None if n is None else {"PARQUET:field_id": str(n)})
        for name, n in called.items()
    ]
    files = []
    for number in range(3):
        path = tmp_path / f"{rows}-{number}.parquet"
        values = [pa.array([10 * n + number] * rows) for n in range(len(fields))]
        table = pa.table(values, schema=pa.schema(fields))
        pq.write_table(table, path, row_group_size=min(rows, 5_000))
        files.append(Planned(str(path), 1, {}))

    def found(columns: tuple[str, ...], **where: Any) -> set[Any]:
        asked = [file._replace(where=where) for file in files]
        chosen = Chosen(("order-id",), lambda row: row["order-id"] != 2)
        read = [*rows_of_files(asked, str, columns, chosen, memory, OTHERS)]
        assert len(read) % rows == 0
        return {tuple(row[name] for name in columns) for row in read}

    for _ in range(2):
        every = found(("order-id", "plain", "2nd", "no_id", "of another id"))
        assert every == {(0, 10, 20, 30, None), (1, 11, 21, 31, None)}
        assert found(("plain",), **{"order-id": [1, 2]}) == {(11,)}
        assert found(("order-id", "lacking"), **{"2nd": [20]}) == {(0, None)}
        assert found(("plain",), **{"2nd": [30]}) == set()


def test_rows_that_are_deleted_later_are_gone(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist([{"offset": n} for n in range(9)]), path)
    memory = FileMemory()
    file = Planned(str(path), 1, {})
    for gone in (frozenset[int](), frozenset({0, 4}), frozenset({8})):
        rows = rows_of_files([file._replace(gone=gone)], str, ("offset",), None, memory)
        assert [row["offset"] for row in rows] == [n for n in range(9) if n not in gone]


def test_no_more_is_remembered_than_is_allowed() -> None:
    memory = FileMemory(200)
    for name in "abcde":
        assert memory.keep(name, name.upper(), 40 + (name == "e"))
    assert [memory.get(name) for name in "abcde"] == [None, "B", "C", "D", "E"]
    memory.get("b")
    memory.keep("f", "F", 40)
    assert [memory.get(name) for name in "bcdef"] == ["B", None, "D", "E", "F"]
    # What is kept again takes its place once.
    for _ in range(9):
        memory.keep("f", "F", 50)
    assert [memory.get(name) for name in "bdef"] == ["B", "D", "E", "F"]
    # What is too large takes nothing else's place, and what it replaces is not said any more.
    assert not memory.keep("g", "G", 51)
    assert not memory.keep("f", "large", 201)
    assert [memory.get(name) for name in "bdefg"] == ["B", "D", "E", None, None]
    assert memory.keep("h", "H", 50)
    assert [memory.get(name) for name in "bdeh"] == ["B", "D", "E", "H"]


def test_a_list_of_files_takes_little_beside_those_of_its_manifests(spec: Migration) -> None:
    kept: dict[str, int] = {}

    class Noted(FileMemory):
        def keep(self, key: Any, value: Any, size: int) -> bool:
            kept[Path(key[0]).name] = size
            return super().keep(key, value, size) and self.room

        room = True

    for room, least in ((True, 6 * PLACE_BYTES), (False, 6 * FILE_BYTES)):
        memory = Noted()
        memory.room = room
        with opened(spec, memory) as lake:
            assert lake is not None
            assert len([*lake.scan(TABLE, ("offset",), {})]) == 60
        (size,) = (size for name, size in kept.items() if name.startswith("snap-"))
        assert least <= size <= least + PLACE_BYTES


def test_of_a_table_only_the_newest_metadata_is_remembered(spec: Migration, tmp_path: Path) -> None:
    memory = FileMemory()
    for batch in (3, 4):
        with opened(spec, memory) as lake:
            assert lake is not None
            assert len([*lake.batches(TABLE)]) == batch
        add(tmp_path, batch)
    assert [key[-1] for key in memory._known].count("metadata") == 1
