"""Whether a cluster can be worked with, found out in one sentence before any work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from stack.kafka import Broker
from tests.kafka.conftest import PASSWORD
from tests.kafka.producing import allow
from waybill.connections import Connection
from waybill.errors import ConfigurationError, UnreachableError, WaybillError
from waybill.kafka.client import properties, reach
from waybill.kafka.cluster import Cluster
from waybill.sources.kafka.plan import plan
from waybill.sources.kafka.positions import OffsetRange
from waybill.sources.kafka.reader import RangeOptions, read_ranges
from waybill.spec.endpoints import KafkaSource

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka


def connected(servers: str, login: str = "", password: str = "", **extra: str) -> dict[str, str]:
    more = {key.replace("_", "."): value for key, value in extra.items()}
    return properties(
        Connection("k", "kafka", servers, None, login, password, more),
    )


def refused(kind: type[WaybillError], given: dict[str, str], topics: tuple[str, ...] = ()) -> str:
    """The sentence that `reach` says no with."""
    with pytest.raises(kind) as caught:
        reach(given, topics, patience=3)
    text = str(caught.value)
    assert "\n" not in text
    assert PASSWORD not in text
    assert given["bootstrap.servers"] in text
    return text


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"])
def test_login(broker: Broker, mechanism: str) -> None:
    address = broker.address("SASL_PLAINTEXT")
    more = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
    reach(connected(address, "ann", PASSWORD, **more))
    wrong = refused(ConfigurationError, connected(address, "ann", "wrong", **more))
    assert "fix login, password" in wrong


def test_tls(broker: Broker, authority: Any) -> None:
    trust = {"ssl_ca_location": str(authority[1])}
    reach(connected(broker.address("SSL"), security_protocol="SSL", **trust))
    # A user without a protocol logs in over TLS: a password goes nowhere in clear by default.
    login = connected(
        broker.address("SASL_SSL"), "ann", PASSWORD, sasl_mechanism="SCRAM-SHA-512", **trust
    )
    assert login["security.protocol"] == "SASL_SSL"
    reach(login)


def test_a_certificate_that_is_not_trusted(broker: Broker) -> None:
    given = connected(broker.address("SSL"), security_protocol="SSL")
    assert "certificate verify failed" in refused(ConfigurationError, given)


def test_tls_and_login_at_a_plain_listener(broker: Broker, authority: Any) -> None:
    tls = connected(broker.servers, security_protocol="SSL", ssl_ca_location=str(authority[1]))
    assert "PLAINTEXT" in refused(ConfigurationError, tls)
    login = connected(
        broker.servers,
        "ann",
        PASSWORD,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
    )
    assert "fix login" in refused(ConfigurationError, login)


def test_a_plain_client_where_a_login_is_asked_for(broker: Broker) -> None:
    given = connected(broker.address("SASL_PLAINTEXT"))
    assert "security.protocol" in refused(UnreachableError, given)


@pytest.mark.parametrize("servers", ["127.0.0.1:1", "nowhere..invalid:9092"])
def test_a_wrong_address(servers: str) -> None:
    """The second cannot be a name, so that no server of names is asked, which may be slow."""
    text = refused(UnreachableError, connected(servers))
    assert "fix bootstrap.servers" in text
    assert "Connection refused" in text or "Failed to resolve" in text


def test_a_topic_that_is_not_there(client: dict[str, str], topic: Callable[..., str]) -> None:
    there = topic()
    reach(client, [there])
    assert "the topic no.such" in refused(ConfigurationError, client, (there, "no.such"))


def test_asking_makes_no_topic(tmp_path: Path) -> None:
    """Brokers may make a topic for everyone who asks for it."""
    with Broker(tmp_path, properties={"auto.create.topics.enable": "true"}) as willing:
        given = connected(willing.servers)
        refused(ConfigurationError, given, ("asked.for",))
        with pytest.raises(ConfigurationError):
            plan(KafkaSource(topics=["asked.for"]), Cluster(given))
        with pytest.raises(ConfigurationError):
            list(
                read_ranges(
                    [OffsetRange("asked.for", 0, 0, 5)], RangeOptions(given, "b"), lambda *_: None
                )
            )
        assert "asked.for" not in Cluster(given).topic_names()


def test_properties_of_consumers_do_not_hurt(
    client: dict[str, str], topic: Callable[..., str]
) -> None:
    """Airflow's provider shares one connection among consumers, producers and administrators."""
    theirs = {"group.id": "g", "auto.offset.reset": "latest", "enable.auto.commit": "true"}
    reach({**client, **theirs, "acks": "1"}, [topic()])


def test_a_right_that_is_missing(
    broker: Broker, client: dict[str, str], topic: Callable[..., str]
) -> None:
    there = topic()
    more = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    given = connected(broker.address("SASL_PLAINTEXT"), "ann", PASSWORD, **more)
    assert "give the user of the connection the right" in refused(
        ConfigurationError, given, (there,)
    )
    allow(client, "topic", there, "READ")
    reach(given, [there])


def test_a_property_that_is_none() -> None:
    with pytest.raises(ConfigurationError, match=r"no\.such\.property"):
        reach(connected("127.0.0.1:1", no_such_property="1"))


def test_a_broker_that_comes_back(broker: Broker, topic: Callable[..., str]) -> None:
    there = topic(2)
    given = connected(broker.servers)
    before = Cluster(given).describe([there])
    broker.kill()
    try:
        refused(UnreachableError, given)
    finally:
        broker.start()
    assert Cluster(given).describe([there]) == before
