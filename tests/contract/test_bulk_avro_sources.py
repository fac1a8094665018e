"""Avro messages that Waybill itself does not write, read and written at once as one by one."""

from __future__ import annotations

import random
import tempfile
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.effort import properties
from tests.contract.test_bulk_avro import (
    AUDIT,
    CANAL,
    EVENTS,
    JSON,
    OMS,
    SIZE,
    Outcome,
    agree,
    damaged,
    name_of,
)
from waybill.avro.framing import prefix_of
from waybill.avro.json_writing import json_writer
from waybill.avro.schema import Node, parse, without_null
from waybill.envelopes import registry
from waybill.records import Message
from waybill.tables import TableRule, TableRules
from waybill.types import LogicalType
from waybill.values.values import base64_text


def event_of(dice: random.Random, connector: str, number: int, wide: bool) -> bytes:
    """An event as a connector writes it, in JSON."""
    op = dice.choice("ccuud")
    snapshot = "false" if dice.random() < 0.9 else dice.choice(["true", "last", "incremental"])
    if snapshot in ("true", "last"):
        op = "r"
    millis = 1_700_000_000_000 + number
    source: dict[str, Any] = {
        "version": "2.7.0.Final",
        "connector": connector,
        "name": "server",
        "ts_ms": dice.choice([millis] * 20 + [0, -5, 2**62]),
        "snapshot": snapshot,
        "db": "shop",
        "sequence": None,
    }
    if wide:
        source["ts_us"] = dice.choice([millis * 1000 + 7] * 20 + [-1])
        source["ts_ns"] = millis * 1_000_000
    if connector == "mysql":
        source.update(table="t", server_id=dice.randrange(300), gtid=f"g:{number}", pos=number * 7)
        source.update(file=f"binlog.{dice.choice(['000007', '000008', 'x'])}", row=0)
        source.update(thread=dice.choice([None, 9]), query=dice.choice([None, 'a "b"']))
    elif connector == "postgresql":
        own = dice.choice([str(number * 9), str(number * 9), None])
        commit = dice.choice([str(number * 8), None])
        source["sequence"] = msgspec.json.encode([commit, own]).decode()
        source.update(schema="public", table="t", txId=dice.choice([5, 5, 5, None]))
        source.update(lsn=number * 9, xmin=None)
    else:
        source.update(schema="dbo", table="t", commit_lsn=f"00000027:00000ac0:{number % 9999:04x}")
        source.update(change_lsn="00000027:00000ac0:0001", event_serial_no=1)
    row = {
        "id": number % 50,
        "name": dice.choice(["Ann", "Ünder\n", None, "__debezium_unavailable_value"]),
    }
    event: dict[str, Any] = {
        "before": row if op in "ud" else None,
        "after": None if op == "d" else {**row, "name": "Bob"},
        "source": source,
    }
    block = None
    if wide:
        block = {"id": f"tx{number % 9}", "total_order": number, "data_collection_order": 1}
    event.update(transaction=block, op=op, ts_ms=millis + 3)
    return msgspec.json.encode(event)


@pytest.mark.parametrize("target", [JSON, CANAL, EVENTS, AUDIT], ids=name_of)
@pytest.mark.parametrize("connector", ["mysql", "postgresql", "sqlserver"])
@properties(2)
@given(seed=st.integers(0, 2**32))
def test_events_of_connectors(connector, target, seed):
    """Positions, transactions and what else connectors tell, read as Avro and as JSON."""
    dice = random.Random(seed)
    wide = dice.random() < 0.5
    columns = {"id": LogicalType("int64"), "name": LogicalType("string")}
    schema = None if connector == "mysql" else "public" if connector == "postgresql" else "dbo"
    name = "shop.t" if schema is None else f"shop.{schema}.t"
    rules = TableRules({name: TableRule(key=("id",), columns=columns)})
    lines = [event_of(dice, connector, number, wide) for number in range(SIZE)]
    keys = [b'{"id":%d}' % (number % 50) for number in range(SIZE)]
    messages = [
        Message("topic", 0, number, 1_700_000_000_000, key, line)
        for number, (key, line) in enumerate(zip(keys, lines, strict=True))
    ]
    settings = registry.get("debezium-json").decode_settings()
    identity = {"replica_identity": dice.choice(["default", "full"])}
    with tempfile.TemporaryDirectory() as folder:
        agree(JSON, EVENTS, messages, rules, settings, folder)
        made = Outcome(JSON, EVENTS, rules, settings, folder)
        out: list[Any] = []
        made.converter.convert(messages, out, [])
        events = [
            Message("topic", 0, number, 1_700_000_000_000, one.key, one.value)
            for number, one in enumerate(out)
        ]
        read = registry.get("debezium-avro").decode_settings(schemas=folder, **identity)
        agree(EVENTS, target, events, rules, read, folder)
        agree(EVENTS, target, [damaged(dice, event) for event in events], rules, read, folder)


