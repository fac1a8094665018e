"""One broker, and one Java machine a consumer."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from stack.kafka import Broker
from stack.schema_registry import SchemaRegistryServer
from tests.consumers.flink_sql import Flink
from tests.consumers.java_machine import java_machine
from tests.kafka.producing import send
from tests.spark.conftest import spark
from waybill.connections import Connection
from waybill.kafka.client import properties
from waybill.lake.settings import SHORT_RUNS

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway

    from tests.consumers.sources import Published

__all__ = ["spark"]  # the fixture of the Spark tests, here too

os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_RUNS)

_numbers = itertools.count()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="session")
def publish(broker: Broker) -> Callable[[Published], str]:
    """Sends messages to a topic of their own; its name."""
    client = properties(Connection("tests", extra={"bootstrap.servers": broker.servers}))

    def sent(messages: Published) -> str:
        topic = broker.create_topic(f"consumers.{next(_numbers)}")
        send(client, topic, messages)
        return topic

    return sent


@pytest.fixture(scope="session")
def flink(broker: Broker) -> Iterator[Flink]:
    with java_machine("flink") as gateway:
        yield Flink(gateway, broker.servers)


@pytest.fixture(scope="session")
def connect_java() -> Iterator[JavaGateway]:
    """A Java machine with Kafka Connect's converters and Debezium's transformation."""
    with java_machine("debezium") as gateway:
        yield gateway


@pytest.fixture(scope="session")
def registry() -> Iterator[SchemaRegistryServer]:
    with SchemaRegistryServer() as running:
        yield running
