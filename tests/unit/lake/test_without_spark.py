"""What `status`, `quarantine` and `changes` say of a lake that no Spark has been started for."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from tests.lake_by_hand import catalog_in, commit
from tests.unit.cli.command_line import PROJECT, waybill
from waybill.lake.metadata import Metadata, Snapshot
from waybill.lake.without_spark import LakeWithoutSpark
from waybill.lake_columns import ARCHIVE, CHANGES, MERGES, OUTBOX, RUNS, VERIFICATIONS
from waybill.merge.columns import DELETED, IMAGE, KEY, OWN_COLUMNS, MergedColumn
from waybill.merge.position import order_of
from waybill.merge.state import MergeState, TableState
from waybill.merge.table_rows import is_small
from waybill.merge.table_states import MergedTableState as State
from waybill.order import order_key, order_number
from waybill.spec.file import load_migration
from waybill_airflow.free_ports import free_port

_SHOW = ("quarantine", "show", "shop/0/1")
TIME = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)

WATCHED = """
import sys
from waybill.cli import main
try:
    main(sys.argv[1:])
finally:
    spark = ("pyspark", "py4j", "great_expectations")
    # With any of these a look would take as long again, or twice.
    slow = ("pandas", "pyiceberg", "sqlalchemy", "pyarrow.compute", "pyarrow.dataset", "psycopg")
    heavy = [name for name in (*spark, *slow) if name in sys.modules]
    sys.stderr.write(f"loaded: {heavy}")
"""


def row(offset: int, row_key: str, **more: object) -> dict[str, object]:
    image = json.dumps({"id": row_key, "n": str(offset)})
    return {
        "topic": "shop",
        "partition": 0,
        "offset": offset,
        "index": 0,
        "batch": f"b{offset}",
        "operation": "insert",
        "database": "shop",
        "table": "orders",
        "outcome": "ok",
        "key": json.dumps({"id": row_key}),
        "after": image,
        "source_time": TIME,
        "order_key": order_key((9 - offset,), 1, 0, offset, 0, False),
        **more,
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    catalog = catalog_in(tmp_path / "lake")
    why = {"reason_kind": "json", "reason": "it is none"}
    batches = [
        [row(0, "7")],
        [row(1, "8"), row(1, "x", outcome="refused", key=None, index=1, **why)],
        [row(2, "7", operation="update")],
    ]
    for number, rows in enumerate(batches):
        report = {"rows_in": len(rows), "rows_out": len(rows), "refused": {}, "details": {}}
        stamp = (f"b{number}", "convert", {"archive": {"upto": number}}, report)
        commit(catalog, "shop_log.changes", CHANGES, rows, stamp)
        message = {"topic": "shop", "partition": 0, "offset": number, "value": b"\xff%d" % number}
        stamp = (f"b{number}", "snapshot", {}, report)
        commit(catalog, "shop_log.archive", ARCHIVE, [message], stamp)
    file = tmp_path / "shop.yaml"
    file.write_text(
        "name: shop\nsource: {files: {path: in}, envelope: canal}\nlake: {warehouse: lake}\n"
    )
    return file


def watched(*words: object) -> tuple[int, bytes, str]:
    """Exit code, output and errors of a command that must load nothing that takes long."""
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *map(str, words)],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT / "spark_jobs"), "JAVA_HOME": "/nowhere"},
    )
    said, _, loaded = done.stderr.decode().rpartition("loaded: ")
    assert loaded == "[]"
    return done.returncode, done.stdout, said


def look(*words: object) -> list[dict]:
    code, out, said = watched(*words, "--json")
    assert (code, said) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def test_status(file):
    snapshot, convert, *_ = look("status", file)
    assert (snapshot["batch"], snapshot["batches"], snapshot["in"]) == ("b2", 3, 1)
    assert (convert["batch"], convert["lag"]) == (None, 3)


def test_status_names_the_shard_that_was_verified(file):
    figures = {"table": "shop.orders", "method": "full", "differing": 0, "undecided": 0}
    rows = [
        {
            "verification": "v1",
            "time": TIME,
            "kind": "table",
            "table": label,
            "body": json.dumps({**figures, **more}),
        }
        for label, more in (
            ("shop.orders of shop_1.orders", {"shard": "shop_1.orders"}),
            ("shop.orders of shop_2.orders", {"shard": "shop_2.orders", "differing": 3}),
            # As it was kept before tables could be joined.
            ("shop.items", {"table": "shop.items"}),
        )
    ]
    stamp = ("v1", "verify", {"changes": {}}, {"details": {}})
    commit(catalog_in(file.parent / "lake"), "shop_log.verifications", VERIFICATIONS, rows, stamp)
    code, out, said = watched("status", file)
    assert (code, said) == (0, "")
    lines = [line.split() for line in out.decode().splitlines() if "full" in line]
    assert [(line[:-4], line[-2:]) for line in lines] == [
        (["shop.items"], ["0", "0"]),
        (["shop.orders", "of", "shop_1.orders"], ["0", "0"]),
        (["shop.orders", "of", "shop_2.orders"], ["3", "0"]),
    ]


def test_ids_of_snapshots_are_texts_in_json(file):
    """Programs that read JSON's numbers as floats would round them."""
    upto, report = 2574707495988811973, {"rows_in": 1, "rows_out": 1, "refused": {}, "details": {}}
    stamp = ("b2", "convert", {"archive": {"after": None, "upto": upto}}, report)
    commit(catalog_in(file.parent / "lake"), "shop_log.outbox", OUTBOX, [], stamp)
    assert look("status", file)[1]["cursor"] == {"archive": {"after": None, "upto": str(upto)}}


