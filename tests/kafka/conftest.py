"""One Kafka broker for every test here, with a listener of every kind."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from stack.kafka import Broker
from tests.kafka import producing
from tests.kafka.certificates import make_certificate
from tests.spark.conftest import lake, migration, spark, tiny
from waybill.connections import Connection
from waybill.kafka.client import properties
from waybill.lake.settings import SHORT_RUNS

__all__ = ["lake", "migration", "spark", "tiny"]  # fixtures of the Spark tests, here too

os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_RUNS)

PASSWORD = "s3cret of ann"
"""Of the user ann."""

_numbers = itertools.count()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The broker's certificate, and what clients trust it by."""
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="session")
def broker(
    tmp_path_factory: pytest.TempPathFactory, authority: tuple[Path, Path]
) -> Iterator[Broker]:
    """The broker; a test that stops it starts it again."""
    folder = tmp_path_factory.mktemp("kafka")
    with Broker(folder, users={"ann": PASSWORD}, certificate=authority[0]) as running:
        yield running


@pytest.fixture(scope="session")
def client(broker: Broker) -> dict[str, str]:
    """Properties of a client of the plain listener, who may do everything."""
    return properties(Connection("tests", extra={"bootstrap.servers": broker.servers}))


@pytest.fixture
def topic(broker: Broker) -> Callable[..., str]:
    """Makes a topic with a name of its own: `topic(partitions=1, cleanup_policy="compact")`."""

    def make(partitions: int = 1, **settings: str) -> str:
        return broker.create_topic(f"topic.{next(_numbers)}", partitions, **settings)

    return make


@pytest.fixture
def allow(client: dict[str, str]) -> Callable[[str, str, str], None]:
    """Gives ann a right: `allow("topic", name, "WRITE")`."""
    return partial(producing.allow, client)
