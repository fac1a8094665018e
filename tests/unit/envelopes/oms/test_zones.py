"""Times that name their zone keep it, in every target; declared as instants they are in UTC."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from tests.contract.test_bulk import WRITTEN, Outcome, agree, one_by_one
from waybill.envelopes import registry
from waybill.inprocess.converter import Converter
from waybill.records import Message
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

if TYPE_CHECKING:
    from waybill.protocol import Encoded

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


COLUMNS = {"id": parse_type("int32"), "c": parse_type("timestamptz")}
DECLARED = TableRules({"d.t": TableRule(("id",), COLUMNS)})


@pytest.mark.parametrize("target", registry.names())
def test_declared_as_an_instant_it_is_in_utc_and_the_loss_is_counted(target, tmp_path):
    envelope = registry.get(target)
    schemas = {"schemas": str(tmp_path)} if target.endswith("avro") else {}
    settings = envelope.encode_settings(**schemas)
    times = (TIMES[0], TIMES[2])
    lines = _lines("ZONED_DATETIME", times * 2)
    source = registry.get("oms-dataworks")
    refused: list[str] = []
    converter = Converter(
        source,
        envelope,
        DECLARED,
        source.decode_settings(),
        settings,
        lambda message, index, kind, why: refused.append(why),
    )
    written: list[Encoded] = []
    messages = [Message("t", 0, n, None, None, line) for n, line in enumerate(lines)]
    converter.convert(messages, written, [])
    assert not refused
    assert converter.account.losses["types"] == len(lines)
    if target == "datahub-blob":
        assert b'"c":"2020-11-24T16:01:02.012345Z"' in (written[0].value or b"")
        assert b'"c":"2020-10-25T01:30:00Z"' in (written[1].value or b"")
    if target in WRITTEN:
        assert agree("oms-dataworks", target, lines, DECLARED, written=settings) > 0


def test_where_nothing_is_given_up_nothing_is_counted():
    for name, rules in (("ZONED_DATETIME", TableRules({})), ("TIMESTAMP", DECLARED)):
        text = TIMES[0] if name == "ZONED_DATETIME" else "1606233662.012345"
        lines = _lines(name, (text,) * 3)
        found = one_by_one(Outcome("oms-dataworks", "oms-dataworks", rules), lines)
        assert len(found["values"]) == len(lines)
        assert not found["losses"]


def test_a_time_that_the_clocks_showed_twice_is_no_instant():
    lines = _lines("ZONED_DATETIME", TIMES)
    outcome = one_by_one(Outcome("oms-dataworks", "datahub-blob", DECLARED), lines)
    assert [place for place, *_ in outcome["refused"]] == list(range(1, 150, 3))
    assert "Europe/Berlin showed twice: declare the column as string" in outcome["refused"][0][-1]
    agree("oms-dataworks", "datahub-blob", lines, DECLARED)
