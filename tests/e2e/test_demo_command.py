"""`make demo`, as a process: it shows the main job, and leaves nothing behind however it ends."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.dags.receivers import Lineage, StatsD
from tests.e2e.conftest import PROJECT
from waybill.report import STAGES
from waybill_airflow import demo as demo_command
from waybill_airflow.free_ports import free_port

pytestmark = [pytest.mark.e2e, pytest.mark.airflow, pytest.mark.spark]

PATIENCE = 300.0
"""Seconds within which anything comes on a slow and busy machine."""


class Demo:
    """A demo in a folder and on a port of its own."""

    def __init__(
        self,
        home: Path,
        *arguments: str,
        port: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.home = home
        self.output = home.parent / f"{home.name}.txt"
        self.port = port or free_port()
        unwanted = ("AIRFLOW", "WAYBILL")
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(unwanted)}
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "waybill_airflow.demo", *arguments],
                env={
                    **inherited,
                    **(environment or {}),
                    "WAYBILL_DEMO": str(home),
                    "WAYBILL_PORT": str(self.port),
                },
                stdout=output,
                stderr=output,
                cwd="/",
            )

    @property
    def said(self) -> str:
        return self.output.read_text(encoding="utf-8")

    def processes(self) -> list[psutil.Process]:
        """Every living process of the demo, whoever its parent is.

        Airflow's components write their names over their environment, so it is not enough to look
        there: a process belongs to the demo too if it was started with the demo's folder, or holds
        a file in it open, as its output is one.
        """
        return [p for p in psutil.process_iter() if p.pid != os.getpid() and self._owns(p)]

    def _owns(self, process: psutil.Process) -> bool:
        home = str(self.home)
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            if process.environ().get("WAYBILL_DEMO") == home or home in " ".join(process.cmdline()):
                return True
            for handle in Path(f"/proc/{process.pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if str(handle.readlink()).startswith(home):
                        return True
        except (psutil.Error, OSError):
            pass  # it has ended, or is somebody else's
        return False

    def wait_for_spark(self, patience: float = PATIENCE) -> list[psutil.Process]:
        """The demo's processes as soon as Java is one of them."""
        limit = time.monotonic() + patience
        while True:
            found = self.processes()
            names = set()
            for process in found:
                with contextlib.suppress(psutil.Error):
                    names.add(process.name())
            if "java" in names:
                return found
            assert self.process.poll() is None, self.said
            assert time.monotonic() < limit, self.said
            time.sleep(0.2)

    def wait_until(self, text: str, patience: float = PATIENCE) -> None:
        limit = time.monotonic() + patience
        while text not in self.said:
            assert self.process.poll() is None, self.said
            assert time.monotonic() < limit, self.said
            time.sleep(0.2)

    def listening(self) -> set[str]:
        """Addresses that a process of the demo listens on."""
        addresses = set()
        for process in self.processes():
            try:
                connections = process.net_connections("inet")
            except psutil.Error:
                continue
            addresses |= {c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN}
        return {address.removeprefix("::ffff:") for address in addresses}


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
def test_it_moves_everything_and_ends_by_itself(demo, tmp_path):
    metrics, lineage = StatsD(), Lineage()
    environment = {**metrics.environment(), **lineage.environment()}
    shown = demo("--once", environment=environment)
    addresses: set[str] = set()
    limit = time.monotonic() + 1400
    while shown.process.poll() is None and time.monotonic() < limit:
        addresses |= shown.listening()
        time.sleep(1)
    assert shown.process.poll() == 0, shown.said
    assert shown.processes() == []
    assert addresses == {"127.0.0.1"}, "it listens on the loopback address alone"

    said = shown.said
    assert f"http://127.0.0.1:{shown.port}" in said
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
    kept = tmp_path / "demo/airflow/passwords.json"
    assert password in kept.read_text()
    assert kept.stat().st_mode & 0o077 == 0

    figures = metrics.close()
    for name in ("shop", "recorded_canal"):
        assert figures[f"waybill.gate.{name}.passed"] == ["1|c"]
        assert figures[f"waybill.lag.messages.{name}"][-1] == "0|g"
        assert figures[f"waybill.stage.duration.{name}.merge"]
    # The shop has refused messages, so nobody knows up to when its tables are complete.
    assert figures["waybill.table.age.recorded_canal.shop__orders"]
    with contextlib.closing(sqlite3.connect(tmp_path / "demo/airflow/airflow.db")) as database:
        rows = database.execute(
            "select name, asset_event.extra from asset_event join asset on asset.id = asset_id"
        )
        updates = {name: json.loads(extra) for name, extra in rows}
        late = database.execute("select state from dag_run where dag_id = 'shop_late' order by 1")
        assert [state for (state,) in late] == ["queued", "success"], "no run comes by schedule"
    assert updates["shop/tables/shop.orders"]["verdict"] == "passed"
    assert updates["shop/targets/canal"]["messages"] > 0

    came = [(event["job"]["name"], event["eventType"], event) for event in lineage.close()]
    ended = {name: event for name, kind, event in came if kind == "COMPLETE"}
    stages = [f"{n}.{s}" for n in ("shop", "recorded_canal") for s in STAGES]
    assert ended.keys() >= {"shop", "recorded_canal", *stages}
    begun = {name for name, kind, _ in came if kind == "START"}
    failed = {name for name, kind, _ in came if kind == "FAIL"}
    assert failed == {"stock_fails", "stock_fails.merge"}
    unanswered = begun - ended.keys() - failed
    assert unanswered == {"recorded_reviewed", "recorded_reviewed.validate"}, "asks"
    assert ended.keys() <= begun
    assert {kind for _, kind, _ in came} == {"START", "COMPLETE", "FAIL"}
    source = ("file", str(PROJECT / "samples/shop"))
    for stage in ("snapshot", "merge", "validate", "publish"):
        assert source in {named(one) for one in ended[f"shop.{stage}"]["inputs"]}
    lake = tmp_path / "demo/lake/shop"
    tables = {named(one): one for one in ended["shop.merge"]["outputs"]}
    assert tables.keys() == {("file", f"{lake}/{t}") for t in ("shop_customers", "shop_orders")}
    orders = tables["file", f"{lake}/shop_orders"]
    assert len(orders["facets"]["columnLineage"]["fields"]) == 11
    assert orders["outputFacets"]["outputStatistics"]["rowCount"] == 100
    judged = {named(one): one["inputFacets"] for one in ended["shop.validate"]["inputs"]}
    assertions = judged["file", f"{lake}/shop_orders"]["dataQualityAssertions"]["assertions"]
    assert {one["success"] for one in assertions} == {True}
    sent = {named(one): one["outputFacets"] for one in ended["shop.publish"]["outputs"]}
    canal = sent["file", str(tmp_path / "demo/out/shop/canal")]["outputStatistics"]
    assert canal["rowCount"] == updates["shop/targets/canal"]["messages"]


