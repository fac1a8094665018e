"""`make demo`, as a process: it shows the main job, and leaves nothing behind however it ends."""

from __future__ import annotations

import re
import shlex
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.airflow_home import PROJECT
from tests.demo_process import ASKS, PATIENCE, Demo
from waybill.report import STAGES
from waybill_airflow import demo as demo_command

pytestmark = [pytest.mark.e2e, pytest.mark.airflow, pytest.mark.spark]


@pytest.fixture
def demo(tmp_path):
    started: list[Demo] = []

    def start(*arguments: str, **more) -> Demo:
        started.append(Demo(more.pop("home", tmp_path / "demo"), *arguments, **more))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.terminate()
        each.process.wait(PATIENCE)


@pytest.mark.timeout(1500)
def test_it_moves_everything(moved_demo):
    said, figures, updates = moved_demo.said, moved_demo.figures, moved_demo.updates
    home = moved_demo.demo.home
    assert moved_demo.addresses == {"127.0.0.1"}, "it listens on the loopback address alone"
    assert f"http://127.0.0.1:{moved_demo.demo.port}" in said
    assert re.search(r"user admin +password \S{8,}", said)
    for name in ("shop", "recorded_canal"):
        assert f"Waybill of {name}, batch" in said
        for stage in ("snapshot", "convert", "merge", "validate", "publish"):
            assert f"{name} {stage}: success" in said
    assert "shop_late publish: success" in said
    assert "recorded_reviewed validate: awaiting_input" in said
    assert "recorded_reviewed: the gate holds its batch and asks" in said
    assert "shop_by_hand" not in said, "it is for people to start"
    assert re.search(r"left out: \S+/stock_broken\.yaml:\d+: publish\[0\]\.envelope", said)
    assert "stock_waits publish: success" in said
    assert "stock_fails merge: failed" in said
    assert re.search(r"stock_fails: merge failed: .*WB-4004.*retype: rewrite", said)
    assert "table shop.customers has" in said
    for target in ("canal", "datahub-blob", "oms-default"):
        assert f"published as {target} in" in said
    ends = "succeeded, asks a person or failed on purpose,"
    assert f"Every run {ends} and every count reconciles." in said
    password = re.search(r"password (\S+)", said)[1]
    kept = home / "airflow/passwords.json"
    assert password in kept.read_text()
    assert kept.stat().st_mode & 0o077 == 0

    for name in ("shop", "recorded_canal"):
        assert figures[f"waybill.gate.{name}.passed"] == ["1|c"]
        assert figures[f"waybill.lag.messages.{name}"][-1] == "0|g"
        assert figures[f"waybill.stage.duration.{name}.merge"]
    # The shop has refused messages, so nobody knows up to when its tables are complete.
    assert figures["waybill.table.age.recorded_canal.shop__orders"]
    assert moved_demo.late == ["queued", "success"], "no run comes by schedule"
    assert updates["shop/tables/shop.orders"]["verdict"] == "passed"
    assert updates["shop/targets/canal"]["messages"] > 0

    came = [(event["job"]["name"], event["eventType"], event) for event in moved_demo.lineage]
    ended = {name: event for name, kind, event in came if kind == "COMPLETE"}
    stages = [f"{n}.{s}" for n in ("shop", "recorded_canal") for s in STAGES]
    assert ended.keys() >= {"shop", "recorded_canal", *stages}
    begun = {name for name, kind, _ in came if kind == "START"}
    failed = {name for name, kind, _ in came if kind == "FAIL"}
    assert failed == {"stock_fails", "stock_fails.merge"}
    unanswered = begun - ended.keys() - failed
    assert unanswered == ASKS
    assert ended.keys() <= begun
    assert {kind for _, kind, _ in came} == {"START", "COMPLETE", "FAIL"}
    source = ("file", str(PROJECT / "samples/shop"))
    for stage in ("snapshot", "merge", "validate", "publish"):
        assert source in {named(one) for one in ended[f"shop.{stage}"]["inputs"]}
    lake = home / "lake/shop"
    tables = {named(one): one for one in ended["shop.merge"]["outputs"]}
    assert tables.keys() == {("file", f"{lake}/{t}") for t in ("shop_customers", "shop_orders")}
    orders = tables["file", f"{lake}/shop_orders"]
    assert len(orders["facets"]["columnLineage"]["fields"]) == 11
    assert orders["outputFacets"]["outputStatistics"]["rowCount"] == 100
    judged = {named(one): one["inputFacets"] for one in ended["shop.validate"]["inputs"]}
    assertions = judged["file", f"{lake}/shop_orders"]["dataQualityAssertions"]["assertions"]
    assert {one["success"] for one in assertions} == {True}
    sent = {named(one): one["outputFacets"] for one in ended["shop.publish"]["outputs"]}
    canal = sent["file", str(home / "out/shop/canal")]["outputStatistics"]
    assert canal["rowCount"] == updates["shop/targets/canal"]["messages"]


