"""A real S3 server, and one before it that spoils requests."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config

from stack.s3 import S3Server
from tests.s3.faulty import FaultyProxy
from waybill.object_store import store as store_module


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
