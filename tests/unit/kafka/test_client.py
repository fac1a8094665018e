from __future__ import annotations

import json

import pytest

from waybill.connections import Connection
from waybill.errors import ConfigurationError
from waybill.kafka.client import DEFAULTS, named_properties, properties


def test_extra_goes_before_host_and_login():
    extra = {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "bob",
        "log_level": 6,
        "enable.ssl.certificate.verification": False,
    }
    callbacks = {"error_cb": "acme.alerts.page_somebody"}
    found = properties(Connection("k", "kafka", "h", 9092, "ann", "hidden", extra | callbacks))
    assert found == {
        **DEFAULTS,
        **extra,
        "log_level": "6",
        "enable.ssl.certificate.verification": "false",
        "sasl.password": "hidden",
    }


def test_host_and_port_are_the_server():
    assert properties(Connection("k", host="h", port=9092))["bootstrap.servers"] == "h:9092"
    assert properties(Connection("k", host="h:1,i:2"))["bootstrap.servers"] == "h:1,i:2"


@pytest.mark.parametrize(
    ("connection", "says"),
    [
        (Connection("k"), "names no servers"),
        (Connection("k", host="h", login="ann", password="hidden"), "add sasl.mechanism"),
        (
            Connection(
                "k",
                host="h",
                login="ann",
                password="hidden",
                extra={"security.protocol": "ssl", "sasl.mechanism": "PLAIN"},
            ),
            "security.protocol SSL, which asks for none",
        ),
    ],
)
def test_what_would_be_passed_over_in_silence_is_an_error(connection, says):
    with pytest.raises(ConfigurationError, match=says) as caught:
        properties(connection)
    assert "hidden" not in str(caught.value)


def test_the_environment_stands_for_the_default_connection(monkeypatch):
    monkeypatch.delenv("AIRFLOW_CONN_KAFKA_DEFAULT", raising=False)
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "h:1")
    monkeypatch.setenv("KAFKA_SASL_USERNAME", "ann")
    monkeypatch.setenv("KAFKA_SASL_PASSWORD", "hidden")
    monkeypatch.setenv("KAFKA_SASL_MECHANISM", "SCRAM-SHA-512")
    monkeypatch.setenv("KAFKA_OPTS", "-Xmx1g")
    found = named_properties()
    assert {key: found[key] for key in found.keys() - DEFAULTS.keys()} == {
        "bootstrap.servers": "h:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ann",
        "sasl.password": "hidden",
    }
    with pytest.raises(ConfigurationError, match="AIRFLOW_CONN_KAFKA_OTHER"):
        named_properties("kafka_other")
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": "i:2"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(connection))
    assert named_properties()["bootstrap.servers"] == "i:2"


def test_no_connection_says_where_to_put_one(monkeypatch):
    monkeypatch.delenv("AIRFLOW_CONN_KAFKA_DEFAULT", raising=False)
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    with pytest.raises(ConfigurationError, match="or KAFKA_BOOTSTRAP_SERVERS to host and port"):
        named_properties()
