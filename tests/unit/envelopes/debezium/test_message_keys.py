"""The message key of a Debezium event has to be that of the row in the event."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.test_bulk_avro import CANAL, EVENTS, JSON, Outcome, Side, agree
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.records import Change, Message
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

SOURCE = {"connector": "mysql", "db": "shop", "table": "t", "file": "a.1", "pos": 5, "row": 0}
TYPES = {"id": parse_type("int64"), "name": parse_type("string")}
DECLARED = TableRules({"shop.t": TableRule(None, TYPES)})
FIELDS = [
    {"type": "int64", "optional": False, "field": "id"},
    {"type": "string", "optional": True, "field": "name"},
]
KEY_SCHEMA = {"type": "struct", "optional": False, "fields": FIELDS}


def plain(key: dict[str, Any]) -> bytes:
    return json.dumps(key, separators=(",", ":")).encode()


def wrapped(key: dict[str, Any]) -> bytes:
    """A key as the JSON converter writes it with schemas."""
    fields = [field for field in FIELDS if field["field"] in key]
    return plain({"schema": {**KEY_SCHEMA, "fields": fields}, "payload": key})


FORMS = {"plain": plain, "wrapped": wrapped}


def row_of(number: int) -> dict[str, Any]:
    return {"id": number, "name": f"n{number}"}


def event(op: str, before: int | None, after: int | None, schema: bool = False) -> bytes:
    images = [None if n is None else row_of(n) for n in (before, after)]
    payload = {"before": images[0], "after": images[1], "source": SOURCE, "op": op, "ts_ms": 1}
    if not schema:
        return plain(payload)
    rows = [
        {"type": "struct", "optional": True, "fields": FIELDS, "field": image}
        for image in ("before", "after")
    ]
    return plain({"schema": {"type": "struct", "fields": rows}, "payload": payload})


def reader(name: str = "debezium-json", rules: TableRules = DECLARED, **settings: Any) -> Any:
    envelope = registry.get(name)
    return envelope.decoder(envelope.decode_settings(**settings), rules)  # type: ignore[misc]


def read(decoder: Any, value: bytes | None, key: bytes | None, headers: Any = None) -> Change:
    (change,) = decoder.decode(Message("a.shop.t", 0, 0, None, key, value, headers))
    return change


def refused(decoder: Any, value: bytes, key: bytes) -> str:
    with pytest.raises(Refusal) as refusal:
        read(decoder, value, key)
    assert refusal.value.kind == "key"
    return refusal.value.sentence


EVENTS_OF = [("c", None, 1), ("r", None, 1), ("u", 1, 1), ("u", None, 1), ("d", 1, None)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("schema", [False, True], ids=["no schema", "schema"])
@pytest.mark.parametrize("known", [False, True], ids=["first", "known table"])
@pytest.mark.parametrize(("op", "before", "after"), EVENTS_OF)
def test_a_key_of_another_row_is_refused(form, schema, known, op, before, after):
    decoder, key = reader(), FORMS[form]
    value = event(op, before, after, schema)
    if known:
        assert read(decoder, value, key({"id": 1})).schema.key == ("id",)
    for _ in range(2):
        sentence = refused(decoder, value, key({"id": 2}))
        assert "the message key tells the key '2', and that of the row is '1'" in sentence
        assert "nothing says which of them is meant" in sentence
        assert read(decoder, value, key({"id": 1})).outcome == "ok"
    sentence = refused(decoder, value, key({"id": 1, "name": "n2"}))
    assert "'1, n2', and that of the row is '1, n1'" in sentence


@pytest.mark.parametrize("form", FORMS)
def test_a_key_of_columns_that_the_row_lacks_is_refused(form):
    decoder, key = reader(), FORMS[form]
    value = plain({"before": None, "after": {"id": 1}, "source": SOURCE, "op": "c"})
    for _ in range(2):
        assert "names the column 'name', which is not in the row" in refused(
            decoder, value, key({"name": "n1"})
        )
        assert read(decoder, value, key({"id": 1})).after.f0 == "1"
    # Whose key is declared, of that the message key need not be made.
    decoder = reader(rules=TableRules({"shop.t": TableRule(("id",), TYPES)}))
    assert read(decoder, value, key({"name": "n1"})).after.f0 == "1"
    assert "the key '2'" in refused(decoder, value, key({"name": "n1", "id": 2}))


def test_a_message_without_key_or_with_one_of_no_columns_is_taken():
    decoder = reader()
    for key in (None, b"null", b"5", b'"1"', b"Struct{id=2}"):
        for value in (event("c", None, 1), event("d", 1, None)):
            assert read(decoder, value, key).outcome == "ok"


def test_what_topic_routing_adds_to_keys_is_no_column():
    decoder = reader()
    routed = {"id": 1, "__dbz__physicalTableIdentifier": "a.shop.t"}
    assert read(decoder, event("c", None, 1), plain(routed)).schema.key == ("id",)
    assert "the key '2'" in refused(decoder, event("c", None, 1), plain({**routed, "id": 2}))


@pytest.mark.parametrize("key", [b'{"id":"1"}', b'{"id":1.0}', b'{"id": 1}'])
def test_the_same_value_in_another_notation_is_the_same_key(key):
    for decoder in (reader(), reader(rules=TableRules())):
        assert read(decoder, event("c", None, 1), key).outcome == "ok"
        assert read(decoder, event("c", None, 1), key).outcome == "ok"


@pytest.mark.parametrize("form", FORMS)
def test_the_key_of_an_update_may_be_that_of_either_row(form):
    decoder, key = reader(), FORMS[form]
    for number in (1, 2, 1):
        change = read(decoder, event("u", 1, 2), key({"id": number}))
        assert (change.before.f0, change.after.f0) == ("1", "2")
    assert "the key '3'" in refused(decoder, event("u", 1, 2), key({"id": 3}))


@pytest.mark.parametrize("form", FORMS)
def test_a_change_of_the_key_is_a_delete_and_an_insert_with_their_own_keys(form):
    decoder, key = reader(), FORMS[form]
    for _ in range(2):
        left = [("__debezium.newkey", key({"id": 2}))]
        assert read(decoder, event("d", 1, None), key({"id": 1}), left).rank == 0
        moved = [("__debezium.oldkey", key({"id": 1}))]
        change = read(decoder, event("c", None, 2), key({"id": 2}), moved)
        assert (change.moved_from.f0, change.after.f0) == ("1", "2")
    for value, headers in ((event("d", 1, None), left), (event("c", None, 2), moved)):
        with pytest.raises(Refusal, match="the message key tells the key '3'"):
            read(decoder, value, key({"id": 3}), headers)


def test_tombstones_and_deletes_without_a_row_are_what_their_key_says():
    decoder = reader()
    assert read(decoder, event("c", None, 1), plain({"id": 1})).outcome == "ok"
    assert read(decoder, None, plain({"id": 9})).reason_kind == "tombstone"
    gone = plain({"before": None, "after": None, "source": SOURCE, "op": "d", "ts_ms": 1})
    assert read(decoder, gone, plain({"id": 9})).before.f0 == "9"


def test_a_column_that_was_not_sent_contradicts_nothing():
    row = {"id": 1, "name": "__debezium_unavailable_value"}
    value = plain({"before": None, "after": row, "source": SOURCE, "op": "u"})
    decoder = reader()
    for _ in range(2):
        assert read(decoder, value, plain({"id": 1, "name": "x"})).after.f0 == "1"


def test_null_in_a_key_is_null_in_the_row():
    value = plain({"before": None, "after": {"id": 1, "name": None}, "source": SOURCE, "op": "c"})
    decoder = reader()
    for _ in range(2):
        assert read(decoder, value, plain({"id": 1, "name": None})).outcome == "ok"
        assert "'1, n1', and that of the row is '1, None'" in refused(
            decoder, value, plain({"id": 1, "name": "n1"})
        )


def numbered(key: Any, size: int = 400) -> list[Message]:
    """Events of rows; the keys of every ninetieth are those of another row."""
    found = []
    for number in range(size):
        op = "cud"[number % 3]
        images = (None if op == "c" else number, None if op == "d" else number)
        key_row = row_of(number + (number % 90 == 4))
        found.append(Message("a.shop.t", 0, number, None, key(key_row), event(op, *images)))
    return found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("columns", [("id",), ("id", "name")], ids=["one", "two"])
@pytest.mark.parametrize("target", [JSON, CANAL], ids=["json", "canal"])
def test_both_speeds_refuse_the_same_keys(form, columns, target, tmp_path):
    messages = numbered(lambda row: FORMS[form]({name: row[name] for name in columns}))
    settings = registry.get("debezium-json").decode_settings()
    wrong = [message.offset for message in messages if message.offset % 90 == 4]
    # A block with one that is wrong is read one by one; so is an update for Canal without the row.
    assert agree(JSON, target, messages, DECLARED, settings, str(tmp_path)) >= 200
    outcome = Outcome(JSON, target, DECLARED, settings, str(tmp_path))
    outcome.converter.convert(messages, [], [])
    assert [(offset, kind) for offset, _, kind, _ in outcome.refused] == [
        (offset, "key") for offset in wrong
    ]


@pytest.mark.parametrize("decimals", ["string", "precise"])
def test_both_speeds_refuse_the_same_keys_in_avro(decimals, tmp_path):
    """Of rows and keys that Waybill itself wrote, with the keys of some exchanged."""
    target = Side("debezium-avro", {"decimals": decimals, "tombstones": False})
    kinds = {**TYPES, "amount": parse_type("decimal(10,2)"), "at": parse_type("timestamp(6)")}
    key = ("id", "amount", "at")
    rules = TableRules({"shop.t": TableRule(key, kinds)})
    lines = []
    for number in range(400):
        row = {**row_of(number), "amount": f"{number % 7}.50"}
        row["at"] = 1_700_000_000_000_000 + number  # type: ignore[assignment]
        value = {"before": None, "after": row, "source": SOURCE, "op": "c", "ts_ms": 1}
        lines.append(Message("a.shop.t", 0, number, None, None, plain(value)))
    settings = registry.get("debezium-json").decode_settings()
    written = Outcome(JSON, target, rules, settings, str(tmp_path))
    out: list[Any] = []
    written.converter.convert(lines, out, [])
    assert (len(out), written.refused) == (400, [])
    keys = [one.key for one in out]
    for number in range(4, 400, 9):
        keys[number] = keys[number - 1]
    messages = [
        Message("a.shop.t", 0, number, None, key, one.value)
        for number, (key, one) in enumerate(zip(keys, out, strict=True))
    ]
    reading = registry.get("debezium-avro").decode_settings(schemas=str(tmp_path))
    for rule in (rules, TableRules({"shop.t": TableRule(None, kinds)}), TableRules()):
        assert agree(EVENTS, EVENTS, messages, rule, reading, str(tmp_path)) >= 300
        outcome = Outcome(EVENTS, EVENTS, rule, reading, str(tmp_path))
        outcome.converter.convert(messages, [], [])
        assert [(offset, kind) for offset, _, kind, _ in outcome.refused] == [
            (offset, "key") for offset in range(4, 400, 9)
        ]


def test_keys_in_json_beside_rows_in_avro_are_held_against_them(tmp_path):
    line = Message("a.shop.t", 0, 0, None, None, event("c", None, 1))
    out: list[Any] = []
    settings = registry.get("debezium-json").decode_settings()
    Outcome(JSON, EVENTS, DECLARED, settings, str(tmp_path)).converter.convert([line], out, [])
    decoder = reader("debezium-avro", schemas=str(tmp_path))
    for key in FORMS.values():
        for _ in range(2):
            assert read(decoder, out[0].value, key({"id": 1})).schema.key == ("id",)
            assert "the key '2'" in refused(decoder, out[0].value, key({"id": 2}))
    assert read(decoder, out[0].value, None).outcome == "ok"