def named(dataset: dict[str, Any]) -> tuple[str, str]:
    """What a dataset of OpenLineage is told apart by."""
    return dataset["namespace"], dataset["name"]


@pytest.fixture
def one_migration(tmp_path):
    """What has a demo move only the smallest of the examples."""
    folder = tmp_path / "migrations"
    folder.mkdir()
    text = (PROJECT / "migrations/stock_waits.yaml").read_text(encoding="utf-8")
    (folder / "stock_waits.yaml").write_text(text.replace("../samples", f"{PROJECT}/samples"))
    return {"WAYBILL_MIGRATIONS": str(folder)}


@pytest.mark.timeout(900)
def test_nothing_is_left_when_it_is_killed_and_the_next_one_ends_by_itself(demo, one_migration):
    """Also when it has no chance to clean up; and the next one begins anew, at once."""
    killed = demo(environment=one_migration)
    killed.wait_until("snapshot: running")
    # The demo, its keeper, four parts of Airflow, a task, and Spark.
    assert len(killed.wait_for_spark()) >= 8
    limit = time.monotonic() + PATIENCE
    while not (killed.home / "lake").exists():
        assert time.monotonic() < limit, killed.said
        time.sleep(0.2)
    killed.process.send_signal(signal.SIGKILL)
    assert killed.process.wait(PATIENCE) == -signal.SIGKILL
    limit = time.monotonic() + PATIENCE
    while killed.processes() and time.monotonic() < limit:
        time.sleep(0.2)
    assert killed.processes() == []
    assert (killed.home / "lake").exists()

    once = demo("--once", environment=one_migration)
    once.wait_until("Making Airflow's database")
    assert not (once.home / "lake").exists(), "it begins anew"
    assert once.process.wait(PATIENCE) == 0, once.said
    assert once.processes() == []
    for stage in STAGES:
        assert f"stock_waits {stage}: success" in once.said
    assert "published as canal in" in once.said
    assert "Every run succeeded and every count reconciles." in once.said
    assert "stays up" not in once.said


def test_a_port_in_use_is_one_sentence(demo):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        shown = demo("--once", port=port)
        assert shown.process.wait(PATIENCE) == 1
    assert f"port {port} is in use: stop what uses it, or choose another one" in shown.said
    assert "Traceback" not in shown.said
    assert not shown.home.exists()


def test_a_folder_of_somebody_else_is_not_touched(demo, tmp_path):
    home = tmp_path / "precious"
    (home / "lake").mkdir(parents=True)
    (home / "lake" / "data").write_text("mine")
    shown = demo("--once", home=home)
    assert shown.process.wait(PATIENCE) == 1
    assert "holds something that is not a demo's" in shown.said
    assert (home / "lake" / "data").read_text() == "mine"


def test_a_second_one_in_the_same_folder_is_refused_and_the_first_can_be_interrupted(demo):
    first = demo()
    first.wait_until("Making Airflow's database")
    second = demo("--once")
    assert second.process.wait(PATIENCE) == 1
    assert "a demo is running in" in second.said
    assert first.process.poll() is None
    assert len(first.processes()) >= 2
    first.process.send_signal(signal.SIGINT)
    assert first.process.wait(PATIENCE) == 130, first.said
    assert first.processes() == []
    assert "Traceback" not in first.said


@pytest.mark.parametrize(("given", "expected"), [([], []), (["ONCE=1"], ["--once"])])
def test_make_demo_starts_it(given, expected):
    """What `make` would run, not how the file says it."""
    command = ["make", "--dry-run", "--silent", "--old-file=setup", "demo", *given]
    printed = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    python, *arguments = shlex.split(printed.stdout.strip().splitlines()[-1])
    assert Path(python) == PROJECT / ".venv/bin/python"
    assert arguments == ["-m", demo_command.__name__, *expected]
