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
from waybill.lake.planned_files import Planned
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


def test_rows_that_are_deleted_later_are_gone(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist([{"offset": n} for n in range(9)]), path)
    memory = FileMemory()
    file = Planned(str(path), 1, {})
    for gone in (frozenset[int](), frozenset({0, 4}), frozenset({8})):
        rows = rows_of_files([file._replace(gone=gone)], str, ("offset",), None, memory)
        assert [row["offset"] for row in rows] == [n for n in range(9) if n not in gone]


def test_no_more_is_remembered_than_is_allowed() -> None:
    memory = FileMemory(100)
    for name in "abc":
        memory.keep(name, name.upper(), 40)
    assert [memory.get(name) for name in "abc"] == [None, "B", "C"]
    memory.get("b")
    memory.keep("d", "D", 40)
    assert [memory.get(name) for name in "bcd"] == ["B", None, "D"]
    # What is kept again takes its place once.
    for _ in range(9):
        memory.keep("d", "D", 50)
    assert [memory.get(name) for name in "bd"] == ["B", "D"]
    memory.keep("e", "E", 101)
    assert [memory.get(name) for name in "bde"] == [None, None, None]
