"""BIT(1) in OMS: Base64 as every other BIT, whatever envelope the column came from."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.contract.test_bulk import Outcome, agree, one_by_one
from waybill.envelopes import registry
from waybill.tables import TableRules

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
    told = msgspec.json.decode(line)
    if target == "oms-dataworks":
        return dict(told["payload"]["after"]["data"])
    row = told["postStruct"] if "postStruct" in told else told["data"]
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
