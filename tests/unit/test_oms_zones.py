"""Times that name their zone keep it, in every target; declared as instants they are in UTC."""

from __future__ import annotations

import msgspec
import pytest

from tests.contract.test_bulk import Outcome, agree, one_by_one
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

TIMES = (
    "2020-11-25 00:01:02.012345 Asia/Shanghai",
    "2020-10-25 02:30:00 Europe/Berlin",
    "2020-10-25 02:30:00 +01:00",
)
"""The clocks of Berlin showed the second one twice."""


def _line(name: str, number: int, text: str) -> bytes:
    source = {"dbType": "ob_oracle", "dbVersion": None, "dbName": "d", "schema": None, "table": "t"}
    columns = [{"name": "id", "type": "INT"}, {"name": "c", "type": name}]
    return msgspec.json.encode(
        {
            "version": "2.0",
            "schema": {"source": source, "column": columns, "pk": ["id"]},
            "payload": {
                "before": None,
                "after": {"data": {"id": number, "c": text}},
                "op": "INSERT",
                "timestamp": {"eventTime": 1609344671000},
                "ddl": None,
                "scn": str(number),
            },
        }
    )


def _lines(name: str, texts: tuple[str, ...]) -> list[bytes]:
    return [_line(name, n, texts[n % len(texts)]) for n in range(150)]


@pytest.mark.parametrize("name", ["ZONED_DATETIME", "TIMESTAMP WITH TIME ZONE"])
@pytest.mark.parametrize(
    "target", ["oms-dataworks", "oms-extended", "oms-canal", "oms-default", "datahub-blob", "canal"]
)
def test_the_zone_is_kept(target, name):
    lines, rules = _lines(name, TIMES), TableRules({})
    written = one_by_one(Outcome("oms-dataworks", target, rules), lines)["values"]
    assert len(written) == len(lines)
    for number, line in enumerate(written):
        assert b'"c":"%b"' % TIMES[number % 3].encode() in line
    agree("oms-dataworks", target, lines, rules)


def test_declared_as_an_instant_it_is_in_utc():
    columns = {"id": parse_type("int32"), "c": parse_type("timestamptz")}
    rules = TableRules({"d.t": TableRule(("id",), columns)})
    lines = _lines("ZONED_DATETIME", TIMES)
    values = one_by_one(Outcome("oms-dataworks", "datahub-blob", rules), lines)["values"]
    assert b'"c":"2020-11-24T16:01:02.012345Z"' in values[0]
    assert b'"c":"2020-10-25T01:30:00Z"' in values[2]
    agree("oms-dataworks", "datahub-blob", lines, rules)
