"""Schemas of Avro messages: registry, folder, headers; ids that are the same in every task."""

from __future__ import annotations

import io
import json
import struct

import fastavro
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.contract.probes import IN_PUBLIC, OTHER, PLAIN, ROW, change
from tests.histories import by_name
from tests.schema_registry import schema_registry
from waybill.avro.schema import MAX_TYPES, parse
from waybill.avro.settings import CREDENTIALS
from waybill.avro.sinks import id_of_text
from waybill.batches.messages import decode_message
from waybill.envelopes import registry as envelopes
from waybill.envelopes.debezium.avro.connect import avro_schema
from waybill.errors import ConfigurationError, Refusal, UnavailableError
from waybill.records import Message
from waybill.tables import MAX_COLUMNS, TableRules

AVRO = ["ibmcdc-avro", "debezium-avro"]
BOTH = pytest.mark.parametrize("name", AVRO)
SCHEMA = {"type": "record", "name": "T", "fields": [{"name": "A", "type": ["null", "string"]}]}


def reader(name, **settings):
    envelope = envelopes.get(name)
    return envelope.decoder(envelope.decode_settings(**settings), TableRules())


def writer(name, **settings):
    envelope = envelopes.get(name)
    return envelope.encoder(envelope.encode_settings(**settings))


def message(encoded, offset=0):
    return Message("topic", 0, offset, None, encoded.key, encoded.value, encoded.headers)


def framed(number, schema, row):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    return b"\0" + struct.pack(">I", number) + out.getvalue()


def rows_of(decoder, messages):
    return [by_name(c.schema, c.after) for m in messages for c in decoder.decode(m)]


@BOTH
def test_schemas_are_registered_and_a_confluent_consumer_reads_the_messages(name):
    with schema_registry() as registry:
        encoder = writer(name, registry=registry.url)
        changes = [change("insert", after=ROW), change("insert", after=OTHER)]
        written = [encoder.encode(c, [])[0] for c in changes]
        client = SchemaRegistryClient({"url": registry.url})
        read = AvroDeserializer(client)
        context = SerializationContext("topic", MessageField.VALUE)
        for encoded in written:
            assert encoded.headers is None
            assert read(encoded.value, context)
        posts = [asked for asked in registry.asked if asked.startswith("POST")]
        assert len(posts) == 2, "one for the key and one for the value"
        decoder = reader(name, registry=registry.url)
        before = len(registry.asked)
        assert rows_of(decoder, map(message, written)) == [ROW, OTHER]
        assert len(registry.asked) == before + 2, "each schema is asked for once"


@BOTH
def test_schemas_go_under_the_topic_where_one_is_named(name):
    with schema_registry() as registry:
        writer(name, registry=registry.url, topic="orders").encode(change("delete", ROW), [])
        writer(name, registry=registry.url, topic="orders").encode(change("insert", after=ROW), [])
        assert sorted(registry.subjects) == ["orders-key", "orders-value"]


@BOTH
def test_a_folder_of_schemas_serves_a_reader_that_was_there_before(name, tmp_path):
    folder = str(tmp_path / "schemas")
    decoder = reader(name, schemas=folder)
    encoder, other = writer(name, schemas=folder), writer(name, schemas=folder)
    written = encoder.encode(change("insert", after=ROW), [])
    assert other.encode(change("insert", after=ROW), []) == written
    assert written[0].headers is None
    assert rows_of(decoder, map(message, written)) == [ROW]
    files = sorted((tmp_path / "schemas").iterdir())
    assert len(files) == 2
    for file in files:
        ((number, entry),) = json.loads(file.read_text(encoding="utf-8"))["avro"].items()
        assert file.name == f"{number}.json"
        assert int(number) == id_of_text(entry["schema"])
        fastavro.parse_schema(json.loads(entry["schema"]))
    assert rows_of(reader(name, schemas=str(files[0].parent)), map(message, written)) == [ROW]


@BOTH
def test_two_schemas_never_share_an_id(name, tmp_path):
    encoder = writer(name, schemas=str(tmp_path))
    encoder.encode(change("insert", after=ROW), [])
    file = next(tmp_path.iterdir())
    file.write_text(json.dumps({"avro": {file.stem: {"schema": "{}"}}}), encoding="utf-8")
    with pytest.raises(ConfigurationError, match="holds another schema"):
        writer(name, schemas=str(tmp_path)).encode(change("insert", after=ROW), [])


