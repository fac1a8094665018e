"""A real schema registry: what it takes, what it refuses, and doing without it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

from stack.schema_registry import SchemaRegistryServer
from tests.contract.probes import OTHER, PLAIN, ROW, change
from tests.histories import column_of
from tests.unit.avro.test_schemas import BOTH, SCHEMA, framed, message, reader, rows_of, writer
from waybill.avro.registry import NO_ID, Registry
from waybill.envelopes import registry as envelopes
from waybill.errors import ConfigurationError, Refusal
from waybill.records import Message, TableSchema, intern_schema
from waybill_airflow.free_ports import LOOPBACK

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="session")
def registry() -> Iterator[SchemaRegistryServer]:
    with SchemaRegistryServer() as server:
        yield server


@pytest.fixture
def client(registry: SchemaRegistryServer) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})


def orders(**columns: str) -> TableSchema:
    """The same table with other columns."""
    made = tuple(column_of(name, kind, "mysql") for name, kind in columns.items())
    return intern_schema("shop", None, "orders", made, ("id",), "mysql")


@BOTH
@pytest.mark.parametrize("topic", [None, "shop"])
def test_what_is_registered_is_read_by_us_and_by_confluent(registry, client, name, topic):
    settings = {} if topic is None else {"topic": f"{topic}.{name}"}
    encoder = writer(name, registry=registry.url, **settings)
    written = [encoder.encode(change("insert", after=row), [])[0] for row in (ROW, OTHER)]
    decoder = reader(name, registry=registry.url)
    assert rows_of(decoder, map(message, written)) == [ROW, OTHER]
    read = AvroDeserializer(client)
    for encoded in written:
        assert read(encoded.value, SerializationContext("any", MessageField.VALUE))
        assert read(encoded.key, SerializationContext("any", MessageField.KEY))
    subjects = client.get_subjects()
    if topic is not None:
        assert {f"shop.{name}-key", f"shop.{name}-value"} <= set(subjects)
    else:
        assert any(PLAIN.table in subject for subject in subjects)
    again = writer(name, registry=registry.url, **settings)
    assert [again.encode(change("insert", after=row), [])[0] for row in (ROW, OTHER)] == written
    assert client.get_subjects() == subjects


@BOTH
def test_a_change_that_consumers_could_not_read_is_refused(registry, client, name):
    topic, envelope = f"changing.{name}", envelopes.get(name)
    first = orders(id="bigint", title="varchar(9)")
    wider = orders(id="bigint", title="varchar(9)", note="varchar(20)")
    other = orders(id="bigint", title="int")

    def write(schema: TableSchema, title: str, trial: bool = False) -> int:
        settings = envelope.encode_settings(registry=registry.url, topic=topic)
        encoder = envelope.encoder(settings.for_trial() if trial else settings)
        row = dict.fromkeys(schema.names, "x") | {"id": "1", "title": title}
        (encoded,) = encoder.encode(change("insert", after=row, schema=schema), [])
        return int.from_bytes(encoded.value[1:5])

    assert write(first, "x", trial=True) == NO_ID
    with pytest.raises(SchemaRegistryError, match="40401"):
        client.get_versions(f"{topic}-value")
    before = write(first, "x")
    assert write(first, "x", trial=True) == before
    client.set_config(f"{topic}-value", ServerConfig(ConfigCompatibilityLevel.FULL))
    assert write(wider, "x", trial=True) == NO_ID
    assert write(wider, "x") != before, "a further column is compatible"
    with pytest.raises(ConfigurationError, match="incompatible with earlier ones when asked about"):
        write(other, "7", trial=True)
    with pytest.raises(ConfigurationError, match="incompatible with earlier ones when") as no:
        write(other, "7")
    sentence = str(no.value)
    assert f"'{topic}-value'" in sentence
    assert "publish under another subject" in sentence
    assert "\n" not in sentence
    assert len(client.get_versions(f"{topic}-value")) == 2, "nothing was registered"
    assert write(first, "x") == before, "what was there goes on"


def test_tasks_that_register_at_the_same_time_get_one_id(registry):
    several = [Registry(registry.url) for _ in range(4)]
    for number in range(10):
        schema = f'{{"type":"record","name":"Race{number}","fields":[]}}'
        with ThreadPoolExecutor(len(several)) as pool:
            ids = set(
                pool.map(lambda one, n=number, s=schema: one.register(f"race{n}", s), several)
            )
        assert len(ids) == 1


def test_an_id_that_is_not_there_refuses_its_message_alone(registry, client):
    known = client.register_schema("alone", Schema('"string"', "AVRO"))
    number = client.register_schema("T", Schema(json.dumps(SCHEMA), "AVRO"))
    decoder = reader("ibmcdc-avro", registry=registry.url)
    good = Message("t", 0, 1, None, None, framed(number, SCHEMA, {"A": "x"}))
    unknown = Message("t", 0, 2, None, None, framed(known + 90_000, SCHEMA, {"A": "x"}))
    assert rows_of(decoder, [good]) == [{"A": "x"}]
    with pytest.raises(Refusal, match=rf"schema id {known + 90_000} is not known"):
        decoder.decode(unknown)
    assert rows_of(decoder, [good]) == [{"A": "x"}]


def test_references_and_schemas_of_other_kinds(registry, client):
    address = {"type": "record", "name": "shop.Address", "fields": [{"name": "S", "type": "int"}]}
    user = {"type": "record", "name": "U", "fields": [{"name": "A", "type": "shop.Address"}]}
    client.register_schema("address", Schema(json.dumps(address), "AVRO"))
    uses = [SchemaReference("shop.Address", "address", 1)]
    number = client.register_schema("user", Schema(json.dumps(user), "AVRO", uses))
    decoder = reader("ibmcdc-avro", registry=registry.url)
    value = b"\0" + number.to_bytes(4) + b"\x04"
    assert rows_of(decoder, [Message("t", 0, 0, None, None, value)]) == [{"A": '{"S":2}'}]
    protobuf = client.register_schema(
        "other", Schema('syntax = "proto3"; message M { int32 a = 1; }', "PROTOBUF")
    )
    with pytest.raises(Refusal, match=f"schema {protobuf} is PROTOBUF, not AVRO"):
        decoder.decode(Message("t", 0, 0, None, None, b"\0" + protobuf.to_bytes(4) + b"\0"))


def test_what_is_no_schema_is_not_registered(registry):
    with pytest.raises(ConfigurationError, match=r"does not take .* to register 'bad' \("):
        Registry(registry.url).register("bad", '{"type": "rec"}')


def test_an_address_without_a_registry_stops_the_run(registry):
    """Not one message is refused for it: the messages are good."""
    value = b"\0\0\0\0\1\0"
    host = f"http://{LOOPBACK}:{registry.port}"
    for url in (host, f"{host}/apis/registry/v2", f"{host}/apis/ccompat/v7/more"):
        with pytest.raises(ConfigurationError, match=r"no such page.*ends in /apis/ccompat/v7"):
            reader("ibmcdc-avro", registry=url).decode(Message("t", 0, 0, None, None, value))
        with pytest.raises(ConfigurationError, match="has no such page"):
            Registry(url).register("s", '"string"')


def test_a_registry_that_knows_no_guids_says_so(registry):
    token = b"\1" + bytes(16)
    with pytest.raises(ConfigurationError, match="by its GUID"):
        reader("ibmcdc-avro", registry=registry.url).decode(
            Message("t", 0, 0, None, None, token + b"\0")
        )
