"""The command line, as a process and through its own runner."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from rich.text import Text
from typer.main import get_command

from tests.unit.cli.command_line import CONVERT, PROJECT, messages_in, waybill, waybill_process
from tests.unit.inprocess.test_converter import canal
from waybill import jobs
from waybill.cli.group import EXAMPLE
from waybill.cli.upkeep import upkeep_command
from waybill.cli.waybill_table import row_of
from waybill.errors import GateError
from waybill.jobs import keep_lake
from waybill.overview.row_changes import key_as_text
from waybill.report import StageReport
from waybill.spec.migration import Migration
from waybill.stage_context import Options


@pytest.fixture
def messages(tmp_path):
    return messages_in(tmp_path)


def test_help_teaches_every_command():
    done = waybill_process("--help")
    assert done.returncode == 0
    for command in (
        "run",
        "convert",
        "detect",
        "show",
        "table",
        "changes",
        "quarantine",
        "status",
        "envelopes",
        "check",
    ):
        assert command in done.stdout.decode()


@pytest.mark.parametrize(
    "command",
    [
        ["run"],
        ["convert"],
        ["detect"],
        ["show"],
        ["table"],
        ["changes"],
        ["quarantine", "list"],
        ["quarantine", "show"],
        ["status"],
        ["envelopes"],
        ["check"],
    ],
    ids=" ".join,
)
def test_every_command_shows_an_example(command):
    from typer.testing import CliRunner

    from waybill.cli.app import app

    output = CliRunner().invoke(app, [*command, "--help"]).output
    assert f"Example:  waybill {' '.join(command)}" in output or "| waybill" in output


def test_help_breaks_where_the_terminal_ends():
    """And an example stands on one line of 80 columns."""
    from typer.testing import CliRunner

    from waybill.cli.app import app

    output = CliRunner().invoke(app, ["convert", "--help"], env={"COLUMNS": "80"}).output
    assert "Parquet has       \n Kafka's columns. Works in bounded memory whatever the" in output
    commands = [get_command(app)]
    for command in commands:
        commands += getattr(command, "commands", {}).values()
        for line in (command.help or "").split("\n"):
            if line.startswith(EXAMPLE):
                assert len(Text.from_markup(line)) <= 78, line


def test_the_version():
    from importlib.metadata import version

    assert waybill_process("--version").stdout.decode() == f"waybill {version('waybill')}\n"


HELD = """
import sys
from waybill import cli, jobs
from waybill.errors import GateError
from waybill.report import StageReport

def held(_spec, **more):
    more["on_stage"](StageReport("snapshot", "b1"))
    raise GateError("the batch does not pass the gate")

