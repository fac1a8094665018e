"""What the demo prints."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from tests.dags.conftest import MIGRATION
from waybill.report import StageReport, Waybill
from waybill.spec.file import load_migration
from waybill_airflow.demo_view import FAILS, Run, View


@pytest.fixture
def view():
    return View(Console(file=io.StringIO(), width=120, highlight=False))


@pytest.fixture
def run(tmp_path):
    file = tmp_path / "shop.yaml"
    file.write_text(MIGRATION.format(name="shop"))
    return Run(load_migration(file), file, "manual__1")


def said(view) -> str:
    return view.console.file.getvalue()


def task(stage, state, duration=1.0, tries=1):
    return {"task_id": stage, "state": state, "duration": duration, "try_number": tries}


def test_a_pipe_gets_one_line_for_each_change_of_state(view, run):
    for state in (None, "running", "running", "success"):
        run.take(task("merge", state))
        view.update([run])
    run.reports["merge"] = StageReport("merge", "b", rows_in=1234, rows_out=1234)
    view.update([run])
    assert said(view).splitlines() == ["shop merge: running … 1 s", "shop merge: success ✓ 1 s"]


def test_a_run_that_asks_a_person_has_ended_for_now(view, tmp_path):
    file = tmp_path / "shop.yaml"
    file.write_text(MIGRATION.format(name="shop"))
    waits = task("validate", "awaiting_input")
    stops = Run(load_migration(file), file, "manual__1", states={})
    stops.take(waits)
    assert not stops.ended, "its migration says nothing of a person"
    file.write_text(MIGRATION.format(name="shop") + "quality: {on_failure: ask}\n")
    asks = Run(load_migration(file), file, "manual__1", states={})
    assert not asks.ended
    asks.take(waits)
    assert asks.ended
    view.update([asks])
    view.verdict(True, [asks])
    assert "shop validate: awaiting_input asks" in said(view)
    assert "shop: the gate holds its batch and asks" in said(view)
    assert "Every run succeeded or asks a person, and every count" in said(view)


def test_a_run_that_is_there_to_fail_is_no_fault(view, tmp_path):
    file = tmp_path / "shop.yaml"
    file.write_text(MIGRATION.format(name="shop").replace("[tests]", f"[demo, {FAILS}]"))
    fails = Run(load_migration(file), file, "manual__1", state="running")
    fails.take(task("merge", "failed"))
    assert not fails.fails, "nor has it ended"
    fails.state = "failed"
    assert (fails.fails, fails.ended) == (True, True)
    view.failure(fails, tmp_path)
    view.verdict(True, [fails])
    assert "shop: merge failed: it left no log; its log is" in said(view)
    assert "shop: it fails on purpose: its page shows" in said(view)
    assert "Every run succeeded or failed on purpose, and every count" in said(view)
    file.write_text(MIGRATION.format(name="stock") + "quality: {on_failure: ask}\n")
    asks = Run(load_migration(file), file, "manual__1", states={"validate": "awaiting_input"})
    view.verdict(True, [fails, asks])
    assert "Every run succeeded, asks a person or failed on purpose, and" in said(view)


def test_a_run_that_succeeded_says_so_alone(view, run):
    run.state = "success"
    view.verdict(True, [run])
    assert said(view) == "\nEvery run succeeded and every count reconciles.\n"


def test_every_figure_of_the_waybill_is_there(view):
    report = StageReport(
        "convert",
        "b-1",
        rows_in=1001,
        extra_in={"further rows of a message": 17},
        rows_out=999,
        refused={"json": 3},
        superseded=5,
        skipped={"ddl": 4},
        waiting=7,
        losses={"canal": {"full_rows": 11, "types": 0}},
        seconds=2.34,
    )
    view.waybill(Waybill("shop", "b-1", [report]))
    for figure in ("1,001", "17 further", "999", "3 json", " 5 ", "4 ddl", " 7 ", "2.3"):
        assert figure in said(view), figure
    assert "not carried by canal: full_rows 11" in said(view)
    assert "types" not in said(view)


def test_a_failed_run_says_why(view, run, tmp_path):
    log = tmp_path / "dag_id=shop/run_id=manual__1/task_id=validate/attempt=2.log"
    log.parent.mkdir(parents=True)
    lines = [
        {"event": "goes on"},
        {"event": "Task failed", "error_detail": [{"exc_value": "GateError: [no] the gate"}]},
        {"event": "after"},
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines) + "not json\n")
    run.state = "failed"
    run.take(task("validate", "failed", tries=2))
    run.take(task("publish", "upstream_failed"))
    view.failure(run, tmp_path)
    assert "shop: validate failed: GateError: [no] the gate; its log is" in said(view)


def test_a_failed_run_without_a_log_is_said_too(view, run, tmp_path):
    run.state = "failed"
    run.take(task("merge", "failed"))
    view.failure(run, tmp_path)
    assert "it left no log" in said(view)


def test_messages_cannot_steer_the_terminal(view, tmp_path):
    folder = tmp_path / "out" / "b-1"
    folder.mkdir(parents=True)
    lines = ['{"a":"\x1b[2J[bold]\u2028é"}', "x" * 500, "a third"]
    (folder / "part-00000.jsonl").write_text("".join(f"{line}\n" for line in lines))
    view.messages("shop", "canal", tmp_path / "out")
    shown = said(view)
    assert "\x1b" not in shown
    assert '{"a":" [2J[bold] é"}' in shown
    assert "x" * 500 not in shown
    assert "a third" not in shown
    assert max(map(len, shown.splitlines()[2:])) <= 120
