"""Rows are written with the schema that they were read with, whatever types of Avro it has."""

from __future__ import annotations

import io
import json
from hashlib import md5

import fastavro
import pytest

from tests import databus_layout as layout
from waybill.avro.schema import parse
from waybill.envelopes.databus.binary.decoder import BinaryDecoder
from waybill.envelopes.databus.binary.encoder import BinaryEncoder
from waybill.envelopes.databus.json.decoder import JsonDecoder
from waybill.envelopes.databus.json.encoder import JsonEncoder
from waybill.envelopes.databus.settings import (
    BinaryWriteSettings,
    DatabusReadSettings,
    JsonWriteSettings,
)
from waybill.envelopes.databus.values.writing import write_for
from waybill.errors import Refusal
from waybill.records import Message
from waybill.tables import TableRules
from waybill.types import parse_type

TYPES = {
    "size": {"type": "enum", "name": "Size", "symbols": ["S", "M", "L"]},
    "hash": {"type": "fixed", "name": "Hash", "size": 3},
    "price": {
        "type": "fixed",
        "name": "Price",
        "size": 4,
        "logicalType": "decimal",
        "precision": 9,
        "scale": 2,
    },
    "day": {"type": "int", "logicalType": "date"},
    "millis": {"type": "int", "logicalType": "time-millis"},
    "micros": {"type": "long", "logicalType": "time-micros"},
    "at3": {"type": "long", "logicalType": "timestamp-millis"},
    "at6": {"type": "long", "logicalType": "timestamp-micros"},
    "at9": {"type": "long", "logicalType": "timestamp-nanos"},
    "wall3": {"type": "long", "logicalType": "local-timestamp-millis"},
    "wall6": {"type": "long", "logicalType": "local-timestamp-micros"},
    "wall9": {"type": "long", "logicalType": "local-timestamp-nanos"},
    "word": {"type": "string", "logicalType": "date"},
}
ROWS = [
    {
        "size": "L",
        "hash": b"\xff\0a",
        "price": b"\xff\xff\xff\x85",
        "word": "x",
        "day": -1,
        "millis": 86_399_999,
        "micros": -1,
        "at3": -1,
        "at6": -1,
        "at9": -1,
        "wall3": 0,
        "wall6": 1_700_000_000_000_001,
        "wall9": 2**63 - 1,
    },
    {
        "size": "S",
        "hash": bytes(3),
        "price": b"\x7f\xff\xff\xff",
        "word": "2024-01-01",
        "day": 2_932_896,
        "millis": -(2**31),
        "micros": 90_000_000_000,
        "at3": 0,
        "at6": 0,
        "at9": 2**63 - 1,
        "wall3": -1,
        "wall6": -62_135_596_800_000_000,
        "wall9": -(2**63),
    },
    dict.fromkeys(TYPES),
]


def schema_of(nullable):
    fields = [
        {"name": name, "type": ["null", kind] if nullable else kind} for name, kind in TYPES.items()
    ]
    return json.dumps({"type": "record", "name": "Item", "fields": fields})


@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("row", ROWS, ids=["one", "other", "nulls"])
def test_what_was_read_is_written_with_the_same_schema(row, nullable):
    if not nullable and None in row.values():
        return
    text = schema_of(nullable)
    # Logical types are left to Waybill: the writer takes what is on the wire.
    bare = json.loads(text.replace('"logicalType"', '"plain"'))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(bare), row)
    schemas = {"databus": [{"srcId": 101, "source": "shop.Item", "schema": text}]}
    event = layout.v1(1, out.getvalue(), schema=md5(text.encode()).digest())
    settings = DatabusReadSettings(schemas=schemas)
    (found,) = BinaryDecoder(settings, TableRules()).decode(Message("t", 0, 0, None, None, event))
    losses = []
    (again,) = BinaryEncoder(BinaryWriteSettings(schemas=schemas)).encode(found, losses)
    assert (again.value, losses) == (event, [])
    plain = JsonWriteSettings(schemas=schemas, values="JSON_PLAIN")
    (line,) = JsonEncoder(plain).encode(found, losses)
    message = Message("t", 0, 0, None, None, line.value)
    (read,) = JsonDecoder(settings, TableRules()).decode(message)
    assert read.after == found.after


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("size", "enum", "XL"),
        ("hash", "bytes", "AAAA AA="),
        ("hash", "bytes", "AAAAAA=="),
        ("price", "decimal(9,2)", "1.1"),
        ("price", "decimal(12,2)", "21474836.48"),
        ("day", "date", "2024-02-30"),
        ("day", "date", "0000-00-00"),
        ("day", "date", "20240229"),
        ("millis", "time", "10:00:00.0001"),
        ("millis", "time", "-00:00:00"),
        ("millis", "time", "1000:00:00"),
        ("micros", "time", "10:00"),
        ("at6", "timestamptz", "2024-01-01T00:00:00"),
        ("at6", "timestamptz", "2024-01-01T24:00:00Z"),
        ("at9", "timestamptz", "2262-04-11T23:47:16.854775808Z"),
        ("wall6", "timestamp", "2024-01-01T00:00:00Z"),
        ("wall6", "timestamp", "2024-01-01T00:00:00.0000001"),
        ("wall9", "timestamp", "9999-12-31T23:59:59"),
    ],
)
def test_what_a_type_does_not_hold_is_refused(name, kind, text):
    write = write_for(parse(json.dumps(TYPES[name])), parse_type(kind))
    with pytest.raises(Refusal) as refused:
        write(bytearray(), text)
    assert refused.value.kind == "encoding"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("day", "timestamp"), ("at6", "timestamp"), ("wall6", "timestamptz")),
        *(("millis", "string"), ("size", "int32"), ("hash", "string")),
    ],
)
def test_columns_of_another_type_are_refused(name, kind):
    with pytest.raises(Refusal, match=f"values of {kind} are not written"):
        write_for(parse(json.dumps(TYPES[name])), parse_type(kind))
