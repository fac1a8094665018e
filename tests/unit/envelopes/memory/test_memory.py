"""What a Maxwell or GoldenGate decoder remembers of earlier messages holds for many at once too."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from waybill.bulk.arena import Arena
from waybill.bulk.block import Block, Scanned
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.inprocess.block_converter import BulkConverter
from waybill.inprocess.converter import Converter
from waybill.records import Message
from waybill.spec.migration import Table, table_rules

COLUMNS = {"id": "bigint", "name": "varchar(9)", "n": "int"}
DECLARED = {"shop.orders": Table.model_validate({"key": ["id"], "columns": COLUMNS})}
BLOCK = 100


def in_json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def block_of(messages: list[Message]) -> Block:
    texts = [m.value or b"" for m in messages] + [m.key or b"" for m in messages]
    ends = np.cumsum([len(text) for text in texts])
    begins = ends - [len(text) for text in texts]
    begins[[not text for text in texts]] = -1
    count = len(messages)
    arena = Arena(b"".join(texts))
    keys = Scanned(arena, begins[count:], ends[count:])
    places = [np.array([getattr(m, name) for m in messages]) for name in ("partition", "offset")]
    return Block(arena, begins[:count], ends[:count], *places, None, messages.__getitem__, keys)


def agree(source: str, values: list[dict[str, Any]], keys: list[Any], declared: bool) -> int:
    """Hold both ways against each other; returns how many messages were written at once."""
    reads, writes = registry.get(source), registry.get("canal")
    rules = table_rules(DECLARED if declared else {})
    messages = [
        Message("t", 0, i, None, None if key is None else in_json(key), in_json(value))
        for i, (value, key) in enumerate(zip(values, keys, strict=True))
    ]
    outcomes: list[Any] = []
    in_bulk = 0
    for bulk in (False, True):
        refused: list[Any] = []
        settings = reads.decode_settings(), writes.encode_settings()
        converter = Converter(
            reads, writes, rules, *settings, lambda *why, to=refused: to.append(why)
        )
        made: list[Any] = []
        if bulk:
            several = BulkConverter(reads, writes, converter, fewest=1)
            for first in range(0, len(messages), BLOCK):
                found = several.convert(block_of(messages[first : first + BLOCK])).arrays()
                made += zip(*(array.to_pylist() for array in found), strict=True)
            in_bulk = several.in_bulk
        else:
            out: list[Any] = []
            converter.convert(messages, out, [])
            made = [(one.key, one.value) for one in out]
        account = converter.account
        outcomes.append((made, refused, +account.losses, +account.skipped))
    assert outcomes[0] == outcomes[1]
    return in_bulk


def row(i: int) -> dict[str, Any]:
    return {"id": i, "name": "x", "n": i % 7}


def maxwell(i: int, **fields: Any) -> dict[str, Any]:
    place = {"ts": 1_700_000_000 + i, "xid": i, "position": f"b.000001:{i}"}
    return {
        "database": "shop",
        "table": "orders",
        "type": "insert",
        **place,
        "data": row(i),
        **fields,
    }


def ogg(i: int, **fields: Any) -> dict[str, Any]:
    place = {"op_ts": f"2024-05-01 00:00:00.{i:06}", "pos": f"{i:020}"}
    return {"table": "shop.orders", "op_type": "I", **place, "after": row(i), **fields}


@pytest.mark.parametrize("declared", [True, False])
def test_columns_in_another_order(declared):
    turned = [maxwell(i, data=dict(reversed(row(i).items()))) for i in range(150, 300)]
    values = [maxwell(i) for i in range(150)] + turned + [maxwell(i) for i in range(300, 600)]
    assert agree("maxwell", values, [None] * 600, declared) >= 100


@pytest.mark.parametrize("declared", [True, False])
def test_key_columns_that_only_the_message_key_names(declared):
    names = ["id"] * 300 + ["n"] * 300
    keys = [{"database": "shop", "table": "orders", f"pk.{n}": i} for i, n in enumerate(names)]
    assert agree("maxwell", [maxwell(i) for i in range(600)], keys, declared) >= 300


@pytest.mark.parametrize("declared", [True, False])
def test_key_columns_that_only_some_message_keys_name(declared):
    """What a message says of its key does not hang on earlier ones that say nothing."""
    named = {"database": "shop", "table": "orders", "pk.id": 1}
    keys = [None if i % 300 < 150 else named for i in range(600)]
    assert agree("maxwell", [maxwell(i) for i in range(600)], keys, declared) >= 100
    envelope = registry.get("maxwell")
    rules = table_rules(DECLARED if declared else {})
    decoder = envelope.decoder(envelope.decode_settings(), rules)  # type: ignore[misc]
    for place, key in enumerate((None, named, None)):
        raw = None if key is None else in_json(key)
        (change,) = decoder.decode(Message("t", 0, place, None, raw, in_json(maxwell(place))))
        assert change.schema.key == (("id",) if declared or key else None)


def test_a_type_that_was_null_at_first():
    values = [maxwell(i) for i in range(600)]
    for value in (*values[:150], *values[400:]):
        value["data"]["name"] = None
    assert agree("maxwell", values, [None] * 600, False) >= 100


def test_events_between_the_rows():
    heartbeat = {"database": "maxwell", "table": "heartbeats", "type": "update"}
    values = [maxwell(i) for i in range(600)]
    values[250] |= heartbeat
    values[350] = {"database": "shop", "table": "orders", "type": "table-alter", "sql": "alter"}
    assert agree("maxwell", values, [None] * 600, True) >= 398


def test_rows_that_grow_columns():
    values = [ogg(i) for i in range(600)]
    for value in values[:150]:
        del value["after"]["n"]
    for value in values[400:]:
        del value["after"]["name"]
    assert agree("ogg", values, [None] * 600, True) >= 100


OGG_STRAYS: dict[str, list[dict[str, Any]]] = {
    "I": [{"before": row(1)}, {"before": 7}, {"tokens": [1]}, {"current_ts": 5.0}],
    "D": [{"after": row(1)}, {"after": 7}, {"primary_keys": ["id", "id"]}],
    "U": [{"priamry_keys": ["n"]}, {"tokens": {"a": 1}}],
}
"""Fields that make a message of an operation one that is refused."""
OGG_ALLOWED: list[dict[str, Any]] = [{}, {"before": None}, {"before": {}}]
MAXWELL_STRAYS: dict[str, list[dict[str, Any]]] = {
    "insert": [{"old": {"n": 1}}, {"old": [1]}, {"primary_key_columns": ["id", "id"]}],
    "bootstrap-insert": [{"old": {"n": 1}}, {"old": 7}],
    "delete": [{"old": 7}],
}
MAXWELL_ALLOWED: list[dict[str, Any]] = [{}, {"old": None}, {"old": {}}]


def strays(source: str, values: list[dict[str, Any]], wrong: list[dict[str, Any]]) -> int:
    """Put a wrong message behind every hundred; returns how many were written at once."""
    for i, fields in enumerate(wrong * 2):
        values[199 + 100 * i] |= fields
        with pytest.raises(Refusal):
            one_by_one(source, [values[0], values[199 + 100 * i]])
    return agree(source, values, [None] * len(values), True)


def one_by_one(source: str, values: list[dict[str, Any]]) -> None:
    reads = registry.get(source)
    decoder = reads.decoder(reads.decode_settings(), table_rules(DECLARED))
    for i, value in enumerate(values):
        decoder.decode(Message("t", 0, i, None, None, in_json(value)))


@pytest.mark.parametrize("operation", list(OGG_STRAYS))
@pytest.mark.parametrize("empty", OGG_ALLOWED)
def test_operations_with_a_row_or_a_field_that_cannot_be(operation, empty):
    other = {("after" if operation == "D" else name): field for name, field in empty.items()}
    images = {"I": ["after"], "U": ["before", "after"], "D": ["before"]}[operation]
    values: list[dict[str, Any]] = []
    for i in range(1100):
        value = ogg(i, op_type=operation, current_ts="2024-05-01T00:00:00", primary_keys=["id"])
        del value["after"]
        # An update changes something, so that all of them are written the same way.
        values.append(value | {name: row(i) | {"name": name} for name in images} | other)
    assert strays("ogg", values, OGG_STRAYS[operation]) >= 100


@pytest.mark.parametrize("kind", list(MAXWELL_STRAYS))
@pytest.mark.parametrize("empty", MAXWELL_ALLOWED)
def test_messages_with_columns_before_a_change_that_was_none(kind, empty):
    values = [maxwell(i, type=kind, primary_key_columns=["id"], **empty) for i in range(1100)]
    assert strays("maxwell", values, MAXWELL_STRAYS[kind]) >= 100
