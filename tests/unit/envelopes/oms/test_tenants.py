"""Tenants of OceanBase are part of the database's name, unless a setting names the one to drop."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.contract.test_bulk import Outcome, agree, one_by_one
from waybill.envelopes import registry
from waybill.tables import TableRule, TableRules

RULES = TableRules({"*.t": TableRule(("id",), {})})
_json = msgspec.json.Encoder().encode


def _default(tenant: str, number: int) -> Any:
    return {
        "prevStruct": None,
        "postStruct": {"id": number},
        "allMetaData": {
            "record_primary_key": "id",
            "dbType": "OB_MYSQL",
            "storeDataSequence": number,
            "table_name": "t",
            "db": f"{tenant}.d",
        },
        "recordType": "INSERT",
    }


def _dataworks(tenant: str, number: int) -> Any:
    source = {"dbType": "ob_mysql", "dbVersion": None, "dbName": f"{tenant}.d", "table": "t"}
    payload = {"before": None, "after": {"data": {"id": number}}, "op": "INSERT", "scn": "1"}
    schema = {"source": source, "column": [{"name": "id", "type": "INT"}], "pk": ["id"]}
    return {"version": "2.0", "schema": schema, "payload": payload}


def _shareplex(tenant: str, number: int) -> Any:
    meta = {"op": "ins", "table": f"{tenant}.d.t", "scn": str(number)}
    return {"data": {"id": number}, "meta": meta}


MESSAGES = {"oms-default": _default, "oms-dataworks": _dataworks, "oms-shareplex": _shareplex}


def _settings(envelope: str, **settings: Any) -> Any:
    more = {"tenants": True} if envelope == "oms-shareplex" else {}
    return registry.get(envelope).decode_settings(**settings, **more)


def _databases(envelope: str, lines: list[bytes], settings: Any) -> list[str]:
    written = one_by_one(Outcome(envelope, "datahub-blob", RULES, settings), lines)["values"]
    return [msgspec.json.decode(line)["schema"]["source"]["dbName"] for line in written]


@pytest.mark.parametrize("envelope", MESSAGES)
def test_tables_of_two_tenants_stay_two(envelope):
    lines = [_json(MESSAGES[envelope](f"t{n % 2}", n)) for n in range(200)]
    settings = _settings(envelope)
    assert _databases(envelope, lines, settings) == ["t0.d", "t1.d"] * 100
    agree(envelope, "datahub-blob", lines, RULES, settings)


@pytest.mark.parametrize("envelope", MESSAGES)
def test_only_the_tenant_that_is_named_is_left_out(envelope):
    lines = [_json(MESSAGES[envelope](f"t{n % 2}", n)) for n in range(200)]
    settings = _settings(envelope, tenant="t1")
    assert _databases(envelope, lines, settings) == ["t0.d", "d"] * 100
    agree(envelope, "datahub-blob", lines, RULES, settings)


@pytest.mark.parametrize("tenant", [None, "t1"])
@pytest.mark.parametrize("envelope", MESSAGES)
def test_the_name_is_written_as_it_came(envelope, tenant):
    lines = [_json(MESSAGES[envelope]("t1", n)) for n in range(1, 200)]
    settings = _settings(envelope, tenant=tenant)
    more = {"tenants": True} if envelope == "oms-shareplex" else {}
    write = registry.get(envelope).encode_settings(**more)
    written = one_by_one(Outcome(envelope, envelope, RULES, settings, write), lines)["values"]
    named = {"oms-default": b'"db":"t1.d"', "oms-dataworks": b'"dbName":"t1.d"'}
    for line in written:
        assert named.get(envelope, b'"table":"t1.d.t"') in line
    assert len(written) == 199
    agree(envelope, envelope, lines, RULES, settings, write)


@pytest.mark.parametrize(("stated", "taken"), [("d.t", True), ("t", True), ("e.t", False)])
def test_a_statement_names_the_database_without_its_tenant(stated, taken):
    message = _default("t1", 1)
    message["postStruct"] = {"ddl": f"truncate table {stated}"}
    message["recordType"] = "DDL"
    outcome = one_by_one(Outcome("oms-default", "datahub-blob", RULES), [_json(message)])
    assert bool(outcome["refused"]) is not taken
    if taken:
        (line,) = outcome["values"]
        document = msgspec.json.decode(line)
        assert document["payload"]["op"] == "TRUNCATE"
        assert document["schema"]["source"]["dbName"] == "t1.d"
