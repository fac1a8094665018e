"""Rows as Flink, Flink CDC and SeaTunnel write them in Canal's, Maxwell's and GoldenGate's formats.

The lines are what their serialisation schemas write: see `envelopes/canal/typed_rows.py`.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.inprocess.job import ConvertJob
from waybill.inprocess.run import convert_file
from waybill.records import Message
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

TYPES = {
    "id": "bigint",
    "n": "string",
    "ok": "boolean",
    "d": "decimal(9,2)",
    "t": "timestamp(3)",
    "z": "timestamptz",
    "b": "bytes",
}
RULES = TableRules(
    {"shop.orders": TableRule(("id",), {n: parse_type(text) for n, text in TYPES.items()})}
)
ROW = (
    b'{"id":1,"n":"a","ok":true,"d":1.50,"t":"2024-01-01 10:00:00.123",'
    b'"z":"2024-01-01 10:00:00.5Z","b":"AQI="}'
)
READ = {
    "id": "1",
    "n": "a",
    "ok": "true",
    "d": "1.50",
    "t": "2024-01-01T10:00:00.123",
    "z": "2024-01-01T10:00:00.5Z",
    "b": "AQI=",
}
FLINK = {
    "canal": (b'{"data":[%b],"type":"INSERT"}', b'{"data":[%b],"type":"DELETE"}'),
    "maxwell": (b'{"data":%b,"type":"insert"}', b'{"data":%b,"type":"delete"}'),
    "ogg": (
        b'{"before":null,"after":%b,"op_type":"I"}',
        b'{"before":%b,"after":null,"op_type":"D"}',
    ),
    "debezium-json": (
        b'{"before":null,"after":%b,"op":"c"}',
        b'{"before":%b,"after":null,"op":"d"}',
    ),
}
NAMED = ["canal", "maxwell", "ogg"]


def _settings(envelope: str, table: str | None = "shop.orders") -> dict[str, Any]:
    settings: dict[str, Any] = {} if envelope == "debezium-json" else {"table": table}
    if envelope == "canal":
        settings["values"] = "json"
    if envelope == "ogg":
        settings["column_timezone"] = "UTC"
    return settings


def _decode(envelope: str, value: bytes, topic: str = "x", **settings: Any) -> list[Any]:
    declared = registry.get(envelope)
    assert declared.decoder is not None
    decoder = declared.decoder(declared.decode_settings(**settings), RULES)
    return decoder.decode(Message(topic, 0, 0, None, None, value))


def _row(change: Any, image: Any) -> dict[str, Any]:
    return dict(zip(change.schema.names, msgspec.structs.astuple(image), strict=True))


@pytest.mark.parametrize("envelope", NAMED)
@pytest.mark.parametrize(
    ("table", "topic"),
    [("shop.orders", "x"), ("{topic}", "sink.shop.orders"), ("shop.{topic}", "orders")],
)
def test_a_row_that_names_no_table_is_of_the_table_that_the_settings_name(envelope, table, topic):
    inserted, deleted = FLINK[envelope]
    row = ROW if envelope != "maxwell" else ROW.replace(b"0.5Z", b"0.5")
    settings = _settings(envelope, table)
    [change] = _decode(envelope, inserted % row, topic, **settings)
    assert (change.schema.database, change.schema.table) == ("shop", "orders")
    assert change.schema.key == ("id",)
    assert (change.operation, change.outcome) == ("insert", "ok")
    assert _row(change, change.after) == READ
    [change] = _decode(envelope, deleted % row, topic, **settings)
    assert (change.operation, change.after) == ("delete", None)
    assert _row(change, change.before) == READ


def test_flinks_debezium_rows_are_of_the_table_that_the_topic_names():
    inserted, deleted = FLINK["debezium-json"]
    row = b'{"id":1,"n":"a"}'
    for value, operation in ((inserted % row, "insert"), (deleted % row, "delete")):
        [change] = _decode("debezium-json", value, "sink.shop.orders")
        assert (change.schema.database, change.schema.table) == ("shop", "orders")
        assert (change.operation, change.schema.key) == (operation, ("id",))


@pytest.mark.parametrize("envelope", NAMED)
def test_without_the_setting_the_refusal_names_it(envelope):
    with pytest.raises(Refusal, match="set `table` in the settings of the source"):
        _decode(envelope, FLINK[envelope][0] % ROW, **_settings(envelope, None))


def test_typed_values_are_refused_with_the_setting_that_reads_them():
    [change] = _decode("canal", FLINK["canal"][0] % ROW, table="shop.orders")
    assert change.outcome == "refused"
    assert "values: json" in change.reason


@pytest.mark.parametrize(
    "value",
    [
        b'{"old":[%b],"data":[%b],"type":"UPDATE","database":"shop","table":"orders",'
        b'"pkNames":["id"]}',
        b'{"old":%b,"data":%b,"type":"UPDATE","database":"shop","table":"orders","ts":1}',
    ],
    ids=["flink-cdc", "seatunnel"],
)
def test_whole_rows_before_and_after_are_one_update(value):
    after = ROW.replace(b'"ok":true', b'"ok":null')
    [change] = _decode("canal", value % (ROW, after), values="json")
    assert change.operation == "update"
    assert _row(change, change.before) == READ
    assert _row(change, change.after) == {**READ, "ok": None}


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (b'{"data":[],"type":"INSERT"}', "without rows"),
        (b'{"data":[{}],"type":"INSERT"}', "a row without columns"),
        (b'{"data":7,"type":"INSERT"}', "data has the wrong shape"),
        (b'{"data":[{"id":1}],"old":[{"id":2}],"type":"INSERT"}', "which only updates have"),
        (b'{"data":[{"id":1}],"old":[{"n":"x"}],"type":"UPDATE"}', "'n' is in old and not in data"),
        (b'{"data":[{"id":1},{"id":2}],"old":[{"id":2}],"type":"UPDATE"}', "2 rows in data but 1"),
        (b'{"data":[{"n":"x"}],"type":"INSERT"}', "id"),
        (b'{"data":[{"id":1.5}],"type":"INSERT"}', "an integer was expected"),
        (b'{"data":[{"id":1}],"type":"ALTER"}', "'ALTER' is no change of a row"),
    ],
)
def test_what_is_no_row_is_refused(value, sentence):
    assert sentence in _why(value)


def _why(value: bytes) -> str:
    """Why a message is refused, as a whole or in its only row."""
    try:
        [change] = _decode("canal", value, values="json", table="shop.orders")
    except Refusal as refusal:
        return refusal.sentence
    assert change.outcome == "refused"
    return str(change.reason)


@pytest.mark.parametrize("table", ["", "a.b.c", "a.", ".b", "{topic}.{topic}", "{other}"])
@pytest.mark.parametrize("envelope", NAMED)
def test_what_is_no_name_of_a_table_is_no_setting(envelope, table):
    with pytest.raises(ValueError, match="is no name of a table"):
        registry.get(envelope).decode_settings(table=table)


@pytest.mark.parametrize("envelope", NAMED)
def test_a_file_of_them_is_converted_whole(envelope, tmp_path):
    """Updates as delete and insert, and more of them than are converted one by one."""
    inserted, deleted = FLINK[envelope]
    lines = []
    for number in range(500):
        row = b'{"id":%d,"n":"%b"}'
        lines.append(inserted % (row % (number, b"old")))
        lines.append(deleted % (row % (number, b"old")))
        lines.append(inserted % (row % (number, b"new")))
    source, target = tmp_path / "orders.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(b"\n".join(lines) + b"\n")
    settings = _settings(envelope, "shop.{topic}")
    job = ConvertJob(
        envelope, "debezium-json", str(source), str(target), settings, {"tombstones": False}, RULES
    )
    assert not job.by_bulk
    convert_file(job)
    written = [msgspec.json.decode(line) for line in target.read_bytes().splitlines()]
    assert [event["op"] for event in written] == ["c", "d", "c"] * 500
    assert {(e["source"]["db"], e["source"]["table"]) for e in written} == {("shop", "orders")}
    rows: dict[int, Any] = {}
    for event in written:
        if event["op"] == "d":
            del rows[event["before"]["id"]]
        else:
            rows[event["after"]["id"]] = event["after"]["n"]
    assert rows == dict.fromkeys(range(500), "new")