def test_schema_files_of_a_folder_and_one_file(tmp_path):
    (tmp_path / "5.avsc").write_text(json.dumps(SCHEMA), encoding="utf-8")
    (tmp_path / "others.json").write_text(
        json.dumps({"avro": {"6": {"schema": SCHEMA}, "7": {"schema": json.dumps(SCHEMA)}}}),
        encoding="utf-8",
    )
    messages = [Message("t", 0, n, None, None, framed(n, SCHEMA, {"A": "x"})) for n in (5, 6, 7)]
    assert rows_of(reader("ibmcdc-avro", schemas=str(tmp_path)), messages) == [{"A": "x"}] * 3
    found = reader("ibmcdc-avro", schemas=str(tmp_path / "others.json"))
    assert rows_of(found, messages[1:]) == [{"A": "x"}] * 2
    with pytest.raises(Refusal, match="schema id 5 is not known"):
        found.decode(messages[0])


SWAPPED = {"type": "record", "name": "T", "fields": [{"name": "B", "type": ["null", "string"]}]}
GUID = "0f0e0d0c-0b0a-0908-0706-050403020100"


def listed(schema, number=5, **more):
    return json.dumps({"avro": {number: {"schema": schema, **more}}})


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"a.json": listed(SCHEMA), "b.json": listed(SWAPPED)}, "schema id 5"),
        ({"5.avsc": json.dumps(SCHEMA), "b.json": listed(json.dumps(SWAPPED))}, "schema id 5"),
        ({"a.json": listed(SCHEMA), "05.avsc": json.dumps(SWAPPED)}, "schema id 5"),
        (
            {"a.json": listed(SCHEMA, guid=GUID), "b.json": listed(SWAPPED, 6, guid=GUID)},
            f"schema {GUID}",
        ),
    ],
)
def test_one_id_with_two_schemas_says_so_and_decodes_nothing(tmp_path, files, sentence):
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    places = [str(tmp_path / name) for name in sorted(files)]
    decoder = reader("ibmcdc-avro", schemas=str(tmp_path))
    with pytest.raises(ConfigurationError, match="folder of its own") as error:
        decoder.decode(Message("t", 0, 0, None, None, framed(5, SCHEMA, {"A": "x"})))
    first, second = places
    assert error.value.sentence.startswith(
        f"{sentence} is one schema in {first} and another one in {second}"
    )


def test_equal_schemas_of_one_id_are_one(tmp_path):
    blanks = json.dumps(dict(reversed(SCHEMA.items())), indent=2)
    for name, content in (
        ("5.avsc", blanks),
        ("5.json", listed(json.dumps(SCHEMA), subject="t-value", guid=GUID)),
        ("copy.json", listed(SCHEMA, 6, guid=GUID)),
    ):
        (tmp_path / name).write_text(content, encoding="utf-8")
    decoder = reader("ibmcdc-avro", schemas=str(tmp_path))
    messages = [Message("t", 0, n, None, None, framed(n, SCHEMA, {"A": "x"})) for n in (5, 6)]
    assert rows_of(decoder, messages) == [{"A": "x"}] * 2


def test_an_id_that_stands_twice_in_a_file(tmp_path):
    (tmp_path / "s.json").write_text(
        f'{{"avro": {{"5": {{"schema": {json.dumps(SCHEMA)}}}, "5": {{"schema": "int"}}}}}}',
        encoding="utf-8",
    )
    with pytest.raises(ConfigurationError, match="the name '5' stands twice in one object"):
        reader("ibmcdc-avro", schemas=str(tmp_path / "s.json"))
    both = {"avro": {"5": {"schema": SCHEMA}, "05": {"schema": SWAPPED}}}
    with pytest.raises(ConfigurationError, match="schema id 5 is one schema in schemas and"):
        reader("ibmcdc-avro", schemas=both)


@pytest.mark.parametrize("content", ["{", '{"avro": {"x": {"schema": "string"}}}', '{"avro": 5}'])
def test_a_file_of_schemas_that_is_none(tmp_path, content):
    (tmp_path / "s.json").write_text(content, encoding="utf-8")
    with pytest.raises(ConfigurationError, match="schemas"):
        reader("ibmcdc-avro", schemas=str(tmp_path / "s.json"))
    with pytest.raises(ConfigurationError, match="there is no"):
        reader("ibmcdc-avro", schemas=str(tmp_path / "none.json"))


