"""`waybill init` of files: samples, places, and input that is nothing, or not what it seems."""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path

import pytest

from tests.terminal import PROJECT
from tests.unit.cli.command_line import waybill
from tests.unit.cli.drafting import decided, drafted, wrong
from tests.unit.cli.test_init_conversation import canal, maxwell
from waybill.cli.drafts import file_sample
from waybill.cli.drafts.source_look import SAMPLE, look
from waybill.cli.init import InitOptions, init_command
from waybill.errors import ConfigurationError, WaybillError
from waybill.spec.file import load_migration


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WAYBILL_LAKE", raising=False)
    monkeypatch.delenv("WAYBILL_MIGRATIONS", raising=False)


def lines(*messages: object) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def refused(**options: object) -> str:
    """The one sentence that it ends with."""
    with pytest.raises(WaybillError) as error:
        init_command(InitOptions(**options, json=True))
    assert error.value.exit_code in (1, 2)
    assert "\n" not in str(error.value)
    assert list(Path().glob("*.yaml")) == []
    return str(error.value)


# Samples


def test_the_shop_as_a_folder(tmp_path, capsys):
    """A file of another kind beside the topic is left out by a pattern."""
    data = drafted(capsys, source=str(PROJECT / "samples" / "shop"), targets=["canal"])
    assert (data["code"], wrong(data), data["envelope"]) == (0, [], "oms-default")
    assert {table["table"] for table in data["tables"]} == {"shop.customers", "shop.orders"}
    orders = next(table for table in data["tables"] if table["table"] == "shop.orders")
    assert orders["key"] == ["id"]
    assert orders["columns"]["id"]["guess"] == "bigint unsigned"
    assert orders["order"] == "174 by id, 45 full rows"
    spec = load_migration(tmp_path / "shop.yaml")
    assert spec.source.files.path == str(PROJECT / "samples" / "shop" / "*.jsonl")
    assert spec.lake.warehouse == str(tmp_path / ".waybill" / "lake")
    text = (tmp_path / "shop.yaml").read_text(encoding="utf-8")
    assert "1 file of another kind left out, e.g. final.json" in text
    assert "# Refused: 1 (json)" in text
    assert "sequence_id, 244 in the sample: canal cannot carry" in text
    assert load_migration(decided(tmp_path / "shop.yaml")).tables["shop.orders"].columns


def test_a_recorded_stream_that_is_packed(tmp_path, capsys):
    """The database's dumps in a folder below are left out, too."""
    data = drafted(capsys, source=str(PROJECT / "samples" / "canal_mariadb"), targets=["maxwell"])
    assert (data["code"], wrong(data), data["envelope"]) == (0, [], "canal")
    path = load_migration(tmp_path / "canal_mariadb.yaml").source.files.path
    assert path == str(PROJECT / "samples" / "canal_mariadb" / "*.jsonl.gz")


def test_a_large_file_is_looked_at_from_both_ends(monkeypatch):
    """And only there: what is read of it is a part that does not grow with it."""
    Path("big.jsonl").write_bytes(
        lines(*map(maxwell, range(3000)))
        + lines(*(maxwell(i, table="late") for i in range(3000, 3400)))
    )
    monkeypatch.setattr(file_sample, "TO_THE_END", 100_000)
    monkeypatch.setattr(file_sample, "TAIL_BYTES", 10_000)
    found = look("big.jsonl", None, "", 100)
    assert len(found.head) == 75
    assert len(found.tail) == 25
    assert not found.whole
    assert all(b'"late"' in message.value for message in found.tail)
    assert [message.value for message in found.tail][-1] == Path("big.jsonl").read_bytes().split(
        b"\n"
    )[-2]
    offsets = [message.offset for message in found.messages]
    assert offsets == sorted(set(offsets))
    assert found.sampled == "75 messages from the beginning, 25 from the end"


def test_a_packed_file_is_read_to_its_end_once():
    values = lines(*map(maxwell, range(2000)))
    Path("in.jsonl.gz").write_bytes(gzip.compress(values))
    found = look("in.jsonl.gz", None, "", 100)
    assert [message.offset for message in found.tail] == list(range(1975, 2000))
    small = look("in.jsonl.gz", None, "", SAMPLE * 10)
    assert (len(small.messages), small.whole) == (2000, True)


def test_of_many_files_some_are_opened_the_last_among_them():
    Path("many").mkdir()
    for number in range(50):
        Path(f"many/{number:02}.jsonl").write_bytes(lines(maxwell(number)))
    found = look("many", None, "", 100)
    assert len(found.messages) == file_sample.FILES
    assert {message.partition for message in found.messages} >= {0, 49}
    assert not found.whole