def test_one_batch_of_a_stage_may_read_several_of_the_stage_before(file):
    """Lag goes by what was read: ids of batches that were taken with a later one come never."""
    catalog = catalog_in(file.parent / "lake")
    head = catalog.load_table("shop_log.changes").metadata.current_snapshot_id
    report = {"rows_in": 3, "rows_out": 3, "refused": {}, "details": {}}
    state = [{"batch": "b2", "kind": "state", "body": MergeState().to_json()}]
    stamp = ("b2", "merge", {"after": None, "changes": head}, report)
    commit(catalog, "shop_log.merges", MERGES, state, stamp)
    assert [(line["stage"], line["lag"]) for line in look("status", file)[2:4]] == [
        ("merge", 0),
        ("validate", 1),
    ]
    commit(catalog, "shop_log.changes", CHANGES, [row(3, "9")], ("b3", "convert", {}, report))
    assert look("status", file)[2]["lag"] == 1


def test_changes_come_in_the_order_of_the_merge(file):
    found = look("changes", file, "--table", "shop.orders")
    assert [change["offset"] for change in found] == [2, 1, 0]
    assert found[0]["source_time"] == TIME.isoformat()
    found = look("changes", file, "--key", "7")
    assert [(change["offset"], change["outcome"]) for change in found] == [
        (2, "not merged yet"),
        (0, "not merged yet"),
    ]
    assert look("changes", file, "--key", '{"id": "8"}')[0]["offset"] == 1
    assert len(look("changes", file, "--limit", "2")) == 2


def test_a_table_without_changes(file):
    done = waybill("changes", file, "--table", "shop.order")
    assert done.returncode == 2
    assert b"no changes of table shop.order; did you mean 'shop.orders'?" in done.stderr


def test_a_key_without_changes_says_how_a_key_is_written(file):
    done = waybill("changes", file, "--table", "shop.orders", "--key", "id=7")
    assert done.returncode == 0
    assert done.stdout == b""
    assert b"no change has the key id=7; write a key as its value, such as 7" in done.stderr


