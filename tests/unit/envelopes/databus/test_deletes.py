"""The value of an event is optional (Databus, Event data format): a DELETE may tell a key alone."""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import md5
from typing import Any

import pytest

from tests import databus_layout as layout
from tests.contract.test_bulk_avro import batch_of
from waybill.avro.writing import varint
from waybill.batches.bulk_decoding import BulkChangeBatches
from waybill.batches.decoding import ChangeBatches
from waybill.batches.messages import messages_of
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.records import Message
from waybill.tables import TableRules

ROW = json.dumps(
    {
        "type": "record",
        "name": "Item",
        "meta": "pk=id,region;",
        "fields": [
            {"name": "id", "type": ["null", "long"]},
            {"name": "region", "type": ["null", "string"]},
            {"name": "v", "type": ["null", "string"]},
        ],
    }
)
ONE = json.dumps(
    {
        "type": "record",
        "name": "One",
        "meta": "pk=id;",
        "fields": [
            {"name": "id", "type": ["null", "long"]},
            {"name": "v", "type": ["null", "string"]},
        ],
    }
)
KEY = json.dumps(
    {
        "type": "record",
        "name": "ItemKey",
        "fields": [{"name": "region", "type": "string"}, {"name": "id", "type": "long"}],
    }
)


def digest(text: str) -> bytes:
    return md5(text.encode(), usedforsecurity=False).digest()


def entry(source: int, name: str, text: str) -> dict[str, Any]:
    names = {"srcId": source, "source": name, "table": name.lower(), "database": "d"}
    return {**names, "version": 1, "schema": text}


SCHEMAS = {"databus": [entry(101, "One", ONE), entry(102, "Item", ROW), entry(103, "Key", KEY)]}


def decoder(name: str) -> Any:
    envelope = registry.get(name)
    assert envelope.decoder is not None
    return envelope.decoder(envelope.decode_settings(schemas=SCHEMAS), TableRules())


def line(**more: Any) -> bytes:
    event = {
        "opcode": "DELETE",
        "key": 5,
        "sequence": 77,
        "logicalPartitionId": 0,
        "physicalPartitionId": 0,
        "timestampInNanos": 1_700_000_000_000_000_000,
        "srcId": 101,
        "schemaId": b64encode(digest(ONE)).decode(),
        "valueEnc": "JSON",
        "value": "",
    }
    return json.dumps({**event, **more}).encode()


def read(name: str, value: bytes) -> Any:
    (change,) = decoder(name).decode(Message("t", 0, 0, None, None, value))
    return change


@pytest.mark.parametrize(
    "more", [{}, {"value": None}, {"valueEnc": "JSON_PLAIN"}, {"schemaId": "A" * 22 + "=="}]
)
def test_an_empty_value_in_a_line(more):
    change = read("databus-json", line(**more))
    assert change.operation == "delete"
    assert change.schema.table == "one"
    assert change.key_image().f0 == "5"
    assert change.before.f0 == "5"


def test_no_bytes_of_version_1():
    value = layout.v1(5, b"", attributes=2, source=101, schema=digest(ONE))
    change = read("databus-binary", value)
    assert change.operation == "delete"
    assert change.key_image().f0 == "5"


def test_an_upsert_needs_its_value():
    for value in (line(opcode="UPSERT"), line(opcode="UPSERT", schemaId="A" * 22 + "==")):
        with pytest.raises(Refusal):
            read("databus-json", value)


def key_part(region: bytes, number: bytes, text: str = KEY) -> bytes:
    return layout.part(varint(len(region)) + region + number, digest(text))


def test_a_key_with_a_schema_tells_the_columns_of_the_key():
    key = key_part(b"eu", varint(9))
    change = read("databus-binary", layout.v2(schema_key=key, attributes=2, source=102))
    assert change.operation == "delete"
    assert (change.key_image().f0, change.key_image().f1) == ("9", "eu")


def test_a_key_whose_schema_is_not_known_does_not():
    key = key_part(b"eu", varint(9), KEY.replace("ItemKey", "Other"))
    with pytest.raises(Refusal) as refusal:
        read("databus-binary", layout.v2(schema_key=key, attributes=2, source=102))
    assert refusal.value.kind == "key"


def test_many_at_once_are_read_the_same_way():
    row = varint(1) + varint(7) + varint(1) + varint(1) + b"x"
    full = b64encode(row).decode()
    lines = [line(key=n, sequence=n, value="" if n % 5 == 0 else full) for n in range(60)]
    events = [
        layout.v1(n, b"" if n % 5 == 0 else row, attributes=2, source=101, schema=digest(ONE))
        for n in range(60)
    ]
    for name, values in (("databus-json", lines), ("databus-binary", events)):
        batch = batch_of([Message("t", 0, n, 0, None, v) for n, v in enumerate(values)])
        found = []
        for bulk in (False, True):
            reader = decoder(name)
            work = ChangeBatches(reader, "batch")
            bulk_reader = registry.get(name).bulk_reader
            assert bulk_reader is not None
            if bulk:
                made = BulkChangeBatches(work, bulk_reader(reader), fewest=1).rows(batch)
            else:
                made = work.rows(work.changes(messages_of(batch)))
            rows = [row for row in made.to_pylist() if row["outcome"] != "schema"]
            found.append(sorted((r["offset"], r["outcome"], r["key"], r["before"]) for r in rows))
        assert found[0] == found[1], name
        assert {outcome for _, outcome, _, _ in found[0]} == {"ok"}, name