def test_the_folder_of_migrations_is_where_files_go_if_there_is_one(tmp_path, capsys):
    Path("migrations").mkdir()
    Path("data").mkdir()
    Path("data/orders.jsonl").write_bytes(lines(*map(canal, range(3))))
    data = drafted(capsys, source="data", name="orders", targets=["ogg"])
    assert (data["code"], data["file"]) == (0, "migrations/orders.yaml")
    text = Path("migrations/orders.yaml").read_text(encoding="utf-8")
    assert "path: ../data " in text
    assert "path: ../out/orders/ogg " in text
    assert "warehouse" not in text
    spec = load_migration("migrations/orders.yaml")
    assert spec.source.files.path == str(tmp_path / "data")
    assert spec.lake.warehouse == str(tmp_path / ".waybill" / "lake")


def test_a_target_never_lies_where_the_source_is_read(capsys):
    Path("0.jsonl").write_bytes(lines(*map(canal, range(3))))
    data = drafted(capsys, source=".", name="all_here", targets=["canal", "canal"])
    assert (data["code"], wrong(data)) == (0, [])
    first, second = load_migration("all_here.yaml").publish
    assert (first.label, second.label) == ("canal", "canal-2")
    assert "/.waybill/out/" in first.files.path
    assert first.files.path != second.files.path


def test_what_options_declare_stands_in_the_file(capsys):
    Path("t.jsonl").write_bytes(lines(*map(maxwell, range(3))))
    Path("tables.yaml").write_text('{shop.log: {columns: {id: int}}, "x.*": {key: []}}')
    data = drafted(
        capsys,
        source="t.jsonl",
        tables=Path("tables.yaml"),
        keys=["shop.log=id,title", "shop.other="],
        settings=["timezone=Asia/Tokyo", "to.trailing_zeros=true"],
        targets=["oms-canal"],
    )
    assert (data["envelope"], data["code"]) == ("maxwell", 2), "a declared table is not there"
    spec = load_migration("t.yaml")
    assert spec.tables["shop.log"].key == ["id", "title"]
    assert spec.tables["shop.log"].columns == {"id": "int32"}
    assert (spec.tables["x.*"].key, spec.tables["shop.other"].key) == ([], [])
    assert spec.source.settings == {"timezone": "Asia/Tokyo"}
    assert spec.publish[0].settings == {"trailing_zeros": "true"}


# Files that are there


def test_no_file_is_replaced_unless_asked_to(capsys):
    Path("t.jsonl").write_bytes(lines(*map(canal, range(3))))
    Path("t.yaml").write_text("precious")
    with pytest.raises(ConfigurationError, match=r"t\.yaml is there already.*--force"):
        init_command(InitOptions("t.jsonl", json=True))
    with pytest.raises(ConfigurationError, match="there already"):
        init_command(InitOptions("no_source", output=Path("t.yaml"), json=True))
    assert Path("t.yaml").read_text() == "precious"
    assert drafted(capsys, source="t.jsonl", force=True)["code"] == 0
    assert load_migration("t.yaml").name == "t"
    assert sorted(path.name for path in Path().iterdir()) == ["t.jsonl", "t.yaml"]


def test_a_file_that_appears_meanwhile_stays(monkeypatch):
    """Between the look at the source and the writing somebody else writes."""
    Path("t.jsonl").write_bytes(lines(*map(canal, range(3))))
    from waybill.cli import init

    drawn = init.migration_text

    def late(draft):
        Path("t.yaml").write_text("precious")
        return drawn(draft)

    monkeypatch.setattr(init, "migration_text", late)
    with pytest.raises(ConfigurationError, match="there already"):
        init_command(InitOptions("t.jsonl", json=True))
    assert Path("t.yaml").read_text() == "precious"
    assert sorted(path.name for path in Path().iterdir()) == ["t.jsonl", "t.yaml"]


def test_what_no_migration_may_say_is_not_written(tmp_path):
    Path("t").mkdir()
    Path("t/0.jsonl").write_bytes(lines(*map(canal, range(3))))
    sentence = refused(source="t", targets=["maxwell=t/out"])
    assert "publishes files to" in sentence
    assert "which source.files reads" in sentence
    assert sorted(path.name for path in Path().iterdir()) == ["t"]


def test_a_folder_behind_a_link_is_named_from_where_the_file_is(tmp_path, capsys):
    """`../t` from the link would be another folder than from where it leads."""
    Path("real/deep/migrations").mkdir(parents=True)
    Path("real/deep/t.jsonl").write_bytes(lines(*map(canal, range(3))))
    Path("migrations").symlink_to("real/deep/migrations")
    data = drafted(capsys, source="real/deep/t.jsonl", targets=["maxwell"])
    assert (data["code"], wrong(data)) == (0, [])
    spec = load_migration("migrations/t.yaml")
    assert spec.source.files.path == str(tmp_path / "real" / "deep" / "t.jsonl")


