"""What Maxwell's writer makes of changes of other sources, read again."""

from __future__ import annotations

import json

import pytest

from tests.contract.probes import change, table
from tests.contract.test_bulk import Outcome, agree, one_by_one
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.records import NO_TABLE
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

MAXWELL = registry.get("maxwell")
FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
RULES = TableRules({"shop.t": TableRule(("id",), {"id": parse_type("int64")})})


@pytest.mark.parametrize("operation", ["insert", "ddl", "heartbeat"])
@pytest.mark.parametrize("time", [FIRST, LAST])
def test_a_time_that_is_written_is_read(operation, time):
    encoder = MAXWELL.encoder(MAXWELL.encode_settings(control_messages=True, statements=True))  # type: ignore[misc]
    row = {"after": {"id": "1", "region": "eu", "amount": None}} if operation == "insert" else {}
    if operation == "heartbeat":
        row = {"schema": NO_TABLE}
    for micros, good in ((time, True), (time - 1 if time < 0 else time + 1, False)):
        made = change(operation, source_time=micros, **row)
        if not good:
            with pytest.raises(Refusal, match="outside of the years 1 to 9999"):
                encoder.encode(made, [])
            continue
        (encoded,) = encoder.encode(made, [])
        made.message.key, made.message.value = encoded.key, encoded.value
        decoder = MAXWELL.decoder(MAXWELL.decode_settings(), TableRules())  # type: ignore[misc]
        (found,) = decoder.decode(made.message)
        assert found.source_time // 1_000_000 == micros // 1_000_000


@pytest.mark.parametrize("operation", ["insert", "delete", "ddl", "heartbeat"])
def test_a_message_always_has_a_time(operation):
    """Without one of the source it is the queue's, and that is counted."""
    encoder = MAXWELL.encoder(MAXWELL.encode_settings(control_messages=True, statements=True))  # type: ignore[misc]
    row = {"id": "1", "region": "eu", "amount": None}
    images = {"insert": {"after": row}, "delete": {"before": row}}.get(operation, {})
    if operation == "heartbeat":
        images["schema"] = NO_TABLE
    losses: list[str] = []
    made = change(operation, source_time=None, **images)
    (encoded,) = encoder.encode(made, losses)
    millis = made.message.timestamp
    assert json.loads(encoded.value)["ts"] == (millis if operation == "ddl" else millis // 1000)
    assert "source_time" in losses


def test_what_came_from_maxwell_without_a_time_goes_on_without_one():
    encoder = MAXWELL.encoder(MAXWELL.encode_settings())  # type: ignore[misc]
    made = change(
        "insert",
        after={"id": "1", "region": "eu", "amount": None},
        source_time=None,
        extra=b'{"maxwell":{}}',
    )
    losses: list[str] = []
    (encoded,) = encoder.encode(made, losses)
    assert "ts" not in json.loads(encoded.value)
    assert "source_time" not in losses


def event(number: int) -> bytes:
    late = number % 100 == 99
    source = {
        "connector": "mysql",
        "db": "shop",
        "table": "t",
        "ts_ms": 253_402_300_799_999 + late,
        "file": "b.000001",
        "pos": number,
        "row": 0,
    }
    row = {"before": None, "after": {"id": number}, "source": source, "op": "c", "ts_ms": 5}
    return json.dumps(row, separators=(",", ":")).encode()


def test_times_are_refused_one_by_one_and_at_once():
    lines = [event(number) for number in range(1000)]
    refused = one_by_one(Outcome("debezium-json", "maxwell", RULES), lines)["refused"]
    assert [place for place, *_ in refused] == list(range(99, 1000, 100))
    assert agree("debezium-json", "maxwell", lines, RULES) >= 500


@pytest.mark.parametrize(("kind", "text"), [("set", "a,b"), ("set", ""), ("json", '{"a":[1]}')])
def test_a_key_that_is_no_single_value_is_read(kind, text):
    """MySQL takes a SET into a primary key, PostgreSQL a document."""
    schema = table({"id": kind, "n": "int32"}, ("id",))
    encoder = MAXWELL.encoder(MAXWELL.encode_settings())  # type: ignore[misc]
    rule = TableRule(("id",), {column.name: column.type for column in schema.columns})
    rules = TableRules({schema.qualified_name: rule})
    decoder = MAXWELL.decoder(MAXWELL.decode_settings(), rules)  # type: ignore[misc]
    for _ in range(2):
        made = change("insert", after={"id": text, "n": "1"}, schema=schema)
        (encoded,) = encoder.encode(made, [])
        made.message.key, made.message.value = encoded.key, encoded.value
        (found,) = decoder.decode(made.message)
        assert found.after.f0 == text


@pytest.mark.parametrize("text", ["null", '{"a": 1}\n', "{a}", '{"a":1,"a":2}'])
def test_a_document_that_cannot_stand_as_it_is_is_written_as_the_sentence_says(text):
    schema = table({"id": "int32", "d": "json"}, ("id",))
    made = change("insert", after={"id": "1", "d": text}, schema=schema)
    encoder = MAXWELL.encoder(MAXWELL.encode_settings())  # type: ignore[misc]
    with pytest.raises(Refusal, match="set json_columns: text to write it"):
        encoder.encode(made, [])
    settings = MAXWELL.encode_settings(json_columns="text")
    (encoded,) = MAXWELL.encoder(settings).encode(made, [])  # type: ignore[misc]
    assert json.loads(encoded.value)["data"]["d"] == text