def test_an_unknown_id_is_asked_for_once_and_refused():
    with schema_registry() as registry:
        decoder = reader("ibmcdc-avro", registry=registry.url)
        for _ in range(3):
            with pytest.raises(Refusal, match="schema id 77 is not known") as caught:
                decoder.decode(Message("t", 0, 0, None, None, b"\0\0\0\0\x4d\0"))
            assert caught.value.kind == "schema"
        assert len(registry.asked) == 1


def test_a_guid_in_a_header_and_a_schema_with_references():
    address = {"type": "record", "name": "shop.Address", "fields": [{"name": "S", "type": "int"}]}
    user = {"type": "record", "name": "T", "fields": [{"name": "A", "type": "shop.Address"}]}
    with schema_registry() as registry:
        registry.add("address", address)
        reference = {"name": "shop.Address", "subject": "address", "version": 1}
        number = registry.add("user", user, references=[reference], schemaType="AVRO")
        token = b"\1" + registry.guid(number).bytes
        decoder = reader("ibmcdc-avro", registry=registry.url)
        headers = [("__value_schema_id", token)]
        for value, with_headers in ((b"\x04", headers), (token + b"\x04", None)):
            found = rows_of(decoder, [Message("t", 0, 0, None, None, value, with_headers)])
            assert found == [{"A": '{"S":2}'}]


def test_a_registry_that_does_not_answer_is_no_fault_of_the_message():
    with schema_registry() as registry:
        registry.broken = True
        decoder = reader("ibmcdc-avro", registry=registry.url)
        with pytest.raises(UnavailableError, match="answers 500") as caught:
            decode_message(decoder, Message("t", 0, 0, None, None, b"\0\0\0\0\x01\0"))
        assert caught.value.transient
    with pytest.raises(UnavailableError, match="cannot be reached"):
        decode_message(decoder, Message("t", 0, 0, None, None, b"\0\0\0\0\x01\0"))


def test_credentials_come_from_the_environment_and_are_never_printed(monkeypatch):
    for url in ("http://me:secret@host:8081", "http://ok:8081,http://me:secret@host"):
        with pytest.raises(ValueError, match="holds credentials") as refused:
            envelopes.get("ibmcdc-avro").decode_settings(registry=url)
        messages = [error["msg"] for error in refused.value.errors(include_input=False)]
        assert "secret" not in str(messages)
    with schema_registry("me:secret") as registry:
        registry.add("t", SCHEMA)
        value = framed(1, SCHEMA, {"A": "x"})
        monkeypatch.setenv(CREDENTIALS, "me:wrong-secret")
        with pytest.raises(ConfigurationError, match="does not know the user") as error:
            reader("ibmcdc-avro", registry=registry.url).decode(Message("t", 0, 0, 0, None, value))
        assert "wrong-secret" not in str(error.value)
        monkeypatch.setenv(CREDENTIALS, "me:secret")
        decoder = reader("ibmcdc-avro", registry=registry.url)
        assert rows_of(decoder, [Message("t", 0, 0, 0, None, value)]) == [{"A": "x"}]


def test_a_schema_that_consumers_could_not_read_is_not_written():
    with schema_registry() as registry:
        registry.incompatible = True
        encoder = writer("ibmcdc-avro", registry=registry.url, topic="shop")
        with pytest.raises(ConfigurationError, match=r"incompatible with earlier .*shop-"):
            encoder.encode(change("insert", after=ROW), [])


