"""`waybill show`: what stands in messages, for people and for programs."""

from __future__ import annotations

import io
import json
import sys
from typing import NamedTuple

import pytest

from tests.terminal import on_terminal
from tests.unit.inprocess.test_converter import EXACT, canal, history


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def waybill(capsys, monkeypatch):
    """Runs the command in this process, into a pipe."""
    from waybill.cli import main

    def run(*words: object, given: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        with pytest.raises(SystemExit) as end:
            main([str(word) for word in words])
        return Done(end.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def shown(waybill):
    def show(*words: object) -> str:
        done = waybill("show", *words)
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout
        return done.stdout

    return show


@pytest.fixture
def data(shown):
    return lambda *words: [json.loads(line) for line in shown(*words, "--json").split("\n")[:-1]]


def envelope(op: str, before, after, **more) -> dict[str, object]:
    source = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "notes"}
    return {"op": op, "before": before, "after": after, "source": source, "ts_ms": 1, **more}


UNAVAILABLE = "__debezium_unavailable_value"
NOTES = [
    envelope("u", {"id": 1, "a": "null", "b": None}, {"id": 1, "a": None, "b": "(not sent)"}),
    envelope("c", None, {"id": 2, "a": "x" * 1000, "b": UNAVAILABLE}),
    envelope("u", None, {"id": 2, "a": "\x1b[31mred\n", "b": UNAVAILABLE}),
    envelope("t", None, None),
]


@pytest.fixture
def notes(tmp_path):
    path = tmp_path / "notes.jsonl"
    rows = [json.dumps(note).encode() for note in NOTES]
    path.write_bytes(b"\n".join([*rows, b'{"op": "u"', b"null", b""]))
    return path


@pytest.fixture
def orders(tmp_path):
    path = tmp_path / "orders.jsonl"
    bad = [
        b"{",
        b"\xff\x00\x01" + bytes(600),
        canal(9, data=[{"id": 9}]),
        canal(9, "QUERY", data=None),
    ]
    path.write_bytes(b"\n".join([*history(6), *bad, b""]))
    return path


def entry_at(text: str, place: str) -> list[str]:
    """The lines of one entry, without their margins."""
    found = [block for block in text.split("\n\n") if block.startswith(f"{place}  ")]
    assert len(found) == 1, text
    return [" ".join(line.split()) for line in found[0].splitlines()]


def test_images_stand_side_by_side_and_changes_are_marked(shown, orders):
    found = entry_at(shown(orders), "orders/0/1")
    assert found[0] == "orders/0/1 shop.orders update"
    assert found[1] == "no sequence, the position is its order; time 2023-11-14T22:13:20.001000Z"
    assert found[2:] == [
        "column type before after",
        "k id bigint(20) 1 1",
        f"total decimal(60,20) {EXACT} {EXACT}",
        '* note varchar(9) "x" "\\u2028 é"',
    ]


def test_null_absent_and_texts_that_look_like_them_differ(shown, notes):
    text = shown(notes)
    assert entry_at(text, "notes/0/0")[3:] == [
        "id number 1 1",
        '* a string "null" null',
        '* b string null "(not sent)"',
    ]
    found = entry_at(text, "notes/0/2")
    assert found[-2:] == ['a string "\\u001b[31mred\\n"', "b string (not sent)"]


def test_only_the_sides_that_there_are_have_a_column(shown, notes):
    text = shown(notes)
    assert entry_at(text, "notes/0/1")[2] == "column type after"
    assert entry_at(text, "notes/0/3") == [
        "notes/0/3 shop.public.notes truncate",
        "no sequence, the position is its order",
    ]


def test_long_values_are_cut_unless_they_are_asked_for(shown, notes):
    found = entry_at(shown(notes), "notes/0/1")
    assert f'"{"x" * 200}"… (800 characters more; --full shows all)' in found[4]
    assert f'"{"x" * 1000}"' in shown(notes, "--full")


def test_what_is_refused_is_shown_with_the_reason_and_the_bytes(shown, orders):
    text = shown(orders, "--only", "refused")
    assert text.count("refused (json)") == 2
    found = entry_at(text, "orders/0/6")
    assert found[0] == "orders/0/6 refused (json)"
    assert found[1].startswith("the message is not JSON: ")
    assert found[2:] == ["value, 1 byte:", "{"]
    binary = entry_at(text, "orders/0/7")
    assert binary[3] == "000000 ff 00 01" + " 00" * 13 + " " + "." * 16
    assert binary[-1] == "… 123 bytes more; --full shows all"


def test_a_row_that_the_conversion_refuses_is_shown_as_refused(shown, tmp_path):
    clock = {"table": "SHOP.T", "op_type": "I", "op_ts": "2023-11-14 22:13:20.000000"}
    clock |= {"pos": "7", "primary_keys": ["id"], "after": {"id": 1, "ts": "2020-03-01 05:00:00"}}
    topic = tmp_path / "t.jsonl"
    topic.write_text(json.dumps(clock) + "\n")
    tables = tmp_path / "tables.json"
    tables.write_text('{"SHOP.T": {"columns": {"ts": "timestamptz"}}}')
    text = shown(topic, "--from", "ogg", "--tables", tables)
    found = entry_at(text, "t/0/0")
    assert found[0] == "t/0/0 refused (value)"
    assert found[1].startswith("column 'ts' is timestamptz, and '2020-03-01 05:00:00")
    assert shown(topic, "--from", "ogg", "--tables", tables, "--only", "changes") == ""


def test_the_bytes_of_a_message_with_several_refused_rows_stand_there_once(shown, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_bytes(canal(1, data=[{"id": 1}, {"id": 2}]) + b"\n")
    text = shown(path, "--from", "canal")
    assert text.count("refused (shape)") == 2
    assert text.count("bytes:") == 1


def test_what_is_skipped_says_why(shown, orders, notes):
    assert "notes/0/5  skipped: tombstone" in shown(notes, "--only", "skipped")
    assert "skipped: statement text" in shown(orders, "--offset", "9")


def test_for_programs_every_digit_and_no_column_that_was_not_sent(data, orders, notes):
    update = data(orders)[1]
    assert update["changed"] == ["note"]
    assert update["before"] == {"id": "1", "total": EXACT, "note": "x"}
    assert update["after"]["total"] == EXACT
    assert (update["key"], update["old_key"], update["operation"]) == ({"id": "1"}, None, "update")
    refused = data(orders, "--only", "refused")
    assert [row["offset"] for row in refused][:2] == [6, 7]
    assert refused[0]["value"] == "{"
    assert refused[1]["value_base64"]
    assert data(notes)[2]["after"] == {"id": "2", "a": "\x1b[31mred\n"}


def test_for_programs_what_a_family_carries_on_keeps_its_digits(shown, tmp_path):
    path = tmp_path / "in.jsonl"
    meta = '{"table_name":"t","db":"d","record_primary_key":"id","more":1.10,"big":1e400}'
    row = '{"recordType":"INSERT","prevStruct":null,"postStruct":{"id":1}'
    path.write_text(f'{row},"allMetaData":{meta}}}\n')
    assert '"more":1.10,"big":1e400' in shown(path, "--json")


def test_a_choice_of_table_offsets_and_number(data, waybill, orders):
    assert [row["offset"] for row in data(orders, "--offset", "2-4")] == [2, 3, 4]
    assert [row["offset"] for row in data(orders, "--offset", "-1")] == [0, 1]
    assert [row["offset"] for row in data(orders, "--offset", "8-")] == [8, 9]
    assert len(data(orders, "--limit", "3")) == 3
    assert data(orders, "--table", "other.*") == []
    assert len(data(orders, "--table", "shop.*")) == 7
    done = waybill("show", orders, "--limit", "3")
    assert done.stderr == "only the first 3; --limit shows more, --limit 0 all\n"


def test_two_messages_of_one_update_are_one(shown, waybill, tmp_path):
    lines, blob = tmp_path / "in.jsonl", tmp_path / "blob.jsonl"
    lines.write_bytes(canal(1, "UPDATE") + b"\n")
    done = waybill("convert", "--from", "canal", "--to", "datahub-blob", lines, blob)
    assert done.returncode == 0
    found = entry_at(shown(blob), "blob/0/1")
    assert found[0] == "blob/0/1 shop.orders update"
    assert "an update in two messages, the first at offset 0" in found
    blob.write_bytes(blob.read_bytes().split(b"\n")[0])
    shown_entry = entry_at(shown(blob), "blob/0/0")
    assert "half of an update: the row before it; the row after it was not found" in shown_entry


def test_a_change_of_the_key_tells_the_old_one(shown, data, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_bytes(canal(1, "UPDATE", old=[{"id": "0"}]) + b"\n")
    assert "the key changed, it was id 0" in entry_at(shown(path), "in/0/0")
    assert data(path)[0]["old_key"] == {"id": "0"}


def test_a_pipe_is_shown_as_it_comes(waybill):
    done = waybill("show", "-", "--json", given=b"\n".join(history(3)))
    assert [json.loads(line)["offset"] for line in done.stdout.split("\n")[:-1]] == [0, 1, 2]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("no.jsonl",), "cannot be read (No such file or directory)"),
        ((".",), "is a folder; name one of the files in it"),
        (("-",), "it holds no message"),
        (("-", "--from", "canl"), "did you mean 'canal'"),
        (("-", "--from", "canal", "--only", "x"), "write one of changes, refused, skipped"),
        (("-", "--from", "canal", "--offset", "9-7"), "write 7, 7-9, 7- or -9"),
        (("-", "--from", "canal", "--layout", "x"), "known: lines, kcat, parquet, whole"),
        (("-", "--from", "canal", "--set", "x=1"), "from.x is not a setting of canal"),
        (("-", "--from", "canal", "--set", "x"), "write --set KEY=VALUE"),
        (("-", "--from", "canal", "--layout", "parquet"), "Parquet is read from a file"),
    ],
)
def test_what_is_wrong_is_one_sentence(waybill, words, sentence):
    done = waybill("show", *words, given=b"")
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


