"""How a connector and its converter were set shows in the values; what does not is asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.test_bulk import Outcome, agree, one_by_one
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.records import Change, Message
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

ENVELOPE = registry.get("debezium-json")
SOURCE = {"connector": "postgresql", "name": "d", "ts_ms": 1, "db": "shop", "table": "t", "lsn": 5}
DECIMAL = {
    "type": "bytes",
    "optional": True,
    "name": "org.apache.kafka.connect.data.Decimal",
    "version": 1,
    "parameters": {"scale": "2", "connect.decimal.precision": "10"},
}
ID = {"type": "int64", "field": "id", "optional": False}


def reader(rule: TableRule | None = None, **settings: Any) -> Any:
    rules = TableRules({} if rule is None else {"shop.t": rule})
    assert ENVELOPE.decoder is not None
    return ENVELOPE.decoder(ENVELOPE.decode_settings(**settings), rules)


def read(decoder: Any, value: Any, key: Any = None) -> Change:
    wire_value = value if isinstance(value, bytes) else json.dumps(value).encode()
    wire = None if key is None else key if isinstance(key, bytes) else json.dumps(key).encode()
    (change,) = decoder.decode(Message("d.shop.t", 0, 0, None, wire, wire_value))
    assert isinstance(change, Change)
    return change


def with_schema(v: str, before: str | None = None) -> bytes:
    """An event whose column v is a Decimal, its JSON as it is given."""
    fields = [ID, {**DECIMAL, "field": "v"}]
    row = {"type": "struct", "optional": True, "fields": fields}
    schema = {"type": "struct", "fields": [{**row, "field": n} for n in ("before", "after")]}
    old = "null" if before is None else f'{{"id":1,"v":{before}}}'
    op = "c" if before is None else "u"
    return (
        f'{{"schema":{json.dumps(schema)},"payload":{{"before":{old},"after":{{"id":1,"v":{v}}},'
        f'"source":{json.dumps(SOURCE)},"op":"{op}","ts_ms":1}}}}'
    ).encode()


def test_decimals_as_numbers_are_read_by_the_kind_of_the_value():
    """Kafka Connect's decimal.format=NUMERIC; the schema is that of Base64."""
    decoder = reader(replica_identity="full")
    digits = "12345678.91"
    for _ in range(2):
        for v, text in ((digits, digits), ('"AG4="', "1.10"), ("-0.5", "-0.5"), ("null", None)):
            change = read(decoder, with_schema(v))
            assert change.after.f1 == text
            assert str(change.schema.columns[1].type) == "decimal(10,2)"
    change = read(decoder, with_schema("5", before="1.1"))
    assert (change.before.f1, change.after.f1) == ("1.1", "5")


def test_a_decimal_as_a_number_is_held_against_its_type():
    with pytest.raises(Refusal, match="does not fit decimal"):
        read(reader(), with_schema("1.234"))
    with pytest.raises(Refusal, match="bool"):
        read(reader(), with_schema("true"))


def test_a_key_of_such_a_number():
    """Oracle's keys are Decimals."""
    decoder = reader()
    key = {
        "schema": {"type": "struct", "fields": [{**DECIMAL, "field": "v", "optional": False}]},
        "payload": {"v": 7},
    }
    change = read(decoder, with_schema("7"), key)
    assert change.schema.key == ("v",)
    assert change.key_image().f0 == "7"


def plain(v: Any, op: str = "c", before: Any = None) -> dict[str, Any]:
    after = None if op == "d" else {"id": 1, "v": v}
    return {"before": before, "after": after, "source": SOURCE, "op": op, "ts_ms": 1}


DECLARED = TableRule(("id",), {"v": parse_type("decimal(10,2)")})


@pytest.mark.parametrize("text", ["1.50", "-12", "123", "1e3"])
def test_a_decimal_as_a_text_names_the_setting(text):
    with pytest.raises(Refusal, match="set `decimals: string` in the settings of the source"):
        read(reader(DECLARED, decimals="precise"), plain(text))
    expected = read(reader(DECLARED, decimals="string"), plain(text)).after.f1
    assert read(reader(DECLARED), plain(text)).after.f1 == expected


def test_without_the_setting_each_decimal_tells_how_it_is_written():
    decoder = reader(DECLARED)
    for _ in range(2):
        for text, digits in (("AJY=", "1.50"), ("1.50", "1.50"), ("AG4=", "1.10"), ("-1", "-1")):
            assert read(decoder, plain(text)).after.f1 == digits


