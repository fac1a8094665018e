"""A real S3 server, and one before it that spoils requests."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config

from stack.postgres import PostgresServer
from stack.s3 import S3Server
from tests.s3.faulty import FaultyProxy
from tests.spark.conftest import INTERPRETED, let_workers_import_tests
from waybill.lake.session import start_session
from waybill.lake.settings import SHORT_RUNS
from waybill.spec.file import load_migration
from waybill.spec.migration import Migration
from waybill.storage.objects import store as store_module

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROJECT = Path(__file__).resolve().parents[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/s3/" in item.path.as_posix():
            item.add_marker(pytest.mark.s3)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as started:
        yield started


@pytest.fixture(scope="session")
def proxy(server: S3Server) -> Iterator[FaultyProxy]:
    before = FaultyProxy(server)
    yield before
    before.close()


@pytest.fixture(scope="session")
def admin(server: S3Server) -> Any:
    """A client of our own, which asks the server itself."""
    return boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        aws_access_key_id=server.key_id,
        aws_secret_access_key=server.secret,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}),
    )


@pytest.fixture
def bucket(admin: Any) -> str:
    """A bucket of the test's own."""
    name = f"bucket-{uuid.uuid4().hex[:12]}"
    admin.create_bucket(Bucket=name)
    return name


@pytest.fixture
def connect(
    monkeypatch: pytest.MonkeyPatch, server: S3Server, proxy: FaultyProxy
) -> Callable[..., None]:
    """Sets a connection to the server, by name; keyword arguments replace parts of it."""

    def set_connection(name: str = "aws_default", **fields: Any) -> None:
        data: dict[str, Any] = server.connection()
        data["extra"] = {**data["extra"], **fields.pop("extra", {})}
        data.update(fields)
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(data))

    return set_connection


@pytest.fixture
def through_proxy(connect: Callable[..., None], proxy: FaultyProxy) -> Iterator[FaultyProxy]:
    """The default connection leads through the proxy, which spoils nothing yet."""
    connect(extra={"endpoint_url": proxy.endpoint})
    store_module._conditional.clear()
    proxy.spoil()
    yield proxy
    proxy.spoil()
    store_module._conditional.clear()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def event_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark notes everything that its pages show."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def spark(event_log: Path) -> Iterator[SparkSession]:
    """A session that was started before any connection was there; later folders share it."""
    let_workers_import_tests()
    os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_RUNS)
    settings = {
        **INTERPRETED,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": event_log.as_uri(),
        "spark.eventLog.compress": "false",
        # With all that plans tell where somebody reads them.
        "spark.sql.ui.explainMode": "formatted",
    }
    session = start_session(name="tests", settings=settings)
    yield session
    session.stop()


@pytest.fixture
def catalog(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The catalog of a lake, and the connection that it names."""
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_CATALOG", json.dumps(postgres.connection()))
    return catalog_of(postgres)


def catalog_of(postgres: PostgresServer) -> dict[str, Any]:
    return {"type": "jdbc", "uri": postgres.uri, "connection": "lake_catalog"}


def shop_at(root: str, lake: dict[str, Any], name: str = "shop") -> Migration:
    """The sample shop with everything below one folder."""
    data = load_migration(PROJECT / "migrations" / "shop.yaml").model_dump(exclude_unset=True)
    targets = [
        {"envelope": "canal", "files": {"path": f"{root}/out/canal"}},
        {"envelope": "datahub-blob", "files": {"path": f"{root}/out/blob", "layout": "parquet"}},
    ]
    source = {**data["source"], "files": {"path": f"{root}/in/shop/*.jsonl", "topic": "shop"}}
    return Migration.model_validate(
        {**data, "name": name, "source": source, "publish": targets, "lake": lake}
    )


def canal(kind: str, *rows: dict[str, Any]) -> bytes:
    types = {name: "bigint" if name == "id" else "varchar(20)" for name in rows[0]}
    return json.dumps(
        {
            "database": "shop",
            "table": "orders",
            "type": kind,
            "isDdl": False,
            "sql": "",
            "es": 1700000000000,
            "ts": 1700000000123,
            "id": 1,
            "pkNames": ["id"],
            "mysqlType": types,
            "data": list(rows),
            "old": None,
            "sqlType": {name: -5 if name == "id" else 12 for name in rows[0]},
        }
    ).encode()


FIRST = [
    canal("INSERT", *({"id": str(n), "title": f"t{n}"} for n in (10, 9, 100))),
    canal("DELETE", {"id": "100", "title": "t100"}),
]
ROWS = [{"id": "9", "title": "t9"}, {"id": "10", "title": "t10"}]
"""What `FIRST` leaves."""


@pytest.fixture
def small(bucket: str, admin: Any, connect: Callable[..., None], catalog: dict[str, Any]) -> Any:
    """Makes a migration of two messages in the test's bucket; takes fields of its lake."""
    admin.put_object(Bucket=bucket, Key="in/a.jsonl", Body=b"\n".join(FIRST))

    def make(**lake: Any) -> Migration:
        more = lake.pop("catalog", {})
        if "AIRFLOW_CONN_AWS_DEFAULT" not in os.environ:
            connect()
        data = {
            # One catalog serves all tests, so each migration has a name of its own.
            "name": f"small_{bucket[-12:]}",
            "source": {"files": {"path": f"s3://{bucket}/in", "topic": "t"}, "envelope": "canal"},
            "publish": [{"envelope": "canal", "files": {"path": f"s3://{bucket}/out"}}],
            "lake": {"warehouse": f"s3://{bucket}/lake", "catalog": {**catalog, **more}, **lake},
        }
        return Migration.model_validate(data)

    return make
