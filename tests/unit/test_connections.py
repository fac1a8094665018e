from __future__ import annotations

import json
import threading

import pytest

from waybill.connections import Connection, find_connection, get_connection, given
from waybill.errors import ConfigurationError


def test_json_as_airflow_writes_it(monkeypatch):
    text = {
        "conn_type": "kafka",
        "login": "ann",
        "password": "p@ss",
        "port": "9092",
        "host": "h",
        "extra": json.dumps({"bootstrap.servers": "a:1,b:2"}),
    }
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(text))
    assert get_connection("kafka_default") == Connection(
        "kafka_default", "kafka", "h", 9092, "ann", "p@ss", {"bootstrap.servers": "a:1,b:2"}
    )


@pytest.mark.parametrize(
    ("uri", "extra"),
    [
        ("aws://key:s%2Fcret@/?region_name=eu-west-1", {"region_name": "eu-west-1"}),
        ("aws://key:s%2Fcret@/?__extra__=%7B%22a%22%3A%201%7D", {"a": 1}),
    ],
)
def test_a_uri_as_airflow_writes_it(monkeypatch, uri, extra):
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", uri)
    found = get_connection("aws_default")
    assert (found.kind, found.login, found.password) == ("aws", "key", "s/cret")
    assert found.extra == extra


@pytest.mark.parametrize("text", ["{broken secret", "no scheme secret", '{"port": "secret"}', "[]"])
def test_one_that_cannot_be_read_is_named_and_not_shown(monkeypatch, text):
    monkeypatch.setenv("AIRFLOW_CONN_X", text)
    with pytest.raises(ConfigurationError, match="AIRFLOW_CONN_X") as caught:
        find_connection("x")
    assert "secret" not in str(caught.value)


def test_a_missing_one_says_where_to_put_it(monkeypatch):
    monkeypatch.delenv("AIRFLOW_CONN_KAFKA_TEST", raising=False)
    assert find_connection("kafka_test") is None
    with pytest.raises(ConfigurationError, match="AIRFLOW_CONN_KAFKA_TEST"):
        get_connection("kafka_test")


def test_the_secret_is_not_in_the_repr():
    shown = repr(Connection("x", "kafka", "h", 1, "ann", "hidden", {"sasl.password": "hidden"}))
    assert "hidden" not in shown
    assert "ann" not in shown


def test_connections_are_given_to_one_piece_of_work_alone(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_X", "kafka://of-the-environment:1")
    elsewhere = []
    with given({"x": "kafka://given:2", "y": '{"host": "other"}'}):
        assert get_connection("x").host == "given"
        assert get_connection("y").host == "other"
        other = threading.Thread(
            target=lambda: elsewhere.extend([get_connection("x").host, find_connection("y")])
        )
        other.start()
        other.join()
    assert elsewhere == ["of-the-environment", None]
    assert get_connection("x").host == "of-the-environment"
    assert find_connection("y") is None
