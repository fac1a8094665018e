"""Tables of PostgreSQL without a key: their rows before are whole, and no setting has to say so."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from waybill.batches.bulk_decoding import BulkChangeBatches
from waybill.batches.decoding import ChangeBatches
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.lake_columns import HEADERS, TIMESTAMP
from waybill.records import Change, Column, Message, intern_schema
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

SOURCE = {"connector": "postgresql", "db": "d", "schema": "s", "table": "t", "lsn": 7, "txId": 1}
FIELDS = [
    {"field": "n", "type": "int32", "optional": False},
    {"field": "note", "type": "string", "optional": True},
]
SCHEMA = {
    "type": "struct",
    "fields": [
        {"type": "struct", "optional": True, "fields": FIELDS, "field": name}
        for name in ("before", "after")
    ],
}
TYPES = {"n": "int32", "note": "string"}
TIME = 1_700_000_000_000


def event(op: str, before: Any, after: Any, lsn: int, schema: bool) -> bytes:
    payload = {"before": before, "after": after, "source": {**SOURCE, "lsn": lsn}, "op": op}
    return json.dumps({"schema": SCHEMA, "payload": payload} if schema else payload).encode()


def decoded(value: bytes, key: bytes | None = None, timestamp: int | None = TIME) -> Any:
    envelope = registry.get("debezium-json")
    assert envelope.decoder is not None
    decoder = envelope.decoder(envelope.decode_settings(), TableRules())
    (change,) = decoder.decode(Message("d.s.t", 0, 3, timestamp, key, value))
    return change


ROW = {"n": 1, "note": "x"}


@pytest.mark.parametrize("schema", [False, True])
@pytest.mark.parametrize("op", ["u", "d"])
def test_what_came_without_a_key_from_the_queue_is_of_a_table_without_one(op, schema):
    change = decoded(event(op, ROW, None if op == "d" else {"n": 2, "note": "x"}, 7, schema))
    assert (change.before.f0, change.before.f1) == ("1", "x")
    assert change.schema.key is None


def test_a_value_in_a_column_that_may_be_null_says_that_the_row_is_whole():
    """Lines of a file have no keys, whatever the table has."""
    change = decoded(event("d", ROW, None, 7, schema=True), timestamp=None)
    assert (change.before.f0, change.before.f1) == ("1", "x")


@pytest.mark.parametrize("schema", [False, True])
def test_what_may_be_nothing_but_a_key_is_refused(schema):
    with pytest.raises(Refusal, match="`key: \\[\\]` for a table without one") as caught:
        decoded(event("d", {"n": 1, "note": None}, None, 7, schema), timestamp=None)
    assert caught.value.kind == "key"
    with pytest.raises(Refusal):
        decoded(event("d", {"n": 1, "note": "__debezium_unavailable_value"}, None, 7, schema))


def test_of_a_table_with_a_key_the_key_alone_is_trusted():
    change = decoded(event("d", ROW, None, 7, schema=True), key=b'{"n":1}')
    assert change.before.f0 == "1"
    assert not isinstance(change.before.f1, str)


@pytest.mark.parametrize("schema", [False, True])
@pytest.mark.parametrize("declared", [False, True])
def test_many_at_once_are_read_the_same_way(schema, declared):
    lines = [
        event(
            "cud"[n % 3],
            None if n % 3 == 0 else {"n": n, "note": "x"},
            None if n % 3 == 2 else {"n": n, "note": "y"},
            n,
            schema,
        )
        for n in range(90)
    ]
    size = len(lines)
    archive = pa.record_batch(
        {
            "topic": pa.array(["t"] * size),
            "partition": pa.array([0] * size, pa.int32()),
            "offset": pa.array(range(size), pa.int64()),
            "timestamp": pa.array([TIME * 1000] * size, TIMESTAMP),
            "key": pa.array([None] * size, pa.binary()),
            "value": pa.array(lines, pa.binary()),
            "headers": pa.array([None] * size, HEADERS),
        }
    )
    types = {"n": parse_type("int32"), "note": parse_type("string")}
    rules = TableRules({"d.s.t": TableRule((), types)} if declared else {})
    envelope = registry.get("debezium-json")
    assert envelope.decoder is not None
    assert envelope.bulk_reader is not None
    found = []
    for in_bulk in (False, True):
        decoder = envelope.decoder(envelope.decode_settings(), rules)
        work = ChangeBatches(decoder, "batch")
        if in_bulk:
            rows = BulkChangeBatches(work, envelope.bulk_reader(decoder), fewest=1).rows(archive)
        else:
            (rows,) = work.convert(iter([archive]))
        found.append([row for row in rows.to_pylist() if row["outcome"] != "schema"])
    slowly, quickly = found
    assert slowly == quickly
    assert {row["outcome"] for row in slowly} == {"ok"}
    assert all(json.loads(row["before"]) for row in slowly if row["operation"] != "insert")


@pytest.mark.parametrize("key", [b"null", b'{"schema":null,"payload":null}'])
def test_a_key_that_is_null_is_none(key):
    assert decoded(event("d", ROW, None, 7, schema=True), key=key).before.f1 == "x"


def test_in_avro_too(tmp_path):
    envelope = registry.get("debezium-avro")
    assert envelope.encoder is not None
    assert envelope.decoder is not None
    columns = tuple(Column(name, parse_type(kind)) for name, kind in TYPES.items())
    schema = intern_schema("d", "s", "t", columns, (), "")
    encoder = envelope.encoder(
        envelope.encode_settings(schemas=str(tmp_path), connector="postgresql", tombstones=False)
    )
    decoder = envelope.decoder(envelope.decode_settings(schemas=str(tmp_path)), TableRules())
    for offset in range(3):
        change = Change(
            "delete",
            schema,
            Message("d.s.t", 0, offset, TIME, None, None),
            before=schema.Image(f0=str(offset), f1="x"),
            sequence=(7, 7 + offset),
            source_time=TIME * 1000,
        )
        (written,) = encoder.encode(change, [])
        assert written.key is None
        (found,) = decoder.decode(
            Message("d.s.t", 0, offset, TIME, None, written.value, written.headers)
        )
        assert (found.outcome, found.operation, found.schema.key) == ("ok", "delete", None)
        assert (found.before.f0, found.before.f1) == (str(offset), "x")
