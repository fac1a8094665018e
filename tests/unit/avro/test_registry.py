"""What the answers of a schema registry, and of what is none, become."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator

import pytest

from tests.schema_registry import SchemaRegistry, schema_registry
from tests.unit.avro.test_schemas import SCHEMA, framed, reader, rows_of
from waybill.avro import registry as module
from waybill.avro.registry import Registry
from waybill.batches.messages import decode_message
from waybill.errors import ConfigurationError, Refusal, UnavailableError
from waybill.records import Message
from waybill_airflow.free_ports import LOOPBACK

HTML = "<html>\n<body>no registry here</body>"
TEXT = json.dumps(SCHEMA)


@pytest.fixture
def server() -> Iterator[SchemaRegistry]:
    with schema_registry() as started:
        yield started


def test_a_failure_that_passes_is_not_noticed(server):
    server.add("t", SCHEMA)
    server.first = [(500, {"error_code": 50001}), (503, HTML)]
    decoder = reader("ibmcdc-avro", registry=server.url)
    found = rows_of(decoder, [Message("t", 0, 0, None, None, framed(1, SCHEMA, {"A": "x"}))])
    assert found == [{"A": "x"}]


@pytest.mark.parametrize("status", [408, 429, 500, 501, 502, 503])
def test_a_failure_that_stays_may_be_tried_again(server, status):
    server.first = [(status, HTML)] * 3
    with pytest.raises(
        UnavailableError, match=f"answers {status} .*: look at the registry"
    ) as error:
        Registry(server.url).find(1)
    assert error.value.transient


@pytest.mark.parametrize(
    ("status", "answer", "sentence"),
    [
        (200, HTML, "answers with something else than a registry does"),
        (200, [], "answers with something else than a registry does"),
        (200, {"version": "1.2"}, "answers with something else than a registry does"),
        (302, "", "answers 302"),
        (400, HTML, "answers 400"),
        (404, HTML, "has no such page"),
        (
            404,
            {"error_code": 404, "message": "HTTP 404 Not Found"},
            r"schema 1 \(HTTP 404 Not Found\)",
        ),
        (405, {"message": ["not", "text"]}, "answers 405"),
    ],
)
def test_an_address_of_something_else_is_wrong_for_good(server, status, answer, sentence):
    """A message is not to blame: none is refused."""
    server.first = [(status, answer)] * 2
    decoder = reader("ibmcdc-avro", registry=server.url)
    with pytest.raises(ConfigurationError, match=f"{sentence}.*: name the URL of its API") as error:
        decode_message(decoder, Message("t", 0, 0, None, None, b"\0\0\0\0\x01\0"))
    assert "\n" not in str(error.value)
    assert "<html>" not in str(error.value)
    with pytest.raises(ConfigurationError, match=r"asked to register 's'.*name the URL of its API"):
        Registry(server.url).register("s", TEXT)


def test_a_long_reason_is_cut(server):
    server.first = [(422, {"error_code": 42201, "message": f"{SCHEMA}\n" * 1000})]
    with pytest.raises(ConfigurationError, match=r"does not take the schema when asked") as no:
        Registry(server.url).register("s", TEXT)
    assert len(str(no.value)) < 900
    assert str(no.value).endswith("…): look at the subject's rules and mode there")


def test_tasks_in_each_others_way_are_no_incompatible_schema(server):
    conflict = (409, {"error_code": 409, "message": "already exists"})
    server.first = [conflict, conflict]
    assert Registry(server.url).register("s", TEXT) == 1
    server.first = [conflict] * 5
    with pytest.raises(ConfigurationError, match=r"incompatible with earlier .*already exists"):
        Registry(server.url).register("s", json.dumps("string"))


@pytest.mark.parametrize(("subject", "version"), [("address", 2), ("nowhere", 1)])
def test_a_reference_that_is_not_there_is_named(server, subject, version):
    address = {"type": "record", "name": "shop.Address", "fields": [{"name": "S", "type": "int"}]}
    user = {"type": "record", "name": "T", "fields": [{"name": "A", "type": "shop.Address"}]}
    server.add("address", address)
    reference = {"name": "shop.Address", "subject": subject, "version": version}
    number = server.add("user", user, references=[reference])
    with pytest.raises(Refusal, match=f"schema {number} uses version {version} of '{subject}'"):
        reader("ibmcdc-avro", registry=server.url).decode(
            Message("t", 0, 0, None, None, b"\0" + number.to_bytes(4) + b"\x04")
        )


def test_a_slow_registry_is_waited_for_and_a_dead_one_given_up(server, monkeypatch):
    monkeypatch.setattr(module, "_TIMEOUTS", (0.2, 0.2, 0.2, 0.2))
    server.add("t", SCHEMA)
    server.slow = 0.3
    server.first = [(200, None)]
    assert Registry(server.url).find(1) is not None
    server.first = [(200, None)] * 3
    with pytest.raises(UnavailableError, match=r"cannot be reached \(ReadTimeout: timed out\)"):
        Registry(server.url).find(2)


def test_an_address_that_takes_nothing_is_given_up_within_ten_seconds(monkeypatch):
    """A port whose queue is full: what connects waits, as it does where a firewall swallows all."""
    attempts = 3
    longest_pauses = 0.2 + 0.4
    assert attempts * module._TIMEOUTS[0] + longest_pauses < 10
    monkeypatch.setattr(module, "_TIMEOUTS", (0.3, 10.0, 10.0, 10.0))
    with socket.socket() as full:
        full.bind((LOOPBACK, 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        began = time.monotonic()
        with pytest.raises(UnavailableError, match="ConnectTimeout: timed out"):
            Registry(f"http://{LOOPBACK}:{full.getsockname()[1]}").find(1)
        assert time.monotonic() - began >= attempts * 0.3
        for one in waiting:
            one.close()


@pytest.mark.parametrize("named", ["none.pem", "", "text.pem"])
def test_certificates_that_cannot_be_read(tmp_path, monkeypatch, named):
    (tmp_path / "text.pem").write_text("no certificate", encoding="utf-8")
    file = str(tmp_path / named)
    monkeypatch.setenv(module.CERTIFICATES, file)
    with pytest.raises(
        ConfigurationError, match=r"at http://h:1 cannot be read \(.*\): name"
    ) as no:
        Registry("http://h:1")
    assert f"that SSL_CERT_FILE ({file}) names for the schema registry" in str(no.value)


def test_two_registries_give_one_id_different_schemas(server):
    other = {"type": "record", "name": "T", "fields": [{"name": "B", "type": "int"}]}
    with schema_registry() as second:
        assert (server.add("t", SCHEMA), second.add("t", other)) == (1, 1)
        first = reader("ibmcdc-avro", registry=server.url)
        then = reader("ibmcdc-avro", registry=second.url)
        ours = Message("t", 0, 0, None, None, framed(1, SCHEMA, {"A": "x"}))
        theirs = Message("t", 0, 0, None, None, framed(1, other, {"B": 7}))
        assert rows_of(first, [ours]) == [{"A": "x"}]
        assert rows_of(then, [theirs]) == [{"B": "7"}]
        assert rows_of(first, [ours]) == [{"A": "x"}]
