"""Settings of targets whose readers know rows only: what they leave out is counted."""

from __future__ import annotations

import json

import pytest

from tests.contract.probes import change, table
from waybill.envelopes import registry
from waybill.records import NO_TABLE

ORDERS = table({"id": "bigint", "title": "varchar(20)"})
STATEMENT = change("ddl", schema=ORDERS, ddl_text="ALTER TABLE shop.orders ADD COLUMN c INT")
TRUNCATE = change("truncate", schema=ORDERS)
GTID = change(
    "other", schema=NO_TABLE, sequence=None, extra=b'{"canal":{"type":"GTID"}}', transaction="a-1"
)
BOOTSTRAP = b'{"maxwell":{"type":"bootstrap-start"}}'


def written(target, made, **settings):
    """The messages of a change, and what was given up."""
    envelope = registry.get(target)
    encoder = envelope.encoder(envelope.encode_settings(**settings))
    losses: list[str] = []
    return encoder.encode(made, losses), losses


@pytest.mark.parametrize(
    ("target", "made", "without", "with_it"),
    [
        *(
            (target, made, {"statements": False}, {})
            for target in ("canal", "oms-canal")
            for made in (STATEMENT, TRUNCATE, GTID)
        ),
        ("maxwell", STATEMENT, {}, {"statements": True}),
        ("ogg", TRUNCATE, {"truncates": False}, {}),
        ("debezium-json", TRUNCATE, {"truncates": False}, {}),
        ("debezium-json", TRUNCATE, {"truncates": False, "control_messages": True}, {}),
    ],
)
def test_what_is_no_row_is_left_out_and_counted(target, made, without, with_it):
    assert written(target, made, **without) == ([], [made.operation])
    messages, losses = written(target, made, **with_it)
    assert len(messages) == 1
    assert made.operation == "ddl" or made.operation not in losses


def test_full_rows_of_maxwell_as_inserts():
    row = {"id": "1", "title": "first"}
    made = change("read", after=row, schema=ORDERS, full_row=True, sequence=None)
    (usual,), losses = written("maxwell", made)
    assert json.loads(usual.value)["type"] == "bootstrap-insert"
    assert "full_rows" not in losses
    (insert,), losses = written("maxwell", made, full_rows="insert")
    assert json.loads(insert.value) == {**json.loads(usual.value), "type": "insert"}
    assert losses.count("full_rows") == 1


def test_a_bootstrap_without_full_rows_has_neither_begin_nor_end():
    made = change("other", schema=ORDERS, sequence=None, extra=BOOTSTRAP)
    assert len(written("maxwell", made)[0]) == 1
    assert written("maxwell", made, full_rows="insert") == ([], ["other"])


@pytest.mark.parametrize(
    ("source_type", "number", "data"),
    [
        ("enum", 12, "paid"),
        ("enum(new,paid)", 12, "paid"),
        ("set", 12, "paid"),
        ("enum('new','paid')", 4, "2"),
    ],
)
@pytest.mark.parametrize("text", ["paid", None])
def test_canal_s_number_is_that_of_what_stands_in_the_row(source_type, number, data, text):
    schema = table({"id": "bigint", "status": source_type})
    made = change("insert", after={"id": "1", "status": text}, schema=schema)
    (message,), _ = written("canal", made)
    document = json.loads(message.value)
    assert document["sqlType"]["status"] == number
    assert document["data"][0]["status"] == (None if text is None else data)
