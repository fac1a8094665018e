"""A migration on a Spark cluster of separate processes, also while one of them dies.

The workers have neither Waybill nor a Python with its packages: both come with what is submitted.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from airflow.sdk.bases.operator import ExecutorSafeguard

from bench.topics import canal, changes, write_topics
from stack.local import CHECKOUT, SAMPLES
from stack.server import Server
from stack.spark import Cluster
from waybill.driver.client import ask
from waybill.report import STAGES
from waybill.spec.file import load_migration
from waybill_airflow.free_ports import LOOPBACK, free_port
from waybill_airflow.operators import StageOperator

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(900)]

TOKEN = "a token of the tests"
MESSAGES, KEYS = 400_000, 100_000
BARE = {"PYSPARK_PYTHON": "/nowhere/python", "PYTHONPATH": "", "PATH": os.defpath}
"""Variables of a worker that has Spark, Java and nothing else. What submits names the executors'
Python, so it must not know of another one either."""


class Driver(Server):
    """`waybill driver` on a cluster, half of which it takes."""

    def __init__(self, folder: Path, cluster: Cluster, shipped: Mapping[str, str]) -> None:
        port = free_port()
        self.url = f"http://{LOOPBACK}:{port}"
        command = [sys.executable, "-m", "waybill.cli", "driver", "--port", str(port)]
        settings = ["spark.executor.memory=512m", "spark.task.maxFailures=8", "spark.cores.max=2"]
        settings += [f"{key}={value}" for key, value in shipped.items()]
        master = ["--master", cluster.master]
        super().__init__(
            "the driver",
            [*command, *master, *(word for s in settings for word in ("--conf", s))],
            folder / "driver.log",
            self._answers,
            {
                "WAYBILL_DRIVER_TOKEN": TOKEN,
                # The folders of the tests lie beside its own.
                "WAYBILL_MIGRATIONS": str(folder.parent),
                "SPARK_LOCAL_IP": LOOPBACK,
                "PYSPARK_PYTHON": BARE["PYSPARK_PYTHON"],
            },
            patience=120,
        )

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health", trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def run(
        self,
        stage: str,
        migration: Path,
        batch: str,
        told: Callable[[str], None] = lambda line: None,
    ) -> dict[str, Any]:
        order = {"stage": stage, "migration": str(migration), "batch": batch}
        result = ask(self.url, TOKEN, order, lambda line, _level: told(line))
        assert "report" in result, result
        return dict(result["report"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Cluster]:
    java = shutil.which("java")
    assert java is not None
    bare = {**BARE, "JAVA_HOME": str(Path(java).resolve().parents[1])}
    folder = tmp_path_factory.mktemp("spark")
    with Cluster(folder, workers=2, cores=2, memory="1g", environment=bare) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def driver(cluster, shipped, tmp_path_factory) -> Iterator[Driver]:
    with Driver(tmp_path_factory.mktemp("driver"), cluster, shipped) as driver:
        yield driver


def shop_in(
    folder: Path, source: Path = SAMPLES, settings: Mapping[str, str] | None = None
) -> Path:
    """The sample migration with everything in a folder."""
    spec = load_migration(CHECKOUT / "migrations" / "shop.yaml").model_dump(mode="json")
    spec["source"]["files"]["path"] = str(source / "*.jsonl")
    spec["lake"] = {"warehouse": str(folder / "lake")}
    spec["spark"] = dict(settings or {})
    for target in spec["publish"]:
        target["files"]["path"] = str(folder / "out" / target["envelope"])
    file = folder / "shop.json"
    file.write_text(json.dumps(spec), encoding="utf-8")
    return file


def waybill(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "waybill.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT / "spark_jobs")},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def published(folder: Path) -> dict[str, list[bytes]]:
    return {
        out.name: [
            line for part in sorted(out.rglob("part-*")) for line in part.read_bytes().splitlines()
        ]
        for out in sorted((folder / "out").iterdir())
    }


def test_a_cluster_gives_what_one_machine_gives(driver, tmp_path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    local, remote = shop_in(here), shop_in(there)
    accounts = [json.loads(line) for line in waybill("run", str(local), "--json").splitlines()]
    reports = [driver.run(stage, remote, "b1") for stage in STAGES]
    counts = ("stage", "rows_in", "rows_out", "refused", "skipped", "superseded")
    alone = accounts[0]["stages"]
    assert [[r[c] for c in counts] for r in reports] == [[r[c] for c in counts] for r in alone]
    assert published(there) == published(here)
    for table in ("shop.customers", "shop.orders"):
        rows = [waybill("table", str(file), table, "--json") for file in (local, remote)]
        assert rows[0] == rows[1]


def test_a_stage_that_is_submitted_brings_everything(
    cluster, driver, shipped, tmp_path, monkeypatch
) -> None:
    """Also where the migration names the executors' Python, the driver keeps its own."""
    monkeypatch.setattr(ExecutorSafeguard, "test_mode", True)
    connection = {"conn_type": "spark", "host": cluster.master}
    for name, value in {
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection),
        "WAYBILL_CACHE": str(tmp_path / "cache"),
        "SPARK_LOCAL_IP": LOOPBACK,
        "PYSPARK_PYTHON": BARE["PYSPARK_PYTHON"],
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }.items():
        monkeypatch.setenv(name, value)
    migration = shop_in(tmp_path, settings={**shipped, "spark.executor.memory": "512m"})
    taken = driver.run("snapshot", migration, "b1")
    # Airflow renders what a run's form says; here nobody does.
    given = {"batch": "b1", "mode": "incremental", "tables": "", "drop_held": ""}
    given |= {"until": "publish", "until_time": ""}
    operator = StageOperator(task_id="c", stage="convert", migration=str(migration), **given)
    report = operator.execute({})
    assert report["rows_in"] == taken["rows_out"]
    assert report["rows_out"] > 0
    executors = [app for worker in cluster.work for app in worker.glob("app-*/*")]
    assert [path for path in executors if list(path.glob("waybill-*.zip"))]
    assert all((path / "environment" / "bin" / "python").exists() for path in executors)


