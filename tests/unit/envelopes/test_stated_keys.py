"""A key that a message tells beside its row has to be that of the row."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.test_bulk import Outcome, agree, one_by_one
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.records import Message
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type


def oms(number: int, key: Any, columns: str = "id\u0001name", **more: Any) -> bytes:
    row = {"id": number, "name": f"n{number}"}
    meta = {
        "record_primary_key": columns,
        "record_primary_value": key,
        "dbType": "MYSQL",
        "storeDataSequence": 160934467100001 + number,
        "table_name": "t",
        "db": "shop",
        "timestamp": "1609344671",
    }
    message = {"prevStruct": None, "postStruct": row, "allMetaData": meta, "recordType": "INSERT"}
    return json.dumps({**message, **more}, separators=(",", ":")).encode()


def maxwell(number: int, key: Any, columns: Any = ("id", "name"), **more: Any) -> bytes:
    message = {
        "database": "shop",
        "table": "t",
        "type": "insert",
        "ts": 1_700_000_000,
        "position": f"b.000001:{number}",
        "primary_key": key,
        "primary_key_columns": list(columns),
        "data": {"id": number, "name": f"n{number}"},
    }
    return json.dumps({**message, **more}, separators=(",", ":")).encode()


MADE = {
    "oms-default": lambda number, id_, name: oms(number, f"{id_}\u0001{name}"),
    "maxwell": lambda number, id_, name: maxwell(number, [id_, name]),
}


def shareplex(number: int, rowid: Any, name: str = "", **more: Any) -> bytes:
    meta = {"op": "ins", "table": "shop.t", "rowid": rowid, "scn": str(1_000 + number)}
    row = {"id": number, "name": name or f"n{number}"}
    message = {"data": row, "meta": {"time": "2020-12-31T00:11:11", **meta}, **more}
    return json.dumps(message, separators=(",", ":")).encode()


def with_key(*key: str) -> TableRules:
    return TableRules({"shop.t": TableRule(key, TYPES)})


@pytest.mark.parametrize("known", [False, True], ids=["first", "known table"])
def test_a_row_id_of_other_values_is_refused(known):
    before = [shareplex(7, "shop.t-7")] if known else []
    with pytest.raises(
        Refusal, match=r"meta\.rowid holds the key '99', and that of the row is '1'"
    ):
        read("oms-shareplex", *before, shareplex(1, "shop.t-99"), rules=with_key("id"))
    both = with_key("id", "name")
    for stated in ("1\u0001n2", "2\u0001n1", "1n2", "99"):
        with pytest.raises(Refusal, match="nothing says which of them is meant"):
            read("oms-shareplex", *before, shareplex(1, f"shop.t-{stated}"), rules=both)


@pytest.mark.parametrize(
    ("key", "rowid"),
    [
        (("id",), "shop.t-1"),
        (("id", "name"), "shop.t-1\u0001n1"),
        # A sample of the document has nothing between the values.
        (("id", "name"), "shop.t-1n1"),
        # The key is declared in another order, or is another one of the table.
        (("name", "id"), "shop.t-1\u0001n1"),
        (("name",), "shop.t-1"),
        (("id",), "renamed.t-99"),
        (("id",), None),
        ((), "shop.t-99"),
    ],
)
def test_a_row_id_that_the_row_bears_out_is_taken(key, rowid):
    for before in ([], [shareplex(7, "shop.t-7\u0001n7")]):
        assert read("oms-shareplex", *before, shareplex(1, rowid), rules=with_key(*key)).outcome


def test_a_row_id_may_be_that_of_the_row_before_an_update():
    meta = {"op": "upd", "table": "shop.t", "rowid": "shop.t-1", "scn": "5"}
    moved = {"data": {"id": 2}, "key": {"id": 1, "name": "n1"}, "meta": meta}
    line = json.dumps(moved, separators=(",", ":")).encode()
    for rowid, taken in ((b"shop.t-1", True), (b"shop.t-2", True), (b"shop.t-3", False)):
        sent = line.replace(b"shop.t-1", rowid)
        if taken:
            assert read("oms-shareplex", sent, rules=with_key("id")).operation == "update"
        else:
            with pytest.raises(Refusal, match=r"meta\.rowid"):
                read("oms-shareplex", sent, rules=with_key("id"))


def test_both_speeds_refuse_the_same_row_ids():
    lines = [shareplex(n, f"shop.t-{n}") for n in range(200)]
    assert agree("oms-shareplex", "canal", lines, with_key("id")) > 150
    both = [shareplex(n, f"shop.t-{n}\u0001n{n if n % 9 else 8}") for n in range(200)]
    agree("oms-shareplex", "canal", both, with_key("id", "name"))
    wrong = [shareplex(n, f"shop.t-{n if n % 9 else 999}") for n in range(200)]
    assert agree("oms-shareplex", "canal", wrong, with_key("id")) > 100
    refused = one_by_one(Outcome("oms-shareplex", "canal", with_key("id")), wrong)["refused"]
    assert len(refused) == len(range(0, 200, 9))


TYPES = {"id": parse_type("int64"), "name": parse_type("string")}
RULES = TableRules({"shop.t": TableRule(None, TYPES)})


def read(name: str, *values: bytes, rules: TableRules = RULES) -> Any:
    """The change of the last of some messages."""
    envelope = registry.get(name)
    assert envelope.decoder is not None
    decoder = envelope.decoder(envelope.decode_settings(), rules)
    found = [decoder.decode(Message("t", 0, n, 0, None, v)) for n, v in enumerate(values)]
    return found[-1][0]


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("known", [False, True], ids=["first", "known table"])
def test_another_key_is_refused(name, known):
    made = MADE[name]
    before = [made(n, n, f"n{n}") for n in (7, 8)] if known else []
    assert read(name, *before, made(1, 1, "n1")).outcome == "ok"
    for stated in ((2, "n1"), (1, "n2")):
        with pytest.raises(Refusal) as refusal:
            read(name, *before, made(1, *stated))
        assert refusal.value.kind == "key"
        assert "nothing says which of them is meant" in refusal.value.sentence


SIMPLE = {
    "oms-default": lambda number, id_: oms(number, f"{id_}", "id"),
    "maxwell": lambda number, id_: maxwell(number, [id_, f"n{number}"]),
}


@pytest.mark.parametrize("name", SIMPLE)
def test_many_at_once_are_refused_as_one_by_one(name):
    """Those that are wrong, and no others; the rest is read at once."""
    lines = [SIMPLE[name](n, n + (n == 39)) for n in range(200)]
    assert agree(name, "canal", lines, RULES) >= 100
    fine = [SIMPLE[name](n, n) for n in range(200)]
    assert agree(name, "canal", fine, RULES) >= 150


def test_the_same_number_in_other_digits_is_the_same_key():
    rules = TableRules({"shop.t": TableRule(None, {**TYPES, "id": parse_type("number")})})
    assert read("oms-default", oms(1, "1.0\u0001n1"), rules=rules).outcome == "ok"


def test_of_an_update_either_key_may_be_stated():
    row = {"id": 1, "name": "n1"}
    for stated in ("1\u0001n1", "9\u0001n1"):
        value = oms(1, stated, prevStruct={**row, "id": 9}, recordType="UPDATE")
        assert read("oms-default", value).before.f0 == "9"
    for stated in ([1, "n1"], [9, "n1"]):
        assert read("maxwell", maxwell(1, stated, type="update", old={"id": 9})).before.f0 == "9"


def test_a_declared_key_of_other_columns_is_not_compared():
    rules = TableRules({"shop.t": TableRule(("name",), TYPES)})
    assert read("oms-default", oms(1, "5", "id"), rules=rules).outcome == "ok"
    assert read("maxwell", maxwell(1, [5], ["id"]), rules=rules).outcome == "ok"


def test_types_with_several_notations_are_not_compared():
    rules = TableRules({"shop.t": TableRule(None, {"id": parse_type("float64")})})
    assert read("oms-default", oms(1, "0.1", "id"), rules=rules).outcome == "ok"


@pytest.mark.parametrize("stated", [None, ""])
def test_a_key_that_is_not_stated_is_not_missed(stated):
    assert read("oms-default", oms(1, stated)).outcome == "ok"
    assert read("maxwell", maxwell(1, None)).outcome == "ok"
