"""What DMS's records and rows of its files hold that nobody would see, read this or that way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from tests.contract.test_bulk import Outcome, agree, one_by_one
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.records import Message
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

COLUMNS = {"id": parse_type("int64"), "n": parse_type("int64")}
RULES = {
    "declared": TableRules({"shop.t": TableRule(("id",), COLUMNS)}),
    "keyed": TableRules({"shop.t": TableRule(("id",), {})}),
    "unknown": TableRules(),
}


def record(operation: str, number: int, **changed: Any) -> dict[str, Any]:
    metadata = {
        "record-type": "data",
        "operation": operation,
        "schema-name": "shop",
        "table-name": "t",
        "transaction-id": (8 << 32) + number,
        "transaction-record-id": number % 3,
        "stream-position": f"7.{number}",
    } | changed.pop("metadata", {})
    return {"data": {"id": number, "n": number}, **changed, "metadata": metadata}


STRANGE: dict[str, Any] = {
    "insert with a row before": lambda i: record("insert", i, **{"before-image": {"id": 9}}),
    "insert with nulls before": lambda i: record("insert", i, **{"before-image": {"id": None}}),
    "insert with a column before": lambda i: record("insert", i, data={"id": i, "BI_n": 7}),
    "both before": lambda i: record(
        "update", i, data={"id": i, "n": i, "BI_n": 5 + i % 2}, **{"before-image": {"n": 5}}
    ),
    "no column": lambda i: record(("insert", "update", "delete", "load")[i % 4], i, data={}),
    "delete told twice": lambda i: record(
        "delete", i, **{"before-image": {"id": i, "n": (i, i + 1, None)[i % 3]}}
    ),
    "delete with nulls": lambda i: record(
        "delete", i, data={"id": i, "n": None}, **{"before-image": {"id": i, "n": i}}
    ),
    "delete of other kinds": lambda i: record(
        "delete", i, **{"before-image": {"id": i, "n": str(i)}}
    ),
    "control beside a row": lambda i: record("insert", i, control=[None, {"x": 1}][i % 2]),
    "control with a row": lambda i: record("drop-table", i, metadata={"record-type": "control"}),
    "other type": lambda i: record("insert", i, metadata={"record-type": "bogus"}),
    "unknown field": lambda i: record("insert", i, zz=[i, {}, {"a": i}][i % 3]),
    "transaction below zero": lambda i: record("insert", i, metadata={"transaction-id": -i}),
    "record below zero": lambda i: record("insert", i, metadata={"transaction-record-id": -1}),
}


def lines_of(strange: str) -> list[bytes]:
    """Good records, and from the middle on strange ones among them."""
    found = []
    for i in range(240):
        kind = ("insert", "update", "delete")[i % 3]
        old = {"before-image": {"id": i, "n": i}} if kind == "delete" else {}
        found.append(record(kind, i, **old))
        if i >= 40:
            found.append(STRANGE[strange](i))
    return [json.dumps(one, separators=(",", ":")).encode() for one in found]


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("strange", STRANGE)
def test_strange_records_are_read_the_same_way_one_by_one_and_at_once(strange, rules):
    assert agree("dms", "dms", lines_of(strange), RULES[rules]) > 100


@pytest.mark.parametrize("sign", ["", "-"])
def test_rows_of_files_with_a_sign_in_their_order_are_read_the_same_way(sign):
    rows: list[dict[str, Any]] = [{"Op": "I", "seq": f"{i:035}", "id": i} for i in range(100)]
    rows += [{"Op": "I", "seq": f"{sign}{i}", "id": i} for i in range(100)]
    lines = [json.dumps(row, separators=(",", ":")).encode() for row in rows]
    settings = registry.get("dms-s3").decode_settings(sequence_column="seq")
    outcome = Outcome("dms-s3", "dms-s3", TableRules(), settings)
    refused = one_by_one(outcome, lines)["refused"]
    assert [place for place, *_ in refused] == (list(range(100, 200)) if sign else [])
    assert all(kind == "shape" and "not digits" in why for _, _, kind, why in refused)
    assert agree("dms-s3", "dms-s3", lines, TableRules(), settings) >= 50


@pytest.mark.parametrize("direction", ["decode_settings", "encode_settings"])
def test_a_column_of_a_file_holds_the_time_or_the_order(direction):
    made = getattr(registry.get("dms-s3"), direction)
    made(timestamp_column="ts", sequence_column="seq")
    made()
    with pytest.raises(ValidationError, match="timestamp_column and sequence_column both name 'x'"):
        made(timestamp_column="x", sequence_column="x")
    for name in ("timestamp_column", "sequence_column"):
        with pytest.raises(ValidationError, match="column 'Op' holds what happened to the row"):
            made(**{name: "Op"})


@pytest.mark.parametrize("name", ["shop.public.old.t", "shop.", ".t", "shop..t"])
def test_the_table_of_files_is_named_in_full_or_not_at_all(name):
    with pytest.raises(ValidationError, match="is not the name of a table"):
        registry.get("dms-s3").decode_settings(table=name)


@pytest.mark.parametrize(
    ("topic", "key"), [("shop.", None), ("shop.t", b'{"schema-name":"shop","table-name":""}')]
)
def test_rows_of_files_name_a_table(topic, key):
    envelope = registry.get("dms-s3")
    decoder = envelope.decoder(envelope.decode_settings(), TableRules())  # type: ignore[misc]
    with pytest.raises(Refusal, match="neither message key nor topic names the row's table"):
        decoder.decode(Message(topic, 0, 0, None, key, b'{"Op":"I","id":1}'))


@pytest.mark.parametrize("direction", ["decode_settings", "encode_settings"])
@pytest.mark.parametrize("name", ["data", "control", "metadata"])
def test_the_row_before_has_a_field_of_its_own(name, direction):
    """Else a record would have a field twice, or its row would be taken for the one before."""
    with pytest.raises(ValidationError, match=f"'{name}' is a field of every record"):
        getattr(registry.get("dms"), direction)(before_field=name)


def test_columns_of_the_row_before_need_a_prefix():
    """Else their values would be written in place of those after the change."""
    made = registry.get("dms").encode_settings
    made(before_images="columns", before_prefix="OLD_")
    made(before_images="object", before_prefix="")
    with pytest.raises(ValidationError, match="columns needs a before_prefix"):
        made(before_images="columns", before_prefix="")


def test_a_declared_column_with_the_prefix_is_never_one_of_the_row():
    """Also after records of the table from which the fast way was learnt."""
    envelope = registry.get("dms")
    rules = TableRules({"shop.t": TableRule(("id",), {**COLUMNS, "BI_n": parse_type("int64")})})
    decoder = envelope.decoder(envelope.decode_settings(missing="null"), rules)  # type: ignore[misc]
    for place, value in enumerate((None, 7, 7)):
        line = record("insert", place, data={"id": 1, "n": 2, "BI_n": value})
        message = Message("t", 0, place, None, None, json.dumps(line).encode())
        if value is None:
            decoder.decode(message)
            continue
        with pytest.raises(Refusal, match="column 'BI_n' in data"):
            decoder.decode(message)
