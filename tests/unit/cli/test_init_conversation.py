"""`waybill init` on a terminal: what it asks, what becomes of answers, and when it asks nothing."""

from __future__ import annotations

import json

import pytest

from tests.terminal import conversation
from tests.unit.cli.command_line import waybill
from tests.unit.cli.drafting import golden_options
from tests.unit.inprocess.test_detect import own_cases
from waybill.spec.file import load_migration

CTRL_D = "\x04"


def maxwell(number: int, **more: object) -> dict[str, object]:
    row = {"id": number, "amount": f"{number}.50", "title": "x [bold]"}
    return {"database": "shop", "table": "log", "type": "insert", "ts": 1, "data": row, **more}


def canal(number: int) -> dict[str, object]:
    return {
        "data": [{"id": str(number), "placed": "2026-11-20 08:00:00"}],
        "database": "shop",
        "es": 1700000000000,
        "id": number,
        "isDdl": False,
        "mysqlType": {"id": "bigint(20)", "placed": "timestamp"},
        "old": None,
        "pkNames": ["id"],
        "sql": "",
        "sqlType": {"id": -5, "placed": 93},
        "table": "orders",
        "ts": 1700000000350,
        "type": "INSERT",
    }


@pytest.fixture
def log(tmp_path):
    """Rows of a table without key, without types, with and without a position."""
    folder = tmp_path / "log"
    folder.mkdir()
    lines = [maxwell(i, **({"position": f"b.000001:{i}"} if i % 2 else {})) for i in range(20)]
    (folder / "0.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder


def test_a_person_answers(log, tmp_path):
    """Wrong answers are asked for again; everything else becomes a field."""
    answers = [
        ("Name of the migration (log):", "No Good\n"),
        ("use lower-case letters", "shop_log2\n"),
        ("File to write (shop_log2.yaml):", "\n"),
        ("Publish in which envelope (Enter for none):", "cannal\n"),
        ("did you mean", "datahub-blob\n"),
        ("To which folder, or kafka:TOPIC", "\n"),
        ("Publish in another envelope", "canal\n"),
        ("To which folder", "published\n"),
        ("Publish in another envelope", "\n"),
        ("Key of shop.log", "no_such_column\n"),
        ("there is no column 'no_such_column'", "id\n"),
        ("Declare the types that hold the sample", "y\n"),
        ("Make ids from the position", "y\n"),
    ]
    _, said, code = conversation(100, answers, "init", log, folder=tmp_path)
    assert code == 0, said
    assert "10 of 20 changes have no sequence id" in said
    spec = load_migration(tmp_path / "shop_log2.yaml")
    assert spec.tables["shop.log"].key == ["id"]
    assert spec.tables["shop.log"].columns["id"] == "bigint"
    blob, other = spec.publish
    assert (blob.envelope, blob.settings) == ("datahub-blob", {"sequence_from": "position"})
    assert blob.files.path == str(tmp_path / "out" / "shop_log2" / "datahub-blob")
    assert (other.envelope, other.files.path) == ("canal", str(tmp_path / "published"))
    assert "ready to run" in said
    assert said.rstrip().endswith(f"next: waybill run {tmp_path / 'shop_log2.yaml'}")


def test_enter_takes_what_is_proposed_and_a_dash_leaves_open(log, tmp_path):
    answers = [
        ("Name of the migration", "\n"),
        ("File to write", "\n"),
        ("Publish in which envelope", "\n"),
        ("Key of shop.log", "-\n"),
        ("Declare the types", "\n"),
    ]
    _, said, code = conversation(100, answers, "init", log, folder=tmp_path)
    assert code == 0, said
    spec = load_migration(tmp_path / "log.yaml")
    assert (spec.tables, spec.publish) == ({}, [])
    text = " ".join((tmp_path / "log.yaml").read_text(encoding="utf-8").split())
    assert "id has 20 different values in 20 new rows, and no null" in text.replace("# ", "")
    assert "DECIDE: the types of shop.log" in text


def test_the_time_zone_of_clocks_is_asked_for(tmp_path):
    lines = "".join(f"{json.dumps(canal(i))}\n" for i in range(3))
    (tmp_path / "orders.jsonl").write_text(lines)
    answers = [
        ("Name of the migration", "\n"),
        ("File to write", "\n"),
        ("Publish in which envelope", "\n"),
        ("3 times in shop.orders.placed show a server's clock, no zone", ""),
        ("Time zone of that clock (UTC):", "Mars/Olympus\n"),
        ("Time zone of that clock (UTC):", "Asia/Shanghai\n"),
    ]
    _, said, code = conversation(100, answers, "init", "orders.jsonl", folder=tmp_path)
    assert code == 0, said
    spec = load_migration(tmp_path / "orders.yaml")
    assert spec.source.settings == {"timezone": "Asia/Shanghai"}


def test_of_two_envelopes_a_person_says_which_and_where_the_schemas_are(tmp_path):
    path = next(path for path in own_cases("ibmcdc-avro") if path.stem == "row_null_and_delete")
    golden_options(tmp_path, path)
    answers = [
        ("debezium-avro and ibmcdc-avro fit equally well", ""),
        ("Which is it", "\n"),
        ("Which is it", "ibmcdc-avro\n"),
        ("nothing of the sample can be read as ibmcdc-avro", ""),
        ("URL of the schema registry, or file or folder of schemas", "nowhere.json\n"),
        ("there is no file or folder nowhere.json", "http://ann:s3cret@host\n"),
        ("holds credentials", "schemas.json\n"),
        ("Name of the migration", "topic\n"),
        ("File to write", "\n"),
        ("Publish in which envelope", "\n"),
    ]
    _, said, code = conversation(100, answers, "init", "in", folder=tmp_path)
    assert code == 0, said
    source = load_migration(tmp_path / "topic.yaml").source
    assert (source.envelope, source.settings) == ("ibmcdc-avro", {})
    assert source.schemas.file == str(tmp_path / "schemas.json")


def test_a_file_that_is_there_stays_and_another_is_asked_for(log, tmp_path):
    (tmp_path / "log.yaml").write_text("precious")
    answers = [
        ("Name of the migration", "\n"),
        ("File to write", "\n"),
        ("log.yaml is there already", "other.yaml\n"),
        ("Publish in which envelope", "\n"),
        ("Key of shop.log", "\n"),
        ("Declare the types", "n\n"),
    ]
    _, said, code = conversation(100, answers, "init", log, folder=tmp_path)
    assert code == 0, said
    assert (tmp_path / "log.yaml").read_text() == "precious"
    assert load_migration(tmp_path / "other.yaml").tables["shop.log"].key == ["id"]


def test_the_end_of_the_input_ends_it_and_writes_nothing(log, tmp_path):
    answers = [("Name of the migration", "\n"), ("File to write", CTRL_D)]
    _, said, code = conversation(100, answers, "init", log, folder=tmp_path)
    assert code == 130
    assert "waybill: interrupted" in said
    assert list(tmp_path.glob("*.yaml")) == []


def test_on_a_terminal_nothing_is_asked_if_set_so(log, tmp_path):
    _, said, code = conversation(100, [], "init", log, "--no-input", folder=tmp_path)
    assert code == 0, said
    assert load_migration(tmp_path / "log.yaml").name == "log"


def test_without_a_terminal_nothing_is_asked(log, tmp_path):
    """Whatever stands in the input: it is not read."""
    done = waybill("init", log, "-o", tmp_path / "a.yaml", given=b"nonsense\n" * 9)
    assert done.returncode == 0, done.stderr
    assert b"next: waybill run" in done.stdout
    assert load_migration(tmp_path / "a.yaml").name == "log"