def audit_of(dice: random.Random) -> dict[str, Any]:
    """The schema of an audit topic as other configurations of the source write it."""
    text: Any = [{"type": "string"}, "null"]
    fields: dict[str, Any] = {"A_ENTTYP": text, "A_TIMSTAMP": text}
    if dice.random() < 0.5:
        fields["A_UTC_TIMESTMP"] = dice.choice([text, ["null", "string"], "string"])
    fields["A_CCID"] = dice.choice([text, "long", ["null", "long"], "int"])
    fields["A_USER"] = text
    if dice.random() < 0.5:
        fields["A_SEQNO"] = "long"
    columns: dict[str, Any] = {
        "id": "long",
        "name": dice.choice([text, "string"]),
        "d": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}],
        "t": dice.choice(
            [
                {"type": "long", "logicalType": dice.choice(TIMES)},
                {"type": "string", "logicalType": "TIMESTAMP"},
                {"type": "int", "logicalType": "date"},
            ]
        ),
        "f": ["null", dice.choice(["float", "double", "boolean"])],
        "b": ["bytes", "null"],
    }
    fields.update(columns)
    fields.update({f"B_{name}": ["null", "string"] for name in ("name",)})
    return {
        "type": "record",
        "name": "orders",
        "namespace": "value.SOURCEDB.shop",
        "fields": [{"name": name, "type": type_} for name, type_ in fields.items()],
    }


TIMES = [
    *("timestamp-millis", "timestamp-micros", "local-timestamp-micros", "local-timestamp-nanos"),
]


def audit_value(dice: random.Random, name: str, node: Node, number: int) -> Any:
    inner = without_null(node)
    if inner is not node and dice.random() < 0.15 and name != "A_ENTTYP":
        return None
    if name == "A_ENTTYP":
        return dice.choice(["PT", "PT", "UP", "UP", "DL", "RR", "UB", "??"])
    if name in ("A_TIMSTAMP", "A_UTC_TIMESTMP"):
        return dice.choice(
            [
                *[f"2024-02-29 12:00:00.{number:012}"] * 3,
                *[f"2024-02-29 12:00:{number % 60:02}.000001"] * 9,
                *("", "never", "1969-12-31 23:59:59"),
            ]
        )
    if inner.kind in ("int", "long"):
        return dice.choice([number, number, 0, -1, 2**31 - 1, -(2**31)])
    if inner.kind == "bytes":
        return base64_text(dice.randbytes(dice.choice([1, 2, 8, 8, 9, 0])))
    if inner.kind in ("float", "double"):
        return dice.choice([0.5, 1.0, -0.0, 1e22, "NaN"])
    if inner.kind == "boolean":
        return dice.random() < 0.5
    texts = ["A", "A", "A", 'b"\n', "", "2024-02-29 12:00:00.5", "2024-02-29T12:00:00"]
    return "A" if name == "A_USER" and dice.random() < 0.9 else dice.choice(texts)


@pytest.mark.parametrize("target", [JSON, OMS, AUDIT], ids=name_of)
@properties(6)
@given(seed=st.integers(0, 2**32))
def test_audit_topics(target, seed):
    """Audit columns of other names and types, partial images, and declared types."""
    dice = random.Random(seed)
    schema = audit_of(dice)
    text = msgspec.json.encode(schema).decode()
    node = parse(text)
    write = json_writer(node)
    messages = []
    for number in range(SIZE):
        values = {f.name: audit_value(dice, f.name, f.node, number) for f in node.fields}
        out = bytearray(prefix_of(1))
        write(out, values)
        message = Message("topic", 0, number, 1_700_000_000_000, None, bytes(out))
        messages.append(damaged(dice, message) if dice.random() < 0.3 else message)
    columns = {}
    if dice.random() < 0.5:
        columns = {"name": LogicalType("string"), "d": LogicalType("decimal", 20, 3)}
    if dice.random() < 0.3:
        columns["id"] = LogicalType("int32")
    rules = TableRules({"shop.orders": TableRule(key=("id",), columns=columns)})
    settings = {"schemas": {"avro": {"1": {"schema": text}}}}
    read = registry.get("ibmcdc-avro").decode_settings(**settings)
    with tempfile.TemporaryDirectory() as folder:
        agree(AUDIT, target, messages, rules, read, folder)
