"""What Debezium messages carry on survives the lake between decoding and encoding."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

from waybill.batches.decoding import ChangeBatches
from waybill.batches.encoding import MessageBatches
from waybill.envelopes import registry
from waybill.lake_columns import ARCHIVE
from waybill.records import TableSchema
from waybill.tables import TableRules

ENVELOPE = registry.get("debezium-json")
SOURCE = {
    "version": "3.5.0.Final",
    "connector": "mysql",
    "name": "dbz",
    "ts_ms": 1_700_000_000_000,
    "snapshot": "false",
    "db": "shop",
    "table": "orders",
    "file": "bin.000001",
    "pos": 154,
    "row": 0,
    "note": "é 🙂",
}


def event(op, before, after, **source):
    return {
        "before": before,
        "after": after,
        "source": {**SOURCE, **source},
        "transaction": {"id": "t-1", "total_order": 1, "data_collection_order": 1},
        "op": op,
        "ts_ms": 1_700_000_000_456,
    }


ROW = {"id": 1, "name": "Ann", "big": 2**70}
MESSAGES = [
    ({"id": 1}, event("r", None, ROW, snapshot="true"), None),
    ({"id": 1}, event("u", ROW, {**ROW, "name": None}), None),
    ({"id": 1}, event("u", None, {**ROW, "name": "__debezium_unavailable_value"}), None),
    ({"id": 1}, event("d", ROW, None, pos=200), [("__debezium.newkey", {"id": 2})]),
    ({"id": 1}, None, [("__debezium.newkey", {"id": 2})]),
    ({"id": 2}, event("c", None, {**ROW, "id": 2}, pos=200), [("__debezium.oldkey", {"id": 1})]),
    (None, event("t", None, None), None),
    (
        {"databaseName": "shop"},
        {"source": SOURCE, "databaseName": "shop", "ddl": "DROP TABLE x", "tableChanges": []},
        None,
    ),
    ({"serverName": "waybill"}, {"ts_ms": 1}, None),
]


def archive() -> pa.RecordBatch:
    rows = []
    for offset, (key, value, headers) in enumerate(MESSAGES):
        pairs = [{"key": name, "value": msgspec.json.encode(v)} for name, v in headers or ()]
        rows.append(
            {
                "topic": "dbz.shop.orders",
                "partition": 0,
                "offset": offset,
                "timestamp": 1_700_000_000_000_000,
                "key": None if key is None else msgspec.json.encode(key),
                "value": None if value is None else msgspec.json.encode(value),
                "headers": pairs or None,
                "batch": "b",
            }
        )
    return pa.RecordBatch.from_pylist(rows, ARCHIVE)


def through_the_lake(**settings) -> list[dict]:
    decoder = ENVELOPE.decoder(ENVELOPE.decode_settings(), TableRules())
    (changes,) = ChangeBatches(decoder, "b").convert(iter([archive()]))
    rows = changes.to_pylist()
    assert [row["reason"] for row in rows if row["outcome"] == "refused"] == []
    schemas = {
        row["schema_id"]: TableSchema.from_json(row["extra"])
        for row in rows
        if row["outcome"] == "schema"
    }
    accepted = changes.filter(pa.array([row["outcome"] == "ok" for row in rows]))
    encoder = ENVELOPE.encoder(ENVELOPE.encode_settings(control_messages=True, **settings))
    (outbox,) = MessageBatches(encoder, "t", "b", schemas).convert(iter([accepted]))
    return outbox.to_pylist()


def decoded(value: bytes | None):
    return None if value is None else msgspec.json.decode(value)


def test_messages_come_out_as_they_went_in():
    outbox = through_the_lake()
    assert [row["outcome"] for row in outbox] == ["ok"] * len(MESSAGES)
    for row, (key, value, headers) in zip(outbox, MESSAGES, strict=True):
        assert decoded(row["value"]) == value
        assert decoded(row["key"]) == key
        pairs = [(h["key"], decoded(h["value"])) for h in row["headers"] or ()]
        assert pairs == (headers or [])


@pytest.mark.parametrize("decimals", ["string", "precise"])
def test_with_schemas_the_payload_is_the_same(decimals):
    """Numbers without a declared type are no Connect type, so they become text or a struct."""
    written = {
        "string": lambda n: str(n),
        "precise": lambda n: {
            "scale": 0,
            "value": {1: "AQ==", 2: "Ag==", 2**70: "QAAAAAAAAAAA"}[n],
        },
    }[decimals]
    for row, (key, value, _) in zip(
        through_the_lake(schemas=True, decimals=decimals), MESSAGES, strict=True
    ):
        if value is None:
            assert row["value"] is None
            continue
        wrapped = decoded(row["value"])
        assert wrapped.keys() == {"schema", "payload"}
        if "op" not in value:
            assert wrapped == {"schema": None, "payload": value}
            continue
        expected = {
            **value,
            **{
                image: {n: written(v) if isinstance(v, int) else v for n, v in value[image].items()}
                for image in ("before", "after")
                if value[image] is not None
            },
        }
        assert wrapped["payload"] == expected
        if key is not None:
            assert decoded(row["key"])["payload"] == {"id": written(key["id"])}
