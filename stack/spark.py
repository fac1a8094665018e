"""A Spark cluster: a master and workers as processes of their own, on the loopback address."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from stack.server import Server, ServerError
from waybill_airflow.free_ports import LOOPBACK, free_port


class Cluster:
    """A standalone cluster.

    Args:
        folder: where work and logs are.
        workers: how many.
        cores: of each worker.
        memory: of each worker, as Spark writes it (`1g`).
        environment: variables of master and workers beside those of this process; executors
            inherit them from their worker.
    """

    def __init__(
        self,
        folder: Path,
        workers: int = 2,
        cores: int = 1,
        memory: str = "1g",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = folder.absolute()
        self._port, self._page = free_port(), free_port()
        self._environment = {
            "SPARK_LOCAL_IP": LOOPBACK,
            "PYSPARK_PYTHON": sys.executable,
            **(environment or {}),
        }
        self._running = ExitStack()
        address = ["--host", LOOPBACK]
        self._master = self._server(
            "Spark's master",
            "master.Master",
            [*address, "--port", str(self._port), "--webui-port", str(self._page)],
            lambda: self._status() is not None,
        )
        self.work = [self._folder / f"worker-{number}" for number in range(1, workers + 1)]
        """Where each worker keeps what it was sent, and the logs of its executors."""
        self.workers = [
            self._worker(number, [*address, "-c", str(cores), "-m", memory.upper()])
            for number in range(1, workers + 1)
        ]

    @property
    def master(self) -> str:
        """Spark's master URL."""
        return f"spark://{LOOPBACK}:{self._port}"

    @property
    def page(self) -> str:
        """Address of the master's web page."""
        return f"http://{LOOPBACK}:{self._page}"

    def start(self) -> None:
        """Start the master, then the workers; returns when all are registered.

        Raises:
            ServerError: one did not start; its log is named.
        """
        try:
            for server in (self._master, *self.workers):
                self._running.enter_context(server)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all; returns when they are gone."""
        self._running.close()

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _worker(self, number: int, arguments: list[str]) -> Server:
        work = self.work[number - 1]
        return self._server(
            f"Spark's worker {number}",
            "worker.Worker",
            [*arguments, "--webui-port", "0", "-d", str(work), self.master],
            lambda: self._alive() >= number,
        )

    def _server(self, name: str, main: str, arguments: list[str], ready: Any) -> Server:
        home = spark_home()
        return Server(
            name,
            [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}", *arguments],
            self._folder / f"{name.split(' ', 1)[1].replace(' ', '-')}.log",
            ready,
            {"SPARK_HOME": str(home), **self._environment},
        )

    def _status(self) -> dict[str, Any] | None:
        try:
            with urllib.request.urlopen(f"{self.page}/json/", timeout=2) as answer:
                status: dict[str, Any] = json.load(answer)
        except (urllib.error.URLError, OSError, ValueError):
            return None
        return status

    def _alive(self) -> int:
        status = self._status() or {}
        return sum(worker["state"] == "ALIVE" for worker in status.get("workers", []))


def spark_home() -> Path:
    """The folder of the installed PySpark.

    Raises:
        ServerError: it is not installed.
    """
    named = os.environ.get("SPARK_HOME")
    if named:
        return Path(named)
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        message = "PySpark is not installed: run `make setup`"
        raise ServerError(message)
    return Path(spec.origin).parent