def with_a_dead_worker(
    cluster: Cluster, driver: Driver, stage: str, migration: Path, line: str
) -> dict[str, Any]:
    """The report of a stage that lost a worker soon after it said something."""
    found: dict[str, Any] = {}
    begun = threading.Event()

    def told(said: str) -> None:
        if line in said:
            begun.set()

    work = threading.Thread(
        target=lambda: found.update(driver.run(stage, migration, "b1", told)), daemon=True
    )
    work.start()
    assert begun.wait(300)
    time.sleep(1)  # tasks are at work
    victim = cluster.workers[0]
    assert work.is_alive(), "the stage ended before a worker could be killed"
    for process in (*psutil.Process(victim.pid).children(recursive=True), victim):
        process.kill()
    work.join()
    victim.start()
    return found


def test_a_worker_dies_in_the_middle_of_a_stage(cluster, driver, tmp_path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    lines = b"".join(file.read_bytes() for file in sorted(SAMPLES.glob("*.jsonl")))
    files, times = 8, 60
    for number in range(files):
        # Each big enough for a task of its own.
        (source / f"{number:02}.jsonl").write_bytes(lines * times)
    messages = lines.count(b"\n") * times * files
    migration = shop_in(tmp_path, source)
    assert driver.run("snapshot", migration, "b1")["rows_out"] == messages
    found = with_a_dead_worker(cluster, driver, "convert", migration, "to decode")
    refused = sum(found["refused"].values())
    assert found["rows_in"] == messages
    assert found["rows_out"] + refused + sum(found["skipped"].values()) == messages
    assert refused == 3 * times * files
    assert driver.run("convert", migration, "b1")["repeated"]


def test_a_worker_dies_while_rows_are_exchanged(cluster, driver, tmp_path) -> None:
    """The rows that it had for others are made again."""
    (topic,) = write_topics(tmp_path / "in", MESSAGES, KEYS, {"canal": canal}).values()
    file = tmp_path / "orders.json"
    spec = {
        "name": "orders",
        "source": {"files": {"path": str(topic.lines)}, "envelope": "canal"},
        "lake": {"warehouse": str(tmp_path / "lake")},
    }
    file.write_text(json.dumps(spec), encoding="utf-8")
    for stage in ("snapshot", "convert"):
        driver.run(stage, file, "b1")
    found = with_a_dead_worker(cluster, driver, "merge", file, "plain table")
    assert "merged by Spark" not in found["details"]["bench.orders"]
    driver.run("validate", file, "b1")
    expected: dict[str, str] = {}
    for _, before, after in changes(MESSAGES, KEYS):
        if before is not None:
            expected.pop(str(before.id), None)
        if after is not None:
            expected[str(after.id)] = after.name
    lines = waybill("table", str(file), "bench.orders", "--json").splitlines()
    assert {row["id"]: row["name"] for row in map(json.loads, lines)} == expected
