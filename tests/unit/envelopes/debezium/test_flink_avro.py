"""What Flink's `debezium-avro-confluent` writes: three fields, in a union with null, no source.

The schema is what Flink 2.3 makes of a table (`AvroSchemaConverter.convertToSchema` of
`DebeziumAvroSerializationSchema.createDebeziumAvroRowType`): its TIMESTAMP without time zone has
Avro's timestamp-millis, its update is a delete and an insert.
"""

from __future__ import annotations

import datetime
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from tests.contract.test_bulk_avro import CANAL, EVENTS, JSON, agree
from tests.histories import by_name
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.records import Change, Message
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

COLUMNS: dict[str, Any] = {
    "name": "string",
    "amount": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    "at": {"type": "long", "logicalType": "timestamp-millis"},
    "day": {"type": "int", "logicalType": "date"},
    "clock": {"type": "int", "logicalType": "time-millis"},
    "ok": "boolean",
    "photo": "bytes",
    "d": "double",
    "small": "int",
}


def row_type(image: str) -> list[Any]:
    fields = [{"name": "id", "type": "long"}]
    fields += [{"name": n, "type": ["null", kind], "default": None} for n, kind in COLUMNS.items()]
    return ["null", {"type": "record", "name": f"record_{image}", "fields": fields}]


SCHEMA = [
    "null",
    {
        "type": "record",
        "name": "record",
        "namespace": "org.apache.flink.avro.generated",
        "fields": [
            {"name": "before", "type": row_type("before"), "default": None},
            {"name": "after", "type": row_type("after"), "default": None},
            {"name": "op", "type": ["null", "string"], "default": None},
        ],
    },
]
PARSED = fastavro.parse_schema(SCHEMA)


def row_of(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "name": f"n{number}",
        "amount": Decimal("12.50"),
        "at": datetime.datetime(2023, 11, 14, 22, 13, 20, 123_000, datetime.UTC),
        "day": datetime.date(2022, 1, 8),
        "clock": datetime.time(1, 1, 1, 123_000),
        "ok": True,
        "photo": b"\1\xff",
        "d": 1.5,
        "small": None,
    }


TEXTS = {
    "amount": "12.50",
    "at": "2023-11-14T22:13:20.123",
    "day": "2022-01-08",
    "clock": "01:01:01.123",
    "ok": "true",
    "photo": "Af8=",
    "d": "1.5",
    "small": None,
}


def written(op: str | None, before: int | None, after: int | None) -> bytes:
    images = [None if number is None else row_of(number) for number in (before, after)]
    out = io.BytesIO(b"\0" + (7).to_bytes(4, "big"))
    out.seek(5)
    event = {"before": images[0], "after": images[1], "op": op}
    fastavro.schemaless_writer(out, PARSED, event)
    return out.getvalue()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "7.avsc").write_text(json.dumps(SCHEMA))
    return str(tmp_path)


def read(folder: str, values: list[bytes], rules: TableRules | None = None) -> list[Change]:
    envelope = registry.get("debezium-avro")
    decoder = envelope.decoder(envelope.decode_settings(schemas=folder), rules or TableRules())
    return [
        decoder.decode(Message("shop.orders", 0, number, None, None, value))[0]
        for number, value in enumerate(values)
    ]


def test_inserts_and_deletes_are_read_as_flink_wrote_them(folder):
    values = [written("c", None, 1), written("d", 1, None), written("c", None, 2)] * 2
    found = read(folder, values)
    assert [change.operation for change in found] == ["insert", "delete", "insert"] * 2
    for change, number in zip(found, [1, 1, 2] * 2, strict=True):
        schema = change.schema
        assert (schema.database, schema.schema, schema.table) == ("shop", None, "orders")
        image = change.before if change.after is None else change.after
        assert by_name(schema, image) == {"id": str(number), "name": f"n{number}", **TEXTS}
        assert (change.sequence, change.source_time, change.extra) == (None, None, None)
    kinds = {column.name: str(column.type) for column in found[0].schema.columns}
    assert kinds["amount"] == "decimal(10,2)"
    assert [kinds[name] for name in ("at", "day", "clock")] == ["timestamp", "date", "time"]


MADE = (
    "0200028098dc93340206416e6e020404e202f6a1abfef96202f0a8020286f5be03"
    "0201020401ff02000000000000f83f00020263"
)
"""Bytes that Flink's own converter and writer made of a row of this schema."""


def test_the_bytes_of_flink_itself_are_read(folder):
    (change,) = read(folder, [b"\0\0\0\0\7" + bytes.fromhex(MADE)])
    assert change.operation == "insert"
    row = {"id": "7000000000", "name": "Ann", **TEXTS}
    assert by_name(change.schema, change.after) == row


def test_a_declared_key_is_that_of_the_table(folder):
    rules = TableRules({"shop.orders": TableRule(("id",), {"at": parse_type("timestamp")})})
    (change,) = read(folder, [written("c", None, 1)], rules)
    assert change.schema.key == ("id",)
    assert change.key_image().f0 == "1"


def test_null_in_place_of_an_event_and_an_event_without_operation_are_refused(folder):
    with pytest.raises(Refusal):
        read(folder, [b"\0\0\0\0\7\0"])
    with pytest.raises(Refusal):
        read(folder, [written(None, None, 1)])
    with pytest.raises(Refusal, match="ends"):
        read(folder, [written("c", None, 1), written("c", None, 1)[:-1]])


@pytest.mark.parametrize("target", [JSON, CANAL, EVENTS], ids=["json", "canal", "avro"])
def test_both_speeds_read_the_same(target, folder):
    rules = TableRules({"shop.orders": TableRule(("id",), {})})
    values = [written("cd"[n % 2], n if n % 2 else None, None if n % 2 else n) for n in range(60)]
    values[7] = values[7][:-2]
    messages = [Message("shop.orders", 0, n, 1, None, value) for n, value in enumerate(values)]
    settings = registry.get("debezium-avro").decode_settings(schemas=folder)
    agree(EVENTS, target, messages, rules, settings, folder)
