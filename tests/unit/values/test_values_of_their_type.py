"""A value is held against its declared or stated type when it is read, one by one and at once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.contract.test_bulk import Outcome, agree, one_by_one
from waybill.envelopes import registry
from waybill.errors import Refusal
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type
from waybill.values.declared import integer_check

NAMES = {
    "int8": "TINYINT",
    "int64": "INT64",
    "uint64": "BIGINT UNSIGNED",
    "decimal(5,2)": "DECIMAL(5,2)",
}
_json = msgspec.json.Encoder().encode


def _oms_default(name: str, row: dict[str, Any]) -> Any:
    meta = {"record_primary_key": "id", "dbType": "MYSQL", "table_name": "t", "db": "d"}
    return {
        "prevStruct": None,
        "postStruct": row,
        "allMetaData": {**meta, "storeDataSequence": row["id"]},
        "recordType": "INSERT",
    }


def _oms_extended(name: str, row: dict[str, Any]) -> Any:
    light = {"id": {"schemaType": "INT64"}, "b": {"schemaType": name}}
    return _oms_default(name, {**row, "__light_type": light})


def _oms_canal(name: str, row: dict[str, Any]) -> Any:
    return {
        "database": "d",
        "sqlType": {"id": -5, "b": -6},
        "data": [row],
        "pkNames": ["id"],
        "old": None,
        "mysqlType": {"id": "int64", "b": name.lower()},
        "type": "INSERT",
        "table": "t",
        "es": 1609344671000,
        "isDdl": False,
        "ts": 1609344671000,
        "sql": "",
    }


def _canal(name: str, row: dict[str, Any]) -> Any:
    texts = {column: str(value) for column, value in row.items()}
    return {**_oms_canal(name, texts), "id": 1, "mysqlType": {"id": "bigint", "b": name.lower()}}


def _oms_dataworks(name: str, row: dict[str, Any]) -> Any:
    source = {"dbType": "mysql", "dbVersion": None, "dbName": "d", "schema": None, "table": "t"}
    columns = [{"name": "id", "type": "INT64"}, {"name": "b", "type": name}]
    return {
        "version": "2.0",
        "schema": {"source": source, "column": columns, "pk": ["id"]},
        "payload": {
            "before": None,
            "after": {"data": row},
            "op": "INSERT",
            "timestamp": {"eventTime": 1609344671000},
            "ddl": None,
            "scn": str(row["id"]),
        },
    }


def _oms_shareplex(name: str, row: dict[str, Any]) -> Any:
    meta = {"op": "ins", "time": "2020-12-30T16:11:11", "table": "d.t", "scn": str(row["id"])}
    return {"data": row, "meta": meta}


def _maxwell(name: str, row: dict[str, Any]) -> Any:
    head = {"database": "d", "table": "t", "type": "insert", "ts": 1609344671, "xid": row["id"]}
    return {**head, "commit": True, "data": row}


def _ogg(name: str, row: dict[str, Any]) -> Any:
    return {"table": "d.t", "op_type": "I", "primary_keys": ["id"], "after": row}


def _dms(name: str, row: dict[str, Any]) -> Any:
    head = {"record-type": "data", "operation": "insert"}
    return {"data": row, "metadata": {**head, "schema-name": "d", "table-name": "t"}}


MESSAGES = {
    "oms-default": _oms_default,
    "oms-extended": _oms_extended,
    "oms-canal": _oms_canal,
    "oms-dataworks": _oms_dataworks,
    "oms-shareplex": _oms_shareplex,
    "canal": _canal,
    "maxwell": _maxwell,
    "ogg": _ogg,
    "dms": _dms,
}
STATED = ("oms-extended", "oms-canal", "oms-dataworks", "canal")
"""Envelopes whose messages say the types of their columns."""
VALUES = {
    "int8": (["-128", "127", "-1", "0", "10"], ["128", "-129", "300", "1" * 60]),
    "int64": ([str(2**63 - 1), str(-(2**63)), "7"], [str(2**63), str(-(2**63) - 1)]),
    "uint64": ([str(2**64 - 1), str(2**63), "0", "5"], [str(2**64), "-1"]),
    "decimal(5,2)": (["999.99", "-1.5", "0.00", "7"], ["1000", "0.001"]),
}


CASES = [(envelope, kind, True) for envelope in MESSAGES for kind in VALUES]
CASES += [(envelope, kind, False) for envelope in STATED for kind in ("int8", "int64")]
CASES += [("canal", "uint64", False), ("canal", "decimal(5,2)", False)]


@pytest.mark.parametrize(("envelope", "kind", "declared"), CASES)
def test_a_number_is_one_of_its_type(envelope, kind, declared):
    columns = {"id": parse_type("int64"), "b": parse_type(kind)} if declared else {}
    rules = TableRules({"d.t": TableRule(("id",), columns)})
    good, bad = VALUES[kind]
    name = NAMES[kind]
    if kind == "int64" and envelope == "canal":
        name = "bigint"
    values = (good * 70)[:200] + bad * 10
    lines = [
        _json(MESSAGES[envelope](name, {"id": i, "b": msgspec.Raw(text.encode())}))
        if envelope != "canal"
        else _json(MESSAGES[envelope](name, {"id": i, "b": text}))
        for i, text in enumerate(values, start=1)
    ]
    # The messages tell no positions, so there are no ids but those of the place in the topic.
    written = registry.get("datahub-blob").encode_settings(sequence_from="position")
    outcome = one_by_one(Outcome(envelope, "datahub-blob", rules, written=written), lines)
    refused = [place for place, *_ in outcome["refused"]]
    assert refused == list(range(200, len(values)))
    assert {kind for *_, kind, _ in outcome["refused"]} == {"value"}
    sentence = "does not fit {}; declare" if kind.startswith("d") else "out of the range of {}; "
    assert any(sentence.format(kind) in why for *_, why in outcome["refused"])
    assert agree(envelope, "datahub-blob", lines, rules, written=written) >= 100


@pytest.mark.parametrize(
    ("kind", "value", "named"),
    [
        ("int8", "200", "uint8"),
        ("int8", "300", "int16"),
        ("int8", "-200", "int16"),
        ("int64", str(2**63), "uint64"),
        ("uint64", "-1", "int8"),
        ("uint64", str(2**64), "number"),
    ],
)
def test_the_refusal_names_a_type_that_holds_the_value(kind, value, named):
    with pytest.raises(Refusal, match=rf"\({named} holds it\)"):
        integer_check(kind)(value)


@pytest.mark.parametrize(
    ("mysql", "value"),
    [
        ("int(11)", "abc"),
        ("int(11)", "1.5"),
        ("decimal(5,2)", "1234.5"),
        ("decimal(5,2)", "1.234"),
        ("decimal(5,2)", "NaN"),
        ("double", "x"),
        ("float", ""),
        ("bit(1)", "2"),
    ],
)
def test_what_is_no_value_of_its_type_is_refused_in_canal(mysql, value):
    good = {"int(11)": "5", "decimal(5,2)": "-1.20", "bit(1)": "1"}.get(mysql, "1.5")
    lines = [
        _json(_canal(mysql, {"id": i, "b": good if i < 150 else value})) for i in range(1, 200)
    ]
    outcome = one_by_one(Outcome("canal", "datahub-blob", TableRules({})), lines)
    assert [place for place, *_ in outcome["refused"]] == list(range(149, 199))
    assert agree("canal", "datahub-blob", lines, TableRules({})) > 100
