"""A migration on a Spark cluster of separate processes, also while one of them dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from stack.local import CHECKOUT, SAMPLES
from stack.server import Server
from stack.spark import Cluster
from waybill.driver.client import ask
from waybill.loopback import LOOPBACK, free_port
from waybill.report import STAGES
from waybill.spec_file import load_migration

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(900)]

TOKEN = "a token of the tests"


class Driver(Server):
    """`waybill driver` on a cluster."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        port = free_port()
        self.url = f"http://{LOOPBACK}:{port}"
        command = [sys.executable, "-m", "waybill.cli", "driver", "--port", str(port)]
        settings = ["spark.executor.memory=512m", "spark.task.maxFailures=8"]
        master = ["--master", cluster.master]
        super().__init__(
            "the driver",
            [*command, *master, *(word for s in settings for word in ("--conf", s))],
            folder / "driver.log",
            self._answers,
            {"WAYBILL_DRIVER_TOKEN": TOKEN, "SPARK_LOCAL_IP": LOOPBACK},
            patience=120,
        )

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health", trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def run(
        self, stage: str, migration: Path, batch: str, begun: threading.Event | None = None
    ) -> dict[str, Any]:
        def tell(line: str, _level: str) -> None:
            if begun is not None and "to decode" in line:
                begun.set()

        order = {"stage": stage, "migration": str(migration), "batch": batch}
        result = ask(self.url, TOKEN, order, tell)
        assert "report" in result, result
        return dict(result["report"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("spark"), workers=2, cores=1, memory="1g") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def driver(cluster, tmp_path_factory) -> Iterator[Driver]:
    with Driver(tmp_path_factory.mktemp("driver"), cluster) as driver:
        yield driver


def shop_in(folder: Path, source: Path = SAMPLES) -> Path:
    """The sample migration with everything in a folder."""
    spec = load_migration(CHECKOUT / "migrations" / "shop.yaml").model_dump(mode="json")
    spec["source"]["files"]["path"] = str(source / "*.jsonl")
    spec["lake"] = {"warehouse": str(folder / "lake")}
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
    found: dict[str, Any] = {}

    begun = threading.Event()

    def convert() -> None:
        found.update(driver.run("convert", migration, "b1", begun))

    stage = threading.Thread(target=convert)
    stage.start()
    assert begun.wait(300)
    time.sleep(1)  # tasks are at work
    victim = cluster.workers[0]
    assert stage.is_alive(), "the stage ended before a worker could be killed"
    for process in (*psutil.Process(victim.pid).children(recursive=True), victim):
        process.kill()
    stage.join()
    victim.start()
    refused = sum(found["refused"].values())
    assert found["rows_in"] == messages
    assert found["rows_out"] + refused + sum(found["skipped"].values()) == messages
    assert refused == 3 * times * files
    assert driver.run("convert", migration, "b1")["repeated"]