def named(dataset: dict[str, Any]) -> tuple[str, str]:
    """What a dataset of OpenLineage is told apart by."""
    return dataset["namespace"], dataset["name"]


@pytest.mark.timeout(900)
def test_nothing_is_left_when_it_is_ended_on_the_way(demo):
    """Also when it has no chance to clean up; and the next one begins anew, at once."""
    killed = demo()
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

    asked = demo()
    asked.wait_until("Making Airflow's database")
    assert not (asked.home / "lake").exists(), "it begins anew"
    asked.wait_until("snapshot: running")
    assert len(asked.wait_for_spark()) >= 8
    asked.process.send_signal(signal.SIGTERM)
    assert asked.process.wait(PATIENCE) == 130, asked.said
    assert asked.processes() == []

    interrupted = demo()
    interrupted.wait_until("Making Airflow's database")
    assert len(interrupted.processes()) >= 2
    interrupted.process.send_signal(signal.SIGINT)
    assert interrupted.process.wait(PATIENCE) == 130, interrupted.said
    assert interrupted.processes() == []
    assert "Traceback" not in interrupted.said


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


def test_a_second_one_in_the_same_folder_is_refused(demo):
    first = demo()
    first.wait_until("Making Airflow's database")
    second = demo("--once")
    assert second.process.wait(PATIENCE) == 1
    assert "a demo is running in" in second.said
    assert first.process.poll() is None


@pytest.mark.parametrize(("given", "expected"), [([], []), (["ONCE=1"], ["--once"])])
def test_make_demo_starts_it(given, expected):
    """What `make` would run, not how the file says it."""
    command = ["make", "--dry-run", "--silent", "--old-file=setup", "demo", *given]
    printed = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    python, *arguments = shlex.split(printed.stdout.strip().splitlines()[-1])
    assert Path(python) == PROJECT / ".venv/bin/python"
    assert arguments == ["-m", demo_command.__name__, *expected]