def test_ids_that_a_topic_lacks_are_found_by_trying():
    """Messages of OMS without `storeDataSequence`: a setting says that the topic has none."""
    from waybill.cli.drafts.reading import read
    from waybill.tables import TableRules

    Path("t.jsonl").write_bytes(lines(*map(oms, range(4))))
    found = look("t.jsonl", None, "", 100)
    reading = read(found, None, {}, None, TableRules())
    assert reading.envelope.name == "oms-default"
    assert reading.settings == {"sequence_ids": "none"}
    assert "without storeDataSequence" in reading.setting_notes["sequence_ids"]
    assert reading.evidence.unsequenced == 4


def oms(number: int) -> dict[str, object]:
    about = {"checkpoint": None, "record_primary_key": "id", "record_primary_value": str(number)}
    about |= {"source_identity": None, "dbType": "OB_MYSQL", "storeDataSequence": None}
    about |= {"table_name": "orders", "db": "shop", "timestamp": "1700000000", "uniqueId": None}
    row = {"id": number, "title": "x"}
    return {"prevStruct": row, "postStruct": row, "allMetaData": about, "recordType": "UPDATE"}


def test_a_column_that_updates_leave_out_can_be_the_key(capsys):
    """Rows before hold what changed; the key is in the rows after."""
    inserts = [maxwell(i) for i in range(4)]
    updates = [{**maxwell(i, type="update"), "old": {"title": "y"}} for i in range(4)]
    Path("t.jsonl").write_bytes(lines(*inserts, *updates))
    data = drafted(capsys, source="t.jsonl")
    assert data["tables"][0]["key_guesses"][0] == ["id"]


# Input that is nothing, or not what it seems


MIXED = lines(*map(maxwell, range(9)), *map(canal, range(9)))
NOTHING = {
    "empty file": ({"t.jsonl": b""}, "holds no message"),
    "blank lines": ({"t.jsonl": b"\n\n\r\n"}, "none of its messages has a value"),
    "garbage": ({"t.bin": bytes(range(256)) * 9}, "no envelope fits"),
    "csv": ({"t.csv": b"id,name\n1,a\n2,b\n"}, "no envelope fits"),
    "avro container": ({"t.avro": b"Obj\x01" + b"x" * 99}, "an Avro container file"),
    "zip": ({"t.zip": b"PK\x03\x04" + b"x" * 99}, "a ZIP archive"),
    "mixture": ({"t.jsonl": MIXED}, "is a mixture: of 18 messages look like 9"),
    "packed without a name": ({"t.jsonl": gzip.compress(MIXED)}, "rename it to end in .gz"),
    "named packed": ({"t.jsonl.gz": MIXED}, "is not packed, whatever its name says"),
    "cut packed": ({"t.jsonl.gz": gzip.compress(os.urandom(9999))[:5000]}, "cannot be read to"),
    "one line without end": ({"t.jsonl": b"{}\n" * 9 + b"{" * 3_000_000}, "longer than 2 MiB"),
    "no parquet": ({"t.parquet": b"PAR1" + b"x" * 99}, "Parquet"),
}


@pytest.mark.parametrize(("files", "sentence"), NOTHING.values(), ids=NOTHING)
def test_what_holds_no_messages_ends_with_one_sentence(monkeypatch, files, sentence):
    monkeypatch.setattr(file_sample, "LARGEST", 2 << 20)
    for name, content in files.items():
        Path(name).write_bytes(content)
        assert sentence in refused(source=name)


def test_places_that_are_none(tmp_path):
    Path("empty").mkdir()
    assert "holds no message" in refused(source="empty")
    assert "there is no file or folder nowhere; a topic of Kafka is written" in refused(
        source="nowhere"
    )
    assert "not a pipe" in refused(source="-")
    assert r"a\x1b[31m cannot be written into a file" in refused(source="a\x1b[31m")
    assert "names no topic" in refused(source="kafka:")
    assert "names no topic" in refused(source="kafka:a b")
    Path("t.jsonl").write_bytes(lines(*map(canal, range(3))))
    assert "--connection is for a topic" in refused(source="t.jsonl", connection="mine")
    assert "give it a name that ends in .yaml" in refused(source="t.jsonl", output=Path("t.txt"))
    assert "there is no folder no/where" in refused(
        source="t.jsonl", output=Path("no/where/t.yaml")
    )
    assert "the name 'No'" in refused(source="t.jsonl", name="No")
    assert "did you mean 'canal'" in refused(source="t.jsonl", targets=["cannal"])
    assert "not a setting of canal" in refused(
        source="t.jsonl", targets=["canal"], settings=["to.shape=x"]
    )
    assert "name one with --to" in refused(source="t.jsonl", settings=["to.shape=x"])
    assert "--key shop.orders=id" in refused(source="t.jsonl", keys=["id"])


