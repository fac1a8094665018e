"""Debezium's readers take a number below zero in an unsigned column for one that wrapped around."""

from __future__ import annotations

import json

import pytest

from tests.contract.test_bulk import agree
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.records import Message
from waybill.tables import TableRules


def canal(number: int, value: str) -> bytes:
    flat = {
        "data": [{"id": str(number), "n": value}],
        "database": "shop",
        "es": 1_700_000_000_000,
        "id": 1,
        "isDdl": False,
        "mysqlType": {"id": "bigint", "n": "bigint unsigned"},
        "old": None,
        "pkNames": ["id"],
        "sql": "",
        "sqlType": {"id": -5, "n": -5},
        "table": "orders",
        "ts": 1,
        "type": "INSERT",
    }
    return json.dumps(flat, separators=(",", ":")).encode()


@pytest.mark.parametrize("name", ["debezium-json", "debezium-avro"])
@pytest.mark.parametrize("mode", ["number", "long", "precise"])
@pytest.mark.parametrize("value", ["-1", "-9223372036854775808"])
def test_a_number_below_zero_is_not_written(name, mode, value):
    source, target = registry.get("canal"), registry.get(name)
    decoder = source.decoder(source.decode_settings(), TableRules())
    (change,) = decoder.decode(Message("t", 0, 0, None, None, canal(0, "7")))
    change.after.f1 = value
    for schemas in (False, True) if name == "debezium-json" else (None,):
        settings = {} if schemas is None else {"schemas": schemas}
        encoder = target.encoder(target.encode_settings(unsigned=mode, **settings))
        with pytest.raises(Refusal) as refusal:
            encoder.encode(change, [])
        assert refusal.value.kind == "encoding"


def test_nor_among_others_that_are_written_at_once():
    values = ["7", "-1", "9223372036854775807", "0"]
    lines = [canal(i, values[i % 4]) for i in range(200)]
    assert agree("canal", "debezium-json", lines, TableRules()) > 100
