"""A demo as `make demo` starts it, in a folder and on a port of its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from tests.dags.receivers import Lineage, StatsD
from waybill_airflow.free_ports import free_port
from waybill_airflow.rest import Client

PATIENCE = 300.0
"""Seconds within which anything comes on a slow and busy machine."""

EVERYTHING = 1200.0
"""Seconds within which all migrations have moved."""

ASKS = {"recorded_reviewed", "recorded_reviewed.validate"}
"""What has no end in the demo, because it asks a person."""


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


class Moved(NamedTuple):
    """A demo that has moved everything and stays up, and what came of that.

    Attributes:
        demo: it.
        said: what it has printed until then.
        addresses: that any process of it has listened on.
        figures: our metrics, by name.
        lineage: the events of OpenLineage.
        updates: what its assets were last said to have, by name.
        late: the states of the runs of the migration that is late.
    """

    demo: Demo
    said: str
    addresses: set[str]
    figures: dict[str, list[str]]
    lineage: list[dict[str, Any]]
    updates: dict[str, Any]
    late: list[str]

    def login(self) -> tuple[str, str, str]:
        """The address of the migrations, the user and the password, as printed."""
        found = re.search(r"Migrations: (\S+) +user (\S+) +password (\S+)", self.said)
        assert found, self.said
        return found[1], found[2], found[3]


@contextmanager
def moved(home: Path) -> Iterator[Moved]:
    """Let a demo move everything and stay up; at the end, end it while a stage runs.

    Then nothing may be left of it, and it says that all went well.
    """
    metrics, lineage = StatsD(), Lineage()
    demo = Demo(home, environment={**metrics.environment(), **lineage.environment()})
    try:
        addresses: set[str] = set()
        limit = time.monotonic() + EVERYTHING
        while "Airflow stays up" not in demo.said:
            assert demo.process.poll() is None, demo.said
            assert time.monotonic() < limit, demo.said
            addresses |= demo.listening()
            time.sleep(3)
        _wait_for_the_last(lineage.events)
        shown = Moved(
            demo, demo.said, addresses, metrics.figures(), [*lineage.events], *_stored(home)
        )
        yield shown
        _begin_a_stage(demo, *shown.login()[1:])
        demo.process.send_signal(signal.SIGTERM)
        assert demo.process.wait(PATIENCE) == 0, demo.said
        assert demo.processes() == []
        assert "Traceback" not in demo.said
    finally:
        if demo.process.poll() is None:
            demo.process.terminate()
        demo.process.wait(PATIENCE)
        metrics.close()
        lineage.close()


def _wait_for_the_last(events: list[dict[str, Any]]) -> None:
    """Airflow tells of the end of a run after that can be seen elsewhere."""
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        begun = {event["job"]["name"] for event in events if event["eventType"] == "START"}
        ended = {event["job"]["name"] for event in events if event["eventType"] != "START"}
        if begun - ended == ASKS:
            return
        time.sleep(0.5)
    raise AssertionError(sorted(begun - ended))


def _stored(home: Path) -> tuple[dict[str, Any], list[str]]:
    """What Airflow has in its database of assets, and of the migration that is late."""
    with contextlib.closing(sqlite3.connect(home / "airflow/airflow.db", 60)) as database:
        rows = database.execute(
            "select name, asset_event.extra from asset_event join asset on asset.id = asset_id"
        )
        updates = {name: json.loads(extra) for name, extra in rows}
        late = database.execute("select state from dag_run where dag_id = 'shop_late' order by 1")
        return updates, [state for (state,) in late]


def _begin_a_stage(demo: Demo, user: str, password: str) -> None:
    """Start one more run, so that a task of Airflow is at work, and Spark."""
    client = Client(f"http://127.0.0.1:{demo.port}")
    client.log_in(user, password)
    body = {"logical_date": None, "conf": {"mode": "full"}, "dag_run_id": "manual__the_last"}
    client.post("dags", "recorded_canal", "dagRuns", body=body)
    place = ("dags", "recorded_canal", "dagRuns", "manual__the_last", "taskInstances", "snapshot")
    limit = time.monotonic() + PATIENCE
    while client.get(*place)["state"] != "running":
        assert time.monotonic() < limit, client.get(*place)
        time.sleep(0.1)
    # The demo, its keeper, four parts of Airflow, a task, and Spark.
    assert len(demo.wait_for_spark()) >= 8
