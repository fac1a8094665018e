"""Every server of the stack together, wired as docker-compose.yaml wires them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote

import psycopg

from stack.example import Example
from stack.kafka import Broker
from stack.postgres import PostgresServer
from stack.s3 import S3Server
from stack.server import ServerError
from stack.spark import Cluster
from waybill.lake.settings import class_archive_options
from waybill_airflow.free_ports import LOOPBACK
from waybill_airflow.local_airflow import LocalAirflow
from waybill_airflow.own_folder import Owner, own_folder

CHECKOUT = Path(__file__).resolve().parent.parent
CONFIG = CHECKOUT / "stack" / "config"
SAMPLES = CHECKOUT / "samples" / "shop"
MIGRATIONS = CHECKOUT / "stack" / "migrations"

AIRFLOW_DATABASE = "airflow"
"""Database of Airflow, beside that of the lake's catalog."""

_STACK = Owner("stack", "WAYBILL_STACK", ("airflow", "kafka", "s3", "spark"))


class LocalStack(Example):
    """Kafka, S3, PostgreSQL, Spark and Airflow on the loopback address.

    Args:
        folder: state and logs.
        port: of Airflow's web pages.
        tell: is told what is being started.
        migrations: folder of the migrations; the stack's own where left out.
        samples: folder of the messages to send; None to send none.
        environment: variables of Airflow's components beside ours.
        settings: settings of the driver's Spark beside ours.
    """

    def __init__(
        self,
        folder: Path,
        port: int,
        tell: Callable[[str], object],
        migrations: Path = MIGRATIONS,
        samples: Path | None = SAMPLES,
        environment: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder.absolute()
        super().__init__(tell)
        self._samples = samples
        self.broker = Broker(self.folder / "kafka", compiled=True)
        self.s3 = S3Server(self.folder / "s3")
        self.postgres = PostgresServer()
        java = [os.environ.get("JDK_JAVA_OPTIONS", ""), *class_archive_options()]
        self.cluster = Cluster(
            self.folder / "spark",
            workers=2,
            cores=1,
            memory="1g",
            environment={"JDK_JAVA_OPTIONS": " ".join(java)},
        )
        self.environment = {
            **read_settings(CONFIG / "airflow.env"),
            **self._connections(),
            "WAYBILL_CATALOG": self.postgres.uri,
            "WAYBILL_MIGRATIONS": str(migrations),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": self._database(),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": self._database(),
            **(environment or {}),
        }
        driver = ["--master", self.cluster.master]
        for key, value in {"spark.executor.memory": "768m", **(settings or {})}.items():
            driver += ["--conf", f"{key}={value}"]
        self.airflow = LocalAirflow(self.folder / "airflow", port, self.environment, driver)

    def _start(self) -> None:
        self.airflow.check_port()
        self._running.callback(os.close, own_folder(self.folder, _STACK))
        for server in (self.postgres, self.broker, self.s3, self.cluster):
            self._tell(f"Starting {getattr(server, 'name', 'the Spark cluster')} …")
            self._running.enter_context(server)
        self._make_database()
        self._prepare()
        self._start_airflow({"shop_stream"})

    def _prepare(self) -> None:
        """Topics, bucket and messages, by the same script that the containers run."""
        samples = [] if self._samples is None else ["--samples", str(self._samples)]
        paths = (str(CHECKOUT), str(CHECKOUT / "spark_jobs"))
        done = subprocess.run(
            [sys.executable, "-m", "stack.prepare", *samples],
            env={**os.environ, **self.environment, "PYTHONPATH": os.pathsep.join(paths)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ServerError(done.stderr.strip() or "the servers could not be prepared")

    def _make_database(self) -> None:
        with psycopg.connect(self._login("postgresql", self.postgres.database)) as connection:
            connection.autocommit = True
            connection.execute(f"CREATE DATABASE {AIRFLOW_DATABASE}")

    def _database(self) -> str:
        return self._login("postgresql+psycopg", AIRFLOW_DATABASE)

    def _login(self, scheme: str, database: str) -> str:
        who = f"{self.postgres.user}:{quote(self.postgres.password, safe='')}"
        return f"{scheme}://{who}@{LOOPBACK}:{self.postgres.port}/{database}"

    def _connections(self) -> dict[str, str]:
        kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": self.broker.servers}}
        found = {
            "KAFKA_DEFAULT": kafka,
            "AWS_DEFAULT": self.s3.connection(region_name="us-east-1"),
            "LAKE_CATALOG": self.postgres.connection(),
            "SPARK_DEFAULT": {"conn_type": "spark", "host": self.cluster.master},
        }
        return {f"AIRFLOW_CONN_{name}": json.dumps(value) for name, value in found.items()}


def read_settings(file: Path) -> dict[str, str]:
    """The variables of an environment file as docker compose reads it: NAME=VALUE, # comments."""
    lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}