def test_quarantine(file):
    (found,) = look("quarantine", "list", file)
    assert (found["offset"], found["index"], found["by"], found["kind"]) == (
        1,
        1,
        "convert",
        "json",
    )
    assert found["table"] == "shop.orders"
    assert look("quarantine", "list", file, "--kind", "value") == []
    assert look("quarantine", "list", file, "--batch", "b2") == []
    (shown,) = look("quarantine", "show", file, "shop/0/1")
    assert shown["value_base64"] == "/zE="


@pytest.mark.parametrize(
    "words",
    [
        ("table", "shop.orders", "--held"),
        ("table", "--held"),
        ("changes", "--held"),
        ("changes", "--table", "shop.orders", "--key", "7", "--held"),
    ],
)
def test_nothing_is_held(file, words):
    code, out, said = watched(words[0], file, *words[1:])
    assert (code, out) == (2, b"")
    assert said == (
        "waybill: WB-1002: no batch waits for the gate, so nothing is held: leave --held out\n"
    )


def test_what_cannot_be_shown_is_said_before_spark_starts(file):
    code, _, said = watched("table", file, "shop.orders")
    assert code == 2
    assert said == (
        "waybill: WB-1002: migration shop has no merged table yet: "
        f"run it first, `waybill run {file}`\n"
    )
    catalog = catalog_in(file.parent / "lake")
    for name in ("orders", "items"):
        commit(catalog, f"shop.{name}", RUNS, [], ("b1", "merge", {}, {}))
    for words, sentence in (
        (("item",), "there is no table 'item'; did you mean 'items'?"),
        ((), "the migration has 2 tables: name one of items, orders"),
        (("items", "--as-of", "b1"), "there is no batch 'b1'; there is none yet"),
        (
            ("items", "--as-of", "2026-01-01"),
            "no batch had passed the gate by 2026-01-01; `waybill status",
        ),
    ):
        code, _, said = watched("table", file, *words)
        assert code == 2
        assert sentence in said


def test_a_table_that_is_small_is_read_without_spark(file):
    catalog = catalog_in(file.parent / "lake")
    state = MergeState()
    state.tables["orders"] = TableState(
        columns=tuple(MergedColumn(n, n, "string") for n in ("id", "n"))
    )
    report = {"rows_in": 3, "rows_out": 3, "refused": {}, "details": {}}
    of_state = [{"batch": "b1", "kind": "state", "body": state.to_json()}]
    cursor = {"after": None, "changes": 1, "branches": {}}
    commit(catalog, "shop_log.merges", MERGES, of_state, ("b1", "merge", cursor, report))
    columns = {name: pa.bool_() if name == DELETED else pa.string() for name in OWN_COLUMNS}
    rows = [
        {KEY: json.dumps({"id": key}), IMAGE: image, DELETED: image is None}
        for key, image in (("10", '{"id":"10"}'), ("9", '{"id":"9","n":"1.10"}'), ("8", None))
    ]
    stamp = ("b1", "merge", cursor, report)
    commit(catalog, "shop.orders", pa.schema(columns), rows, stamp)
    assert look("table", file) == [{"id": "9", "n": "1.10"}, {"id": "10", "n": None}]
    output = file.parent / "rows.jsonl"
    assert watched("table", file, "--output", output)[:2] == (0, b"")
    assert json.loads(output.read_bytes().splitlines()[0]) == {"id": "9", "n": "1.10"}
    (data,) = (file.parent / "lake" / "shop").rglob("*.parquet")
    data.unlink()
    code, _, said = watched("table", file)
    assert (code, said) == (1, lost(data))


def lost(data: Path) -> str:
    """What is said of a data file that is not there."""
    return (
        f"waybill: WB-7002: the lake has lost the data file {data}, which its tables name: put it "
        "back from a copy, or continue under a new migration name, which reads the source again\n"
    )


