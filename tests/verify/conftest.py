"""Real databases, a Spark session, and migrations that are fed from the databases."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stack.mariadb import MariaDBServer
from stack.mysql import MISSING, MySQLServer, mysqld
from stack.postgres import PostgresServer
from tests.spark.conftest import INTERPRETED
from waybill.lake.session import start_session
from waybill.lake.settings import SHORT_RUNS
from waybill.spec.migration import Migration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stack.binlog_server import BinlogServer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/verify/" in item.path.as_posix():
            item.add_marker(pytest.mark.databases)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_RUNS)
    session = start_session(name="tests", settings=INTERPRETED)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDBServer]:
    with MariaDBServer() as server:
        yield server


@pytest.fixture(scope="session")
def mysql() -> Iterator[MySQLServer]:
    if mysqld() is None:
        pytest.skip(MISSING)
    with MySQLServer() as server:
        yield server


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def server(request) -> BinlogServer:
    """Each server that speaks MySQL's protocol."""
    found: BinlogServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets the connection `source` to a server."""

    def set_connection(kind: str, server: Any, **fields: Any) -> None:
        data = {
            "conn_type": kind,
            "host": "127.0.0.1",
            "port": server.port,
            "login": server.user,
            "password": server.password,
            "schema": server.database,
            **fields,
        }
        monkeypatch.setenv("AIRFLOW_CONN_SOURCE", json.dumps(data))

    return set_connection


@pytest.fixture
def migration(tmp_path: Path) -> Callable[..., Migration]:
    """Makes a migration whose source is the folder `in` of the test."""

    def make(envelope: str, **fields: Any) -> Migration:
        (tmp_path / "in").mkdir(exist_ok=True)
        data = {
            "name": "shop",
            "source": {
                "files": {"path": str(tmp_path / "in"), "layout": "kcat"},
                "envelope": envelope,
                "settings": fields.pop("settings", {}),
            },
            "lake": {"warehouse": str(tmp_path / "lake")},
            "verify": {"database": "source", "method": "full", **fields.pop("verify", {})},
            **fields,
        }
        return Migration.model_validate(data)

    return make
