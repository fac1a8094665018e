"""`dbType` that OMS messages are written with: what came, what a setting says, or nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.test_bulk import agree
from tests.histories import image
from waybill.envelopes import registry
from waybill.records import Change, Column, Message, intern_schema
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

NAMES = ["oms-default", "oms-extended"]


def kind_of(name: str, change: Change, **settings: Any) -> str | None:
    envelope = registry.get(name)
    encoder = envelope.encoder(envelope.encode_settings(**settings))  # type: ignore[misc]
    (made,) = encoder.encode(change, [])
    found: str | None = json.loads(made.value)["allMetaData"]["dbType"]
    return found


def change_of(dialect: str, extra: bytes | None = None) -> Change:
    schema = intern_schema("d", None, "t", (Column("id", parse_type("int32")),), ("id",), dialect)
    message = Message("t", 0, 1, 1_700_000_000_000, None, None)
    after = image(schema, id="1")
    return Change("insert", schema, message, after=after, sequence=(7,), extra=extra)


@pytest.mark.parametrize("name", NAMES)
def test_what_never_came_is_not_made_up(name):
    assert kind_of(name, change_of("")) is None
    assert kind_of(name, change_of("postgresql")) is None
    assert kind_of(name, change_of("mysql")) == "MYSQL"
    for dialect in ("", "mysql"):
        assert kind_of(name, change_of(dialect), db_type="ORACLE") == "ORACLE"
    came = b'{"oms":{"dbType":"OB_ORACLE"}}'
    assert kind_of(name, change_of("", came)) == "OB_ORACLE"
    assert kind_of(name, change_of("", came), db_type="ORACLE") == "OB_ORACLE"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("db_type", [None, "ORACLE", "OB_ORACLE"])
def test_both_speeds_name_the_same(name, db_type):
    rules = TableRules({"S.T": TableRule(("ID",), {"ID": parse_type("int64")})})
    settings = {"table": "S.T", "op_type": "I", "op_ts": "2024-05-06 07:08:09.000000"}
    lines = [
        json.dumps(
            {
                **settings,
                "current_ts": "2024-05-06T07:08:09",
                "pos": f"{n:020}",
                "after": {"ID": n},
            },
            separators=(",", ":"),
        ).encode()
        for n in range(1, 150)
    ]
    written = registry.get(name).encode_settings(db_type=db_type)
    assert agree("ogg", name, lines, rules, written=written) > 100
