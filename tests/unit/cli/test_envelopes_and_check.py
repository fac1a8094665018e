"""`waybill envelopes` and `waybill check`, as people run them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.command_line import waybill, waybill_process
from tests.unit.inprocess.test_converter import canal, history
from waybill.cli.envelopes import settings_of
from waybill.envelopes import registry


def test_envelopes_as_a_matrix_and_as_json():
    table = waybill_process("envelopes").stdout.decode()
    assert "debezium-json" in table
    assert "unchanged columns" in table
    rows = [json.loads(line) for line in waybill("envelopes", "--json").stdout.splitlines()]
    assert [row["name"] for row in rows] == [envelope.name for envelope in registry.all_envelopes()]
    for row in rows:
        for setting in (*row["decode_settings"], *row["encode_settings"]):
            assert setting["meaning"], (row["name"], setting["name"])


def test_one_envelope_with_its_settings():
    output = waybill("envelopes", "debezium-json").stdout.decode()
    assert "unavailable" in output
    assert "tombstones" in output
    (row,) = waybill("envelopes", "canal", "--json").stdout.splitlines()
    assert json.loads(row)["name"] == "canal"


def test_the_earlier_name_still_works_and_is_not_shown():
    assert waybill("formats", "canal").stdout == waybill("envelopes", "canal").stdout
    assert b"  formats " not in waybill("--help").stdout
    assert b"--format" not in waybill("init", "--help").stdout


def test_what_an_envelope_has_and_nobody_writes():
    output = waybill("envelopes", "ogg").stdout.decode()
    assert "not written" in output
    assert "current_ts" in output
    (row,) = waybill("envelopes", "ogg", "--json").stdout.splitlines()
    assert json.loads(row)["not_written"]["tokens"]


@pytest.mark.parametrize("side", ["decode_settings", "encode_settings"])
def test_what_is_shown_of_a_setting_is_one_line_and_its_default_can_be_set(side):
    for envelope in registry.all_envelopes():
        model = getattr(envelope, side)
        for setting in settings_of(model):
            assert "\n" not in setting["meaning"], (envelope.name, setting["name"])
            if not setting["required"]:
                model.model_validate({setting["name"]: setting["default"]})
    assert "\\n" not in waybill("envelopes", "databus-binary").stdout.decode()


def test_a_limit_of_a_setting_is_shown_for_its_envelope_and_for_the_target_that_has_it(tmp_path):
    limit = "with lobs: unchanged, a LOB column that is null in both rows"
    assert limit in waybill("envelopes", "oms-default").stdout.decode()
    (row,) = waybill("envelopes", "oms-default", "--json").stdout.splitlines()
    (limit_of,) = json.loads(row)["limits_of_settings"]
    assert limit_of["text"].startswith(limit)
    target = {"envelope": "datahub-tuple", "files": {"path": "out"}}
    lines = [canal(1)]
    file = migration(tmp_path, lines, publish=[{**target, "settings": {"source_table": "name"}}])
    source = {"files": {"path": "in"}, "envelope": "ogg"}
    file.write_text(json.dumps({**json.loads(file.read_text()), "source": source}))
    said = findings(file, 2)["target datahub-tuple"]
    assert any(text.startswith("note schema_name: with source_table: name") for text in said)


def migration(tmp_path: Path, source: list[bytes], **fields: object) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "0.jsonl").write_bytes(b"".join(message + b"\n" for message in source))
    data = {
        "name": "shop",
        "source": {"files": {"path": "in"}, "envelope": "canal"},
        "publish": [{"envelope": "oms-default", "files": {"path": "out"}}],
        "lake": {"warehouse": "lake"},
        **fields,
    }
    file = tmp_path / "shop.json"
    file.write_text(json.dumps(data))
    return file


def findings(file: Path, code: int = 0) -> dict[str, list[str]]:
    done = waybill("check", file, "--json")
    assert done.returncode == code, done.stdout
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        row = json.loads(line)
        found.setdefault(row["about"], []).append(f"{row['verdict']} {row['text']}")
    return found


def test_check_tells_losses_and_tries_a_sample_without_moving_anything(tmp_path):
    file = migration(tmp_path, [*history(6), b"{"])
    found = findings(file)
    assert found["source"][0].startswith("ok 1 file,")
    assert found["sample"][0].startswith("note the first 7 messages bring 6 changes, 1 is")
    assert any(text.startswith("note types: ") for text in found["target oms-default"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "shop.json"]
    assert b"ready to run" in waybill_process("check", file).stdout


def test_check_ends_with_2_when_something_must_be_mended(tmp_path):
    file = migration(tmp_path, history(1), on_loss="fail")
    assert findings(file, 2)["losses"][0].startswith(
        "wrong WB-1104: canal to oms-default would lose"
    )
    assert waybill("check", file).returncode == 2
    (tmp_path / "in/0.jsonl").unlink()
    (tmp_path / "in").rmdir()
    assert findings(file, 2)["source"][0].startswith("wrong WB-2001: there is no file or folder")


def test_check_warns_of_tables_that_nobody_describes(tmp_path):
    file = migration(tmp_path, [canal(1, pkNames=None, mysqlType=None)])
    texts = findings(file)["table shop.orders"]
    assert any("do not say the types of 3 columns" in text for text in texts)
    assert any("has no key" in text for text in texts)


def test_what_others_named_cannot_move_the_cursor(tmp_path):
    file = migration(tmp_path, [canal(1, table="\x1b[31mred", pkNames=None)])
    assert b"\x1b" not in waybill("check", file).stdout
