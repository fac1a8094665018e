"""BIT(1) in OMS: Base64 as every other BIT, whatever envelope the column came from."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.contract.test_bulk import Outcome, agree, one_by_one
from waybill.envelopes import registry
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

NOTHING = TableRules({})
OMS = ("oms-default", "oms-extended", "oms-canal", "oms-dataworks", "oms-shareplex")
VALUES = ["1", "0", "1", None]


def _canal(number: int) -> bytes:
    value = VALUES[number % len(VALUES)]
    return msgspec.json.encode(
        {
            "id": number,
            "database": "d",
            "table": "t",
            "pkNames": ["id"],
            "isDdl": False,
            "type": "INSERT",
            "es": 1609344671000,
            "ts": 1609344671000,
            "sql": "",
            "sqlType": {"id": 4, "b": -7},
            "mysqlType": {"id": "int", "b": "bit(1)"},
            "old": None,
            "data": [{"id": str(number), "b": value}],
        }
    )


def _row(target: str, line: bytes) -> dict[str, Any]:
    document = msgspec.json.decode(line)
    if target == "oms-dataworks":
        return dict(document["payload"]["after"]["data"])
    row = document["postStruct"] if "postStruct" in document else document["data"]
    return dict(row[0] if isinstance(row, list) else row)


@pytest.mark.parametrize("target", OMS)
@pytest.mark.parametrize("source", ["canal", "oms-extended", "oms-canal", "oms-dataworks"])
def test_a_bit_of_one_is_base64_in_every_oms_format(source, target):
    lines = [_canal(number) for number in range(200)]
    if source != "canal":
        lines = one_by_one(Outcome("canal", source, NOTHING), lines)["values"]  # type: ignore
    written = one_by_one(Outcome(source, target, NOTHING), lines)["values"]
    expected = [{"1": "AQ==", "0": "AA==", None: None}[VALUES[n % 4]] for n in range(200)]
    assert [_row(target, line)["b"] for line in written] == expected
    assert agree(source, target, lines, NOTHING) > 100


@pytest.mark.parametrize("target", OMS)
def test_before_3_3_0_it_is_a_number(target):
    lines = [_canal(number) for number in range(200)]
    settings = registry.get(target).encode_settings(version="earlier")
    written = one_by_one(Outcome("canal", target, NOTHING, None, settings), lines)["values"]
    assert [_row(target, line)["b"] for line in written[:4]] == [1, 0, 1, None]
    assert agree("canal", target, lines, NOTHING, None, settings) > 100


DECLARED = TableRules(
    {"d.t": TableRule(None, {"id": parse_type("int"), "b": parse_type("bit(1)")})}
)


def _default(number: int) -> bytes:
    meta = {"record_primary_key": "id", "table_name": "t", "db": "d", "dbType": "MYSQL"}
    row = {"id": number, "b": {"1": "AQ==", "0": "AA==", None: None}[VALUES[number % len(VALUES)]]}
    meta |= {"storeDataSequence": number + 1, "timestamp": "1609344671"}
    message = {"prevStruct": None, "postStruct": row, "allMetaData": meta, "recordType": "INSERT"}
    return msgspec.json.encode(message)


@pytest.mark.parametrize("target", OMS)
@pytest.mark.parametrize("source", ["oms-default", "oms-shareplex"])
def test_a_column_that_is_declared_as_a_bit_of_one_is_base64(source, target):
    """These name no types, so that nothing but the declaration says it."""
    lines = [_default(number) for number in range(200)]
    if source != "oms-default":
        lines = one_by_one(Outcome("oms-default", source, DECLARED), lines)["values"]  # type: ignore
    written = one_by_one(Outcome(source, target, DECLARED), lines)["values"]
    expected = [{"1": "AQ==", "0": "AA==", None: None}[VALUES[n % 4]] for n in range(200)]
    assert [_row(target, line)["b"] for line in written] == expected
    assert agree(source, target, lines, DECLARED) > 100


@pytest.mark.parametrize(("target", "text"), [("canal", "1"), ("datahub-tuple", "true")])
def test_elsewhere_such_a_column_is_true_or_false(target, text):
    lines = [_default(number) for number in range(200)]
    (first, *_) = one_by_one(Outcome("oms-default", target, DECLARED), lines)["values"]
    document = msgspec.json.decode(first)
    assert (document["data"][0] if "data" in document else document)["b"] == text
    assert agree("oms-default", target, lines, DECLARED) > 100


def test_a_declaration_keeps_its_text():
    assert str(parse_type("bit(1)")) == str(parse_type("bit")) == "bit(1)"
    assert parse_type("bit(1)") != parse_type("boolean") == parse_type("bit(1)", "mysql")