# Terminals


@pytest.mark.parametrize("width", [80, 150])
def test_nothing_is_wider_than_the_terminal(orders, width):
    coloured, plain = on_terminal(width, "show", orders, "--limit", "4")
    assert max(map(len, plain.splitlines())) <= width
    assert "\x1b[" in coloured
    assert EXACT[:20] in plain


@pytest.mark.parametrize("width", [80, 120, 150])
def test_the_matrix_of_the_formats_fits_the_terminal(width):
    from waybill.envelopes import registry

    _, plain = on_terminal(width, "envelopes")
    assert max(map(len, plain.splitlines())) <= width
    assert plain.count("before image") == -(-len(registry.names()) // ((width - 20) // 12))
    for part in {part for name in registry.names() for part in name.split("-")}:
        assert part in plain


def test_detect_on_a_terminal_and_for_programs(waybill, orders):
    _, plain = on_terminal(80, "detect", orders)
    assert plain.splitlines()[0].endswith("orders.jsonl: canal")
    assert "its own: data, database, es, gtid, id, isDdl, mysqlType, old and 6 more" in plain
    assert max(map(len, plain.splitlines()[1:])) <= 80
    done = waybill("detect", orders, "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert (found["verdict"], found["envelopes"], found["layout"]) == ("one", ["canal"], "lines")
    assert found["candidates"][0]["read"] == 7
    nothing = waybill("detect", "-", given=b"no JSON")
    assert nothing.returncode == 2
    assert "no envelope fits: every decoder refuses all of it (1 message;" in nothing.stdout