@pytest.mark.parametrize(
    ("table", "words"),
    [("changes", ("changes",)), ("changes", ("quarantine", "list")), ("archive", _SHOW)],
)
def test_a_data_file_that_is_gone_is_named(file, table, words):
    for data in (file.parent / "lake" / "shop_log" / table).rglob("*.parquet"):
        data.rename(data.with_suffix(".away"))
    at = 2 if words[0] == "quarantine" else 1
    code, _, said = watched(*words[:at], file, *words[at:])
    assert code == 1
    (path,) = re.findall(r"lost the data file (\S+), ", said)
    assert said == lost(Path(path))
    assert Path(path).with_suffix(".away").exists()


@pytest.mark.parametrize("total", ["total-records", "total-files-size"])
def test_a_large_table_is_left_to_spark(total):
    summary = {"total-records": "200000", "total-files-size": str(64 << 20)}
    lake = SimpleNamespace()

    def small() -> bool:
        snapshot = Snapshot(1, None, 0, summary)
        lake.metadata = lambda _: Metadata({1: snapshot}, {"main": 1}, frozenset(), {})
        return is_small(lake, State("lake.shop.orders", (), 1))

    assert small()
    summary[total] = str(int(summary[total]) + 1)
    assert not small()
    assert is_small(lake, State(None, ()))


def test_looking_makes_nothing(tmp_path):
    file = tmp_path / "shop.yaml"
    file.write_text(
        "name: shop\nsource: {files: {path: in}, envelope: canal}\nlake: {warehouse: lake}\n"
    )
    assert look("status", file)[0]["batch"] is None
    done = waybill("quarantine", "list", file)
    assert done.returncode == 2
    sentence = f"migration shop has no changes yet: run it first, `waybill run {file}`"
    assert sentence in done.stderr.decode()
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("catalog", ["{type: hadoop}", "{type: rest, uri: 'http://127.0.0.1:9'}"])
def test_a_catalog_that_only_spark_can_open(tmp_path, catalog):
    file = tmp_path / "shop.yaml"
    file.write_text(
        "name: shop\nsource: {files: {path: in}, envelope: canal}\n"
        f"lake: {{warehouse: lake, catalog: {catalog}}}\n"
    )
    assert LakeWithoutSpark.open(load_migration(file)) is None
    done = waybill("status", file, JAVA_HOME="/nowhere")
    assert b"only Spark can open this catalog, starting it takes some seconds" in done.stderr


def test_the_order_of_a_change_by_its_source_time():
    none, place = order_key(None, 1, 0, 5, 0, False), order_key((3,), 1, 0, 5, 0, False)
    assert order_of(none, TIME, by_source_time=False) == none
    assert order_of(place, TIME, by_source_time=True) == place
    micros = 1767323045678901
    assert order_of(none, TIME, by_source_time=True) == f"1/{order_number(micros)}{none[2:]}"
    assert order_of(none, None, by_source_time=True) == f"1/{order_number(0)}{none[2:]}"
    before = datetime(1969, 1, 1, 0, 0, 0, 5, UTC)
    assert order_of(none, before, by_source_time=True) == f"1/{order_number(0)}{none[2:]}"


def test_a_catalog_server_that_is_away_is_reported_at_once(tmp_path):
    file = tmp_path / "shop.yaml"
    uri = f"jdbc:postgresql://127.0.0.1:{free_port()}/lake"
    file.write_text(
        "name: shop\nsource: {files: {path: in}, envelope: canal}\n"
        f"lake: {{warehouse: lake, catalog: {{type: jdbc, uri: '{uri}'}}}}\n"
    )
    done = waybill("status", file, JAVA_HOME="/nowhere")
    assert done.returncode == 1
    assert done.stderr.decode() == (
        f"waybill: WB-7201: the catalog at {uri} cannot be reached: run again when it can, or "
        "fix its uri\n"
    )


def test_what_cannot_be_run_is_said_before_spark_starts(file):
    for words, sentence in (
        (("--batch", "a b"), "'a b' is not a batch id"),
        (("--until-time", "2026-11-20"), "the source of shop is in files, which cannot be read up"),
    ):
        done = waybill("run", file, *words, JAVA_HOME="/nowhere")
        assert done.returncode == 2
        assert sentence in done.stderr.decode()
