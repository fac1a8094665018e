"""Where the gate's report sends people: commands that run as they stand."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.unit.validate.test_page import checked, result
from waybill.cli.app import app
from waybill.spec.file import load_migration
from waybill.spec.migration import Migration
from waybill.validate.looking import Example, with_commands
from waybill.validate.result import FAILED, PASSED
from waybill.validate.suites import load_suite

DATA = {
    "name": "demo",
    "source": {"files": {"path": "in", "topic": "t"}, "envelope": "canal"},
    "publish": [],
}


def looks(spec: Migration, look: str, outcome: str, example: Example, *tables: str) -> str:
    observed = [{"where": name, "value": 1} for name in tables]
    given = result(
        checks=[checked(look=look, arguments={"column": "x"}, observed=observed)], outcome=outcome
    )
    (check,) = with_commands(spec, given, lambda *_: example)
    return check.look


@pytest.fixture
def spec(tmp_path: Path) -> Migration:
    file = tmp_path / "my shop.yaml"
    file.write_text(json.dumps(DATA))
    return load_migration(file)


def test_file_table_and_key_are_filled_in(spec: Migration, tmp_path: Path) -> None:
    look = "waybill changes {file} --table {table} --key {key}{held}"
    key = '{"id":"it\'s 7"}'
    command = looks(spec, look, FAILED, Example("shop.orders", key), "shop.orders")
    assert shlex.split(command) == [
        *("waybill", "changes", str(tmp_path / "my shop.yaml"), "--table", "shop.orders"),
        *("--key", key, "--held"),
    ]
    passed = looks(spec, look, PASSED, Example("shop.orders", key), "shop.orders")
    assert command == f"{passed} --held"


def test_what_no_example_tells_is_left_out(spec: Migration) -> None:
    look = "waybill changes {file} --table {table} --key {key}"
    assert "--key" not in looks(spec, look, FAILED, Example("shop.orders"), "shop.orders")
    assert looks(spec, look, FAILED, Example(), "t").split("' ")[1:] == []
    assert looks(spec, "the page itself", FAILED, Example(), "t") == "the page itself"
    command = looks(spec, "waybill table {file} {table}", FAILED, Example("a"), "a", "b")
    assert command.count("\n") == 0
    assert command.endswith(" a")


def test_a_migration_without_a_file_says_so() -> None:
    made = Migration.model_validate({**DATA, "lake": {"warehouse": "lake"}})
    assert made.command("run", "FILE", "--drop-held") == "waybill run FILE --drop-held"


def test_a_copy_of_a_migration_knows_its_file(spec: Migration, tmp_path: Path) -> None:
    wanted = f"waybill run '{tmp_path / 'my shop.yaml'}' --batch b1"
    assert spec.for_stage("merge").command("run", "FILE", "--batch", "b1") == wanted
    assert spec.model_copy(update={"spark": {}}).command("run", "FILE", "--batch", "b1") == wanted


@pytest.mark.parametrize("suite", ["changes", "tables", "trends"])
def test_commands_of_the_suites_are_commands(spec: Migration, suite: str) -> None:
    """Each is taken by the command line, up to the migration's lake."""
    found = 0
    for item in load_suite(suite).expectations:
        look = item["meta"]["look"]
        example = Example("shop.orders", '{"id":"7"}')
        command = looks(spec, look, FAILED, example, "shop.orders")
        for line in command.splitlines():
            start = line.find("waybill ")
            if start < 0:
                continue
            found += 1
            words = shlex.split(line[start:])[1:]
            assert str(spec.command("FILE").removeprefix("waybill ")).strip("'") in words
            shown = CliRunner().invoke(app, [*words, "--help"])
            assert shown.exit_code == 0, shown.output
    assert found >= 2


def test_replay_takes_drop_held() -> None:
    shown = CliRunner().invoke(app, ["quarantine", "replay", "--help"], env={"COLUMNS": "200"})
    assert "--drop-held" in shown.output
