"""Times of more digits than a format's types have: the type says so, or it is counted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.test_bulk import agree
from tests.histories import image
from waybill.envelopes import registry
from waybill.records import Change, Column, Message, TableSchema, intern_schema
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type, with_digits

VALUES = {
    "timestamp": "2024-05-06T07:08:09.123456789",
    "timestamptz": "2024-05-06T07:08:09.123456789Z",
    "time": "07:08:09.123456789",
}
NAMES = {"timestamp": "DATETIME", "timestamptz": "TIMESTAMP", "time": "TIME"}
MYSQL = {"timestamp": "datetime", "timestamptz": "timestamp", "time": "time"}


def table(kind: str, declared: bool, digits: int = 9) -> TableSchema:
    """A table whose time has its digits from a declaration, or from the source's type."""
    at = Column("at", parse_type(f"{kind}({digits})"))
    if not declared:
        at = Column("at", parse_type(kind), f"{kind.upper()}({digits})")
    return intern_schema("shop", None, "t", (Column("id", parse_type("int64")), at), ("id",))


def written(name: str, schema: TableSchema, value: str) -> tuple[Any, list[str]]:
    envelope = registry.get(name)
    encoder = envelope.encoder(envelope.encode_settings())  # type: ignore[misc]
    message = Message("topic", 0, 1, 1_700_000_000_000, None, None)
    after = image(schema, id="1", at=value)
    change = Change("insert", schema, message, after=after, sequence=(7,), source_time=1_000_000)
    losses: list[str] = []
    (made,) = encoder.encode(change, losses)
    return json.loads(made.value), losses


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "stated"])
def test_canal_names_the_digits_and_counts_the_type(kind, declared):
    message, losses = written("canal", table(kind, declared), VALUES[kind])
    assert message["mysqlType"]["at"] == f"{MYSQL[kind]}(9)"
    assert message["data"][0]["at"].endswith("07:08:09.123456789")
    assert losses.count("types") == 1
    message, losses = written("canal", table(kind, False, 3), VALUES[kind].replace("456789", ""))
    assert message["mysqlType"]["at"] == f"{MYSQL[kind]}(6)"
    assert "types" not in losses


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "stated"])
def test_dataworks_names_the_digits(kind, declared):
    message, losses = written("oms-dataworks", table(kind, declared), VALUES[kind])
    assert message["schema"]["column"][1] == {"name": "at", "type": f"{NAMES[kind]}(9)"}
    assert "types" not in losses
    envelope = registry.get("oms-dataworks")
    decoder = envelope.decoder(envelope.decode_settings(), TableRules())  # type: ignore[misc]
    (change,) = decoder.decode(Message("t", 0, 0, None, None, json.dumps(message).encode()))
    column = change.schema.columns[1]
    assert with_digits(column.type, column.source_type) == parse_type(f"{kind}(9)")
    assert change.after.f1 == VALUES[kind]


@pytest.mark.parametrize("name", ["oms-extended", "oms-canal"])
@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "stated"])
def test_names_without_sizes_are_counted(name, kind, declared):
    _, losses = written(name, table(kind, declared), VALUES[kind])
    assert losses.count("types") == 1
    _, losses = written(name, table(kind, False, 6), VALUES[kind].replace("789", ""))
    assert "types" not in losses


@pytest.mark.parametrize("target", ["canal", "oms-canal", "oms-dataworks", "oms-extended"])
def test_both_speeds_name_and_count_the_same(target):
    columns = {"ID": parse_type("int64"), "AT": parse_type("timestamp(9)")}
    rules = TableRules({"S.T": TableRule(("ID",), columns)})
    lines = [
        json.dumps(
            {
                "table": "S.T",
                "op_type": "I",
                "op_ts": "2024-05-06 07:08:09.000000",
                "current_ts": "2024-05-06T07:08:09.000000",
                "pos": f"{number:020}",
                "after": {"ID": number, "AT": f"2024-05-06 07:08:09.{number:09}"},
            },
            separators=(",", ":"),
        ).encode()
        for number in range(1, 200)
    ]
    assert agree("ogg", target, lines, rules) > 100
