"""Debezium: a null is not written where the schema of its message has no place for one."""

from __future__ import annotations

import json

import pytest

from tests.contract.test_bulk_avro import CANAL, EVENTS, JSON, agree
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.records import Change, Column, Message, intern_schema
from waybill.spec.migration import Table, table_rules
from waybill.types import parse_type

MESSAGE = Message("t", 0, 1, 1, None, None)
WITH_SCHEMAS = [("debezium-json", {"schemas": True}), ("debezium-avro", {})]
PLACE = "the schema of a key has no place for a null"


def table(key=None, other=None, dialect=""):
    columns = [Column("id", parse_type("int32"), None, key), Column("n", parse_type("string"))]
    columns.append(Column("m", parse_type("string"), None, other))
    return intern_schema("shop", None, "t", tuple(columns), ("id",), dialect)


def changes(schema):
    """Every operation of a row whose key is null, or was."""
    row, other = schema.Image(None, "x", "y"), schema.Image("1", "x", "y")
    carried = b'{"debezium_oldkey":true,"debezium":{"source":{"table":"t"},"op":"c"}}'
    return [
        Change("insert", schema, MESSAGE, after=row),
        Change("delete", schema, MESSAGE, before=row),
        Change("update", schema, MESSAGE, before=row, after=other),
        Change("update", schema, MESSAGE, before=other, after=row),
        Change("update", schema, MESSAGE, after=other, moved_from=schema.Key(None)),
        Change("update", schema, MESSAGE, after=other, moved_from=schema.Key(None), extra=carried),
    ]


@pytest.mark.parametrize(("name", "settings"), WITH_SCHEMAS)
@pytest.mark.parametrize("number", range(6))
def test_a_null_key_is_refused_in_words_of_its_own(name, settings, number):
    envelope = registry.get(name)
    encoder = envelope.encoder(envelope.encode_settings(**settings))
    with pytest.raises(Refusal, match=PLACE) as caught:
        encoder.encode(changes(table())[number], [])
    assert caught.value.kind == "encoding"
    assert "'id'" in caught.value.sentence


@pytest.mark.parametrize(("name", "settings"), WITH_SCHEMAS)
@pytest.mark.parametrize("number", range(6))
def test_a_key_that_debezium_made_of_columns_that_may_be_null_is_written(name, settings, number):
    """`message.key.columns` names any columns."""
    envelope = registry.get(name)
    change = changes(table(key=True, dialect="connect"))[number]
    encoded = envelope.encoder(envelope.encode_settings(**settings)).encode(change, [])
    decoder = envelope.decoder(envelope.decode_settings(), table_rules({}))
    read = []
    for one in encoded:
        read += decoder.decode(Message("a.shop.t", 0, 1, 1, one.key, one.value, one.headers))
    rows = [found for found in read if found.outcome == "ok"]
    assert rows[-1].key_image() == change.key_image()


def test_without_schemas_a_null_key_is_a_null():
    envelope = registry.get("debezium-json")
    (encoded,) = envelope.encoder(envelope.encode_settings()).encode(changes(table())[0], [])
    assert encoded.key == b'{"id":null}'


@pytest.mark.parametrize(("name", "settings"), WITH_SCHEMAS)
def test_a_null_in_a_column_that_is_never_null_is_refused(name, settings):
    envelope = registry.get(name)
    encoder = envelope.encoder(envelope.encode_settings(**settings))
    schema = table(other=False)
    with pytest.raises(Refusal, match="column 'm' is null, and its source says that it never is"):
        encoder.encode(Change("insert", schema, MESSAGE, after=schema.Image("1", "x", None)), [])


@pytest.mark.parametrize("source", [CANAL, JSON])
def test_null_keys_are_refused_at_once_as_they_are_one_by_one(source, tmp_path):
    columns = {"id": "int", "n": "varchar(20)"}
    rules = table_rules({"shop.t": Table.model_validate({"key": ["id"], "columns": columns})})
    messages = []
    for number in range(400):
        row = {"id": None if number % 40 == 39 else number, "n": None if number % 3 else "a"}
        if source is CANAL:
            texts = {n: None if v is None else str(v) for n, v in row.items()}
            value = {"database": "shop", "table": "t", "pkNames": ["id"], "isDdl": False}
            value |= {"type": "INSERT", "es": 1, "ts": 1, "sql": "", "old": None, "data": [texts]}
        else:
            block = {"connector": "mysql", "db": "shop", "table": "t", "file": "a.1"}
            block |= {"pos": number, "row": 0}
            value = {"before": None, "after": row, "source": block, "op": "c", "ts_ms": 1}
        text = json.dumps(value, separators=(",", ":")).encode()
        messages.append(Message("topic", 0, number, 1, None, text))
    texts = registry.get(source.name).decode_settings()
    assert agree(source, EVENTS, messages, rules, texts, str(tmp_path)) >= 100


@pytest.mark.parametrize(("name", "settings"), WITH_SCHEMAS)
@pytest.mark.parametrize("number", ["x", 1.5, True, ["x"], {"a": 1}, 7, None])
def test_what_stands_around_a_row_has_the_schema_of_its_value(name, settings, number):
    """A producer may write a count in another notation than the connectors; it is carried on."""
    source = {"connector": "mysql", "db": "shop", "table": "t", "server_id": number}
    value = {"before": None, "after": {"id": 1}, "source": source, "op": "c", "ts_ms": 1}
    reads = registry.get("debezium-json")
    decoder = reads.decoder(reads.decode_settings(), table_rules({}))
    (change,) = decoder.decode(Message("a.shop.t", 0, 0, 1, None, json.dumps(value).encode()))
    envelope = registry.get(name)
    (encoded,) = envelope.encoder(envelope.encode_settings(**settings)).encode(change, [])
    again = envelope.decoder(envelope.decode_settings(), table_rules({}))
    (read,) = again.decode(Message("a.shop.t", 0, 0, 1, None, encoded.value, encoded.headers))
    assert json.loads(read.extra)["debezium"]["source"]["server_id"] == number


@pytest.mark.parametrize(("name", "settings"), WITH_SCHEMAS)
def test_the_place_in_a_transaction_as_a_text_is_refused_in_words_of_its_own(name, settings):
    """Its type is fixed, and a reader of Connect takes a text there for 0."""
    block = {"id": "q", "total_order": "1", "data_collection_order": "1"}
    source = {"connector": "mysql", "db": "shop", "table": "t"}
    value = {"before": None, "after": {"id": 1}, "source": source, "transaction": block, "op": "c"}
    reads = registry.get("debezium-json")
    decoder = reads.decoder(reads.decode_settings(), table_rules({}))
    (change,) = decoder.decode(Message("a.shop.t", 0, 0, 1, None, json.dumps(value).encode()))
    envelope = registry.get(name)
    encoder = envelope.encoder(envelope.encode_settings(**settings))
    with pytest.raises(Refusal, match="the blocks around the row cannot be described by a schema"):
        encoder.encode(change, [])