def test_a_login_in_place_of_servers_is_not_repeated():
    sentence = refused(source="kafka:orders", bootstrap="ann:s3cret@host:9092")
    assert "s3cret" not in sentence
    assert "--connection NAME" in sentence
    url = "registry=http://ann:s3cret@host:8081"
    Path("t.jsonl").write_bytes(lines(*map(canal, range(3))))
    sentence = refused(source="t.jsonl", targets=["debezium-avro"], settings=[f"to.{url}"])
    assert "s3cret" not in sentence


def test_no_value_of_a_row_stands_in_the_file(capsys):
    """The lake keeps the file's text, and pages show it to people who may not see rows."""
    wrong_one = {**canal(2), "data": [{"id": "DE89-3704", "v": "x"}]}
    Path("t.jsonl").write_bytes(lines(*map(canal, (0, 1, 3, 4)), wrong_one))
    drafted(capsys, source="t.jsonl", envelope="canal")
    text = Path("t.yaml").read_text(encoding="utf-8")
    told = " ".join(text.replace("#", "").split())
    assert re.search(r"Refused: 1 \(value\), the first at \S+/0/4; `waybill show` of", told)
    assert "DE89" not in text


def test_a_named_envelope_decides_where_two_are_mixed(capsys):
    Path("t.jsonl").write_bytes(MIXED)
    data = drafted(capsys, source="t.jsonl", envelope="canal")
    assert (data["code"], data["envelope"]) == (0, "canal")
    assert data["doubtful"] == "you named it, and the sample looks like maxwell or canal" or (
        data["doubtful"] == ""
    )
    text = Path("t.yaml").read_text(encoding="utf-8")
    assert "# Refused: 9" in text


def test_the_earlier_option_names_the_envelope():
    Path("t.jsonl").write_bytes(MIXED)
    done = waybill("init", "t.jsonl", "--format", "canal", "--json")
    assert json.loads(done.stdout)["envelope"] == "canal"
    done = waybill("init", "t.jsonl", "--format", "canal", "--envelope", "canal")
    assert done.returncode == 2
    assert b"--format is the earlier name of --envelope: leave one out" in done.stderr


EVIL = (
    "a: b",
    "${HOME}",
    "*",
    "x\ny: z",
    "#no",
    "\u2028",
    "'\"",
    "yes",
    "- a",
    "1e3",
    "\x85",
    "[bold]red[/]",
    "\x1b[31m",
    "数据",
    "{a}",
    "&a",
    "!!str",
    "0x1",
    "~",
)


@pytest.mark.parametrize("evil", EVIL, ids=ascii)
def test_names_that_could_be_taken_for_yaml_are_names(evil):
    """Of tables, columns and files: the file says what it would say with harmless names."""
    from waybill.cli.drafts.draft import Draft, DraftTarget
    from waybill.cli.drafts.migration_text import migration_text
    from waybill.cli.drafts.proven_types import proven_types
    from waybill.cli.drafts.reading import read
    from waybill.cli.drafts.target_trial import try_target
    from waybill.tables import TableRules

    # Quotes and controls are refused in names of columns, whatever is to become of them.
    column = "id" if any(c in '"\\' or c < " " for c in evil) else evil
    messages = [
        {**maxwell(i), "database": evil, "table": evil, "data": {column: i, "b": f"{i}-{evil}"}}
        for i in range(4)
    ]
    folder = Path("in", "".join(c for c in evil if c.isprintable() and c != "*") or "plain")
    folder.mkdir(parents=True)
    (folder / "0.jsonl").write_bytes(lines(*messages))
    found = look(str(folder), None, "", 100)
    reading = read(found, None, {}, None, TableRules())
    assert reading.envelope.name == "maxwell"
    draft = Draft(found, reading, Path("drawn_up.yaml"), "drawn_up")
    draft.guesses = proven_types(reading, found.messages, TableRules())
    trial = try_target(reading, "canal", {}, reading.evidence.changes)
    draft.targets = [DraftTarget("canal", trial, draft.output_folder("canal"))]
    Path("drawn_up.yaml").write_text(migration_text(draft), encoding="utf-8")
    spec = load_migration("drawn_up.yaml")
    assert (spec.source.files.path, spec.tables) == (str(folder.absolute()), {})
    table = load_migration(decided(Path("drawn_up.yaml"))).tables.get(f"{evil}.{evil}")
    if "${" in evil or "*" in evil:
        assert table is None, "a variable or a pattern is not declared"
    else:
        assert table is not None
        assert table.key == [column]
        assert table.columns == {column: "bigint"}