@pytest.mark.parametrize("text", ["1234", "1E+3", "+123"])
def test_a_decimal_that_is_digits_and_base64_is_refused(text):
    """Whatever came before it: a connector can be set anew in the middle of a topic."""
    decoder = reader(DECLARED)
    for before in (None, "1.50", "AJY="):
        if before is not None:
            read(decoder, plain(before))
        with pytest.raises(Refusal, match=r"`decimals: string` in .*, or `decimals: precise`"):
            read(decoder, plain(text))
    string = read(reader(DECLARED, decimals="string"), plain(text)).after.f1
    precise = read(reader(DECLARED, decimals="precise"), plain(text)).after.f1
    assert string != precise


@pytest.mark.parametrize("decimals", ["string", "precise"])
def test_both_speeds_read_and_refuse_the_same_decimals(decimals):
    texts = ["1.50", "-12.25", "99999.99", "0.07"] * 50
    kinds = {"id": parse_type("bigint"), "v": parse_type("decimal(10,2)")}
    rules = TableRules({"shop.t": TableRule(("id",), kinds)})
    place = {"database": "shop", "table": "t", "pkNames": ["id"], "isDdl": False, "type": "INSERT"}
    place |= {"mysqlType": {"id": "bigint", "v": "decimal(10,2)"}, "es": 1, "ts": 1, "old": None}
    rows = [{**place, "data": [{"id": str(n), "v": text}]} for n, text in enumerate(texts)]
    write = ENVELOPE.encode_settings(decimals=decimals)
    lines = [json.dumps(row).encode() for row in rows]
    sent = one_by_one(Outcome("canal", "debezium-json", rules, None, write), lines)["values"]
    assert agree("debezium-json", "canal", sent, rules) > 50
    read_again = one_by_one(Outcome("debezium-json", "canal", rules), sent)["values"]
    assert [json.loads(value)["data"][0]["v"] for value in read_again] == texts
    own = b'"0.07"' if decimals == "string" else b'"Bw=="'
    doubtful = [line.replace(own, b'"1234"') for line in sent]
    agree("debezium-json", "canal", doubtful, rules)
    assert len(one_by_one(Outcome("debezium-json", "canal", rules), doubtful)["refused"]) == 50


def test_another_text_is_no_number():
    with pytest.raises(Refusal) as refusal:
        read(reader(DECLARED), plain("*?"))
    assert "decimals: string" not in str(refusal.value)


OTHERS = {
    "canal": {"data": [{"id": "1"}], "old": None, "type": "INSERT", "isDdl": False, "table": "t"},
    "maxwell": {"database": "d", "table": "t", "type": "insert", "ts": 1, "data": {"id": 1}},
    "ogg": {"table": "d.t", "op_type": "I", "after": {"id": 1}},
    "dms": {"data": {"id": 1}, "metadata": {"operation": "insert"}},
    "oms-default": {"prevStruct": None, "allMetaData": {}, "recordType": "INSERT"},
    "oms-shareplex": {"data": {"id": 1}, "meta": {"op": "ins"}},
    "databus-json": {"opcode": "UPSERT", "srcId": 1, "sequence": 5},
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_message_of_another_envelope_is_named(name):
    with pytest.raises(Refusal, match=f"those of .*{name}.*waybill detect"):
        read(reader(), OTHERS[name])


def test_a_flattened_record_is_named_as_such():
    with pytest.raises(Refusal, match="ExtractNewRecordState"):
        read(reader(), {"id": 1, "type": "x", "__deleted": "false"})


ROW = {"id": 7, "v": "x"}


def test_rows_before_of_a_table_without_key_are_whole():
    """PostgreSQL sends its updates and deletes with REPLICA IDENTITY FULL alone."""
    decoder = reader(TableRule((), {}))
    gone = read(decoder, plain(None, "d", ROW))
    assert (gone.before.f0, gone.before.f1) == ("7", "x")
    changed = read(decoder, plain("y", "u", {"id": 1, "v": "x"}))
    assert changed.before.f1 == "x"


def test_where_no_key_is_known_the_refusal_says_how_to_tell_that_there_is_none():
    with pytest.raises(Refusal, match=r"`key: \[\]` for a table without one"):
        read(reader(), plain(None, "d", ROW))


def test_of_a_table_with_a_key_nothing_else_is_trusted():
    gone = read(reader(TableRule(("id",), {})), plain(None, "d", ROW))
    assert (gone.before.f0, gone.before.f1) == ("7", gone.schema.empty.f1)
