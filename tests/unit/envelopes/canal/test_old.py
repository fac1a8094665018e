"""What `old` of Canal's messages tells, and what it leaves open, one by one and at once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.contract.test_bulk import Outcome, agree, one_by_one
from waybill.tables import TableRules

BOTH = ("canal", "oms-canal")


def _update(data: dict[str, Any], old: Any, number: int) -> bytes:
    types = {"id": "bigint", "b": "varchar(9)"}
    return msgspec.json.encode(
        {
            "database": "d",
            "sqlType": {"id": -5, "b": 12},
            "data": [{"id": str(number), **data}],
            "pkNames": ["id"],
            "old": old,
            "mysqlType": types,
            "type": "UPDATE",
            "table": "t",
            "es": 1609344671000 + number,
            "isDdl": False,
            "ts": 1618323429026,
            "sql": "",
        }
    )


def _typed(envelope: str, line: bytes, number: int) -> bytes:
    if envelope == "canal":
        return line
    return line.replace(b'"bigint"', b'"number"').replace(
        b'"id":"%d"' % number, b'"id":%d' % number
    )


def _lines(envelope: str, data: dict[str, Any], old: Any) -> list[bytes]:
    """A hundred messages, in the middle of some that tell all."""
    usual = [_update({"b": "y"}, [{"b": "x"}], n) for n in range(100)]
    asked = [_update(data, old, n) for n in range(100, 200)]
    return [_typed(envelope, line, n) for n, line in enumerate([*usual, *asked])]


@pytest.mark.parametrize("envelope", BOTH)
def test_a_changed_column_whose_new_value_is_not_stated_is_refused(envelope):
    lines = _lines(envelope, {}, [{"b": "x"}])
    outcome = one_by_one(Outcome(envelope, "oms-default", TableRules({})), lines)
    assert [place for place, *_ in outcome["refused"]] == list(range(100, 200))
    assert all("'b' is in old and not in data" in why for *_, why in outcome["refused"])
    assert agree(envelope, "oms-default", lines, TableRules({})) > 0


@pytest.mark.parametrize("envelope", BOTH)
def test_beside_an_empty_entry_a_whole_row_is_the_row_before_too(envelope):
    lines = _lines(envelope, {"b": "z"}, [{}])
    outcome = one_by_one(Outcome(envelope, "debezium-json", TableRules({})), lines)
    assert not outcome["refused"]
    for line in outcome["values"][100:]:
        document = msgspec.json.decode(line)
        assert document["before"] == document["after"]
        assert document["after"] is not None
    assert agree(envelope, "debezium-json", lines, TableRules({})) > 0


@pytest.mark.parametrize("envelope", BOTH)
@pytest.mark.parametrize(("data", "old"), [({}, [{}]), ({"b": "z"}, None)])
def test_without_an_entry_or_a_whole_row_nothing_is_known_of_the_row_before(envelope, data, old):
    lines = _lines(envelope, data, old)
    outcome = one_by_one(Outcome(envelope, "debezium-json", TableRules({})), lines)
    assert [msgspec.json.decode(line)["before"] for line in outcome["values"][100:]] == [None] * 100
    assert agree(envelope, "debezium-json", lines, TableRules({})) > 0