jobs.run_migration = held
cli.main(sys.argv[1:])
"""


@pytest.mark.parametrize("words", [["--json"], []])
def test_a_run_that_failed_has_failed_whoever_reads_its_waybill(tmp_path, words):
    file = tmp_path / "m.yaml"
    file.write_text("name: m\nsource: {files: {path: in}, envelope: canal}\n")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", HELD, "run", str(file), *words],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT / "spark_jobs")},
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (3, b"waybill: the batch does not pass the gate\n")


JUDGED = HELD.replace(
    'raise GateError("the batch does not pass the gate")',
    """import logging
    logging.getLogger("waybill").info("validate: looks")
    raise GateError("the batch does not pass the gate")""",
)


def test_a_run_says_what_it_does_in_a_pipe_too(tmp_path):
    file = tmp_path / "m.yaml"
    file.write_text("name: m\nsource: {files: {path: in}, envelope: canal}\n")
    done = subprocess.run(
        [sys.executable, "-c", JUDGED, "run", str(file), "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT / "spark_jobs")},
    )
    assert done.returncode == 3
    line, end = done.stderr.splitlines()
    assert line.endswith("validate: looks")
    assert end == "waybill: the batch does not pass the gate"
    assert json.loads(done.stdout)["stages"][0]["stage"] == "snapshot"


def test_the_account_of_a_gate_that_says_no_is_given(monkeypatch):
    report = StageReport("validate", "b1", details={"outcome": "failed"})

    def says_no(*_given, **_more):
        raise GateError("no", report.to_dict())

    @contextmanager
    def nothing(*_given):
        yield None

    monkeypatch.setattr(jobs, "run_stage", says_no)
    monkeypatch.setattr(jobs, "_session", nothing)
    spec = Migration.model_validate(
        {
            "name": "m",
            "source": {"files": {"path": "in"}, "envelope": "canal"},
            "lake": {"warehouse": "lake"},
        }
    )
    given: list[StageReport] = []
    with pytest.raises(GateError, match="no"):
        jobs.run_migration(spec, batch="b1", on_stage=given.append)
    assert given == [report]
    result = jobs.result_of("validate", spec, "b1", Options())
    assert result["error"]["exit_code"] == 3
    assert result["report"]["details"] == {"outcome": "failed"}
    again = pickle.loads(pickle.dumps(GateError("no", report.to_dict())))
    assert (str(again), again.report) == ("no", report.to_dict())


def test_tables_complete_what_the_messages_leave_out(tmp_path):
    oms = tmp_path / "oms.jsonl"
    source = tmp_path / "in.jsonl"
    source.write_bytes(canal(1) + b"\n")
    assert waybill("convert", "--from", "canal", "--to", "oms-default", source, oms).returncode == 0
    tables = tmp_path / "tables.yaml"
    tables.write_text("shop.orders: {key: [id], columns: {id: bigint, total: 'decimal(60,20)'}}\n")
    out = tmp_path / "out.jsonl"
    done = waybill(
        *("convert", "--from", "oms-default", "--to", "canal", oms, out, "--tables", tables)
    )
    assert done.returncode == 0, done.stderr
    flat = json.loads(out.read_bytes())
    assert flat["pkNames"] == ["id"]
    assert flat["data"] == json.loads(canal(1))["data"]


# What starting costs is the loading of libraries.
AT_THE_START = {
    "annotated_types",
    "msgspec",
    "pydantic",
    "pydantic_core",
    "rich",
    "shellingham",
    "typer",
}
THEIR_OWN = {"annotated_doc", "typing_extensions", "typing_inspection", "waybill"}
LOADED = """
import atexit, runpy, sys
tops = lambda: {name.partition(".")[0] for name in sys.modules}
known = tops() | sys.stdlib_module_names
atexit.register(lambda: print(*(m for m in tops() - known if m[0] != "_"), file=sys.stderr))
runpy.run_module("waybill.cli", run_name="__main__")
"""


@pytest.mark.parametrize("command", ["convert", "show", "detect"])
def test_a_few_messages_load_no_heavy_library(command, messages):
    words = {
        "convert": ("--from", "canal", "--to", "debezium-json", messages, "-"),
        "show": ("--from", "canal", messages),
        "detect": (messages,),
    }[command]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "spark_jobs")}
    done = subprocess.run(
        [sys.executable, "-c", LOADED, command, *map(str, words)],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "waybill" in loaded
    assert loaded <= AT_THE_START | THEIR_OWN, loaded


# Errors


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("convert", "--from", "canl", "--to", "canal", "a.jsonl", "b.jsonl"), "mean 'canal'?"),
        (("convert", "--from", "canal", "--to", "canal", "a.jsonl", "b.jsonl"), "cannot be read"),
        (("convert", "--from", "canal", "--to", "canal", "a.csv", "b.jsonl"), "the suffix"),
        (
            *(("convert", "--from", "canal", "--to", "canal", "a.jsonl", "-", "--set", "x=1"),),
            "write --set from.KEY=VALUE",
        ),
        (
            *(("convert", "--from", "canal", "--to", "canal", "-", "-", "--set", "to.x=1"),),
            "to.x is not a setting of canal",
        ),
        (
            *(("convert", "--from", "canal", "--to", "canal", "-", "-", "--schemas", "s"),),
            "describe themselves",
        ),
        (("envelopes", "nope"), "there is no envelope 'nope'; known: datahub-tuple, "),
        (
            ("detect", "-", "--set", "decimal=x"),
            "--set decimal: no envelope has such a setting; did",
        ),
        (("detect", "-", "--set", "timezone=X"), "--set timezone: there is no time zone 'X'"),
        (
            ("show", "-", "--set", "from.lobs=x"),
            "--set lobs: Input should be 'unchanged' or 'null'",
        ),
        (
            ("show", "-", "--from", "canal", "--set", "timezone=X"),
            "from.timezone: there is no time",
        ),
        (("check", "no.yaml"), "cannot be read (No such file or directory)"),
        (("run", "no.yaml"), "cannot be read (No such file or directory)"),
        (("quarantine", "show", "no.yaml", "x"), "topic/partition/offset"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_ends_with_2(words, sentence):
    done = waybill(*words, given=b"")
    assert done.returncode == 2
    output = done.stderr.decode()
    assert sentence in output
    assert output.startswith("waybill: ")
    assert output.count("\n") == 1
    assert "Traceback" not in output


@pytest.mark.parametrize(
    "words", [("envelopes", "nope"), ("detect", "-", "--set", "decimal=x"), ("check", "no.yaml")]
)
def test_a_process_of_its_own_says_nothing_besides(words):
    """No warning of a library while it is loaded, and nothing when Python ends."""
    done = waybill_process(*words, given=b"")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"waybill: ")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("words", [("convert", "a", "b"), ("nonsense",), ("run",), ("run", "--x")])
def test_wrong_use_ends_with_2(words):
    done = waybill(*words)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


def test_a_setting_that_is_a_number_is_reported_as_text(messages, tmp_path):
    done = waybill(
        *("convert", "--from", "canal", "--to", "databus-binary", messages),
        *(tmp_path / "events.parquet", "--set", "to.version=2"),
        *("--quarantine", tmp_path / "aside.jsonl"),
    )
    assert b"to.version" not in done.stderr
    events = pq.read_table(tmp_path / "events.parquet")["value"].to_pylist()
    assert {event[:5] for event in events} == {b"\x02\xca\xfe\xde\xed"}
    for wrong in ("3", "x", "1.5", "true"):
        done = waybill(
            *("convert", "--from", "canal", "--to", "databus-binary", messages),
            *(tmp_path / "none.parquet", "--set", f"to.version={wrong}"),
        )
        assert done.returncode == 2
        assert done.stderr == b"waybill: to.version: Input should be 1 or 2\n"
    assert not (tmp_path / "none.parquet").exists()


def test_a_traceback_comes_only_when_it_is_asked_for():
    done = waybill_process("envelopes", "nope", "--debug")
    assert done.returncode != 0
    assert b"Traceback" in done.stderr


def test_all_problems_of_a_migration_are_reported(tmp_path):
    file = tmp_path / "m.yaml"
    file.write_text("name: X\nsource: {files: {path: in}, envelope: canal}\npublsh: []\n")
    done = waybill("check", file)
    assert done.returncode == 2
    assert done.stderr.decode().splitlines() == [
        f"waybill: WB-1001: {file}:1: name - use lower-case letters, digits and _, starting with a "
        "letter",
        f"{file}:3: publsh is not a known field; did you mean 'publish'?",
    ]


# Conversions and waybills that say why


def test_check_says_why_a_change_cannot_be_written(tmp_path):
    source = tmp_path / "in.jsonl"
    row = {"id": 1, "d": "2023-02-30"}
    document = {"database": "shop", "table": "t", "type": "insert", "ts": 1, "data": row}
    source.write_text(json.dumps({**document, "primary_key_columns": ["id"]}) + "\n")
    file = tmp_path / "shop.json"
    source = {"files": {"path": str(source)}, "envelope": "maxwell"}
    tables = {"shop.t": {"columns": {"d": "date"}}}
    publish = [{"envelope": "debezium-json", "files": {"path": str(tmp_path / "out")}}]
    spec = {"name": "shop", "source": source, "tables": tables, "publish": publish}
    file.write_text(json.dumps({**spec, "lake": {"warehouse": str(tmp_path / "lake")}}))
    done = waybill("check", file)
    assert (
        b"1 change cannot be written (offset 0: column 'd': there is no 2023-02-30)" in done.stdout
    )


def test_a_file_in_another_envelope_names_the_command_that_tells(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_bytes(b'{"payload": 1}\n')
    done = waybill(*CONVERT[3:], source, tmp_path / "out.jsonl")
    assert b"waybill detect" in done.stderr


def test_the_waybill_of_many_tables_stays_narrow():
    report = StageReport("merge", "b1")
    report.snapshots = {f"lake.shop.t{i}": 10**18 + i for i in range(50)}
    assert row_of(report)[-1].endswith(f"t1 {10**18 + 1} and 48 more (--json)")


def test_a_time_that_is_none_is_said_before_spark_starts(tmp_path):
    shop = str(PROJECT / "migrations" / "shop.yaml")
    done = waybill("run", shop, "--until-time", "soon", WAYBILL_DEMO=str(tmp_path))
    assert done.returncode == 2
    assert b"--until-time soon: write a time such as 2026-11-20T06:00" in done.stderr


# Upkeep, and keys of rows


@pytest.fixture
def kept(monkeypatch):
    """What the upkeep is asked for, by the command and by the DAG."""
    asked = []

    def keep(spec, _lake, snapshots, _progress):
        asked.append((snapshots, spec.spark))
        return []

    @contextmanager
    def nothing(*_given):
        yield None

    monkeypatch.setattr("waybill.upkeep.run.run_upkeep", keep)
    monkeypatch.setattr("waybill.cli.upkeep.open_lake", nothing)
    monkeypatch.setattr("waybill.jobs._session", nothing)
    monkeypatch.setattr("waybill.jobs.Lake", SimpleNamespace(open=lambda *_given: None))
    return asked


@pytest.mark.parametrize(
    ("more", "length"),
    [("upkeep: {snapshots: 365d}\n", "365d"), ("upkeep: {}\n", "30d"), ("", "30d")],
)
def test_the_command_and_the_dag_keep_the_same(tmp_path, kept, more, length):
    file = tmp_path / "m.yaml"
    file.write_text(
        "name: m\nsource: {files: {path: in}, envelope: canal}\nspark: {spark.a: '1'}\n"
        f"stages: {{upkeep: {{spark: {{spark.a: '2'}}}}}}\n{more}"
    )
    upkeep_command(file, None, as_json=True)
    keep_lake(file)
    assert kept == [(length, {"spark.a": "2"})] * 2
    upkeep_command(file, "7d", as_json=True)
    assert kept[-1][0] == "7d"


def test_a_key_keeps_every_digit_and_its_words():
    key = '{"a": 1.10, "b": 12345678901234567890.50, "c": 7, "d": true, "e": null, "f": "1.1"}'
    assert key_as_text(key) == {
        "a": "1.10",
        "b": "12345678901234567890.50",
        "c": "7",
        "d": "true",
        "e": None,
        "f": "1.1",
    }