@pytest.mark.parametrize("port", ["abc", "0", "65536", "-1"])
def test_a_url_whose_port_is_none(port):
    with pytest.raises(ValueError, match="whose port is no number from 1 to 65535"):
        envelopes.get("ibmcdc-avro").encode_settings(registry=f"http://host:{port}")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"audit_columns": ["A_CODE"]}, "audit_columns lacks A_ENTTYP, which holds the operation"),
        ({"audit_columns": ["X_ENTTYP", "A_CODE"], "audit_prefix": "X_"}, "names 'A_CODE', which"),
    ],
)
def test_audit_columns_that_cannot_be(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        envelopes.get("ibmcdc-avro").decode_settings(**given)


def test_one_place_of_schemas():
    with pytest.raises(ConfigurationError, match="both set"):
        reader("ibmcdc-avro", schemas={}, registry="http://127.0.0.1:1")
    with pytest.raises(ConfigurationError, match="both set"):
        writer("ibmcdc-avro", schemas="x", registry="http://127.0.0.1:1")


# Schemas that are traps


def nested(depth):
    schema = "string"
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


def doubling(levels):
    """A schema of a few lines whose records hold 2^levels fields."""
    types = {"type": "record", "name": "R0", "fields": []}
    for n in range(1, levels):
        inner = [{"name": "a", "type": types}, {"name": "b", "type": f"R{n - 1}"}]
        types = {"type": "record", "name": f"R{n}", "fields": inner}
    return types


@pytest.mark.parametrize(
    "schema",
    [
        *(nested(40), nested(5000), doubling(25), [], {}, 5, "x", {"type": "x"}),
        *({"type": "fixed", "name": "f", "size": 1 << 60}, {"type": "fixed", "name": "f"}),
        *([["null"]], {"type": "enum", "name": "e", "symbols": [1]}, {"type": "map"}),
        {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}] * 2},
        {"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "r"}}]},
        {"type": "array", "items": {"type": "record", "name": "r", "fields": []}},
    ],
)
def test_a_schema_that_cannot_be_is_refused(schema):
    try:
        text = json.dumps(schema)
    except RecursionError:
        text = '{"type":"array","items":' * 5000
    with pytest.raises(Refusal) as caught:
        parse(text)
    assert caught.value.kind == "schema"


def test_as_many_columns_as_are_taken_unless_max_columns_is_set():
    """Of Debezium's widest type: a Point that may be null, in the row before and after."""
    point = {
        "type": "record",
        "name": "io.debezium.data.geometry.Point",
        "fields": [
            *({"name": name, "type": "double"} for name in ("x", "y")),
            {"name": "wkb", "type": ["null", "bytes"]},
            {"name": "srid", "type": ["null", "int"]},
        ],
    }
    columns = [
        {"name": f"c{n}", "type": ["null", point["name"] if n else point]}
        for n in range(MAX_COLUMNS)
    ]
    value = {"type": "record", "name": "Value", "fields": columns}
    rows = [
        {"name": "before", "type": ["null", value]},
        {"name": "after", "type": ["null", "Value"]},
    ]
    source = [{"name": f"f{n}", "type": ["null", "string"]} for n in range(100)]
    found = parse(json.dumps({"type": "record", "name": "E", "fields": [*rows, *source]}))
    assert 2 * 11 * MAX_COLUMNS < found.types < MAX_TYPES


def test_names_of_tables_and_columns_that_avro_does_not_allow():
    encoder, decoder = writer("ibmcdc-avro"), reader("ibmcdc-avro")
    for schema, row in ((IN_PUBLIC, dict.fromkeys(IN_PUBLIC.names, "1")), (PLAIN, ROW)):
        (encoded,) = encoder.encode(change("insert", after=row, schema=schema), [])
        (found,) = decoder.decode(message(encoded))
        assert found.schema.qualified_name == schema.qualified_name
        for _, text in encoded.headers:
            fastavro.parse_schema(json.loads(text))


@pytest.mark.parametrize(
    ("damaged", "sentence"),
    [
        ({"type": "array", "items": {"optional": True}}, "missing required field `type`"),
        ({"type": "array"}, "a part of type array has no items"),
        ({"type": "map", "values": {"type": "text"}}, "'text' is no type"),
        ({"type": "struct", "fields": [{"type": "string"}]}, "a field has no name"),
        ({"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal"}, "has no scale"),
        ({"type": "string", "parameters": [1]}, "parameters"),
    ],
)
def test_a_schema_with_parts_missing_has_no_avro_notation(damaged, sentence):
    field = {**damaged, "field": "f", "optional": True}
    with pytest.raises(Refusal, match=r"no Connect schema") as refusal:
        avro_schema({"type": "struct", "fields": [field]}, "dbz.shop.t.Value")
    assert refusal.value.kind == "encoding"
    assert sentence in refusal.value.sentence
