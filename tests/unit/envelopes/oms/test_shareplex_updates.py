"""SharePlex updates that tell neither the row before nor a column beside those of the key."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.contract.test_bulk import Outcome, agree, one_by_one
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

KINDS = {"id": "int64", "region": "string", "amount": "string"}
DECLARED = {name: parse_type(kind, "") for name, kind in KINDS.items()}
SENTENCE = "op upd without key, whose data has nothing but the key"
NO_KEY: Any = object()


def update(number: int, data: dict[str, Any], key: Any = NO_KEY) -> bytes:
    meta = {"op": "upd", "table": "shop.t", "scn": str(number)}
    keyed = {} if key is NO_KEY else {"key": key}
    return msgspec.json.encode({"data": data, "meta": meta, **keyed})


@pytest.mark.parametrize("stated_key", [NO_KEY, None])
@pytest.mark.parametrize("key", [("id",), ("id", "region")])
def test_it_is_refused_among_many_and_alone(key, stated_key):
    rules = TableRules({"shop.t": TableRule(key, DECLARED)})
    bare, whole = dict.fromkeys(key, 7), {**dict.fromkeys(key, 7), "amount": "2"}
    if "region" in bare:
        bare["region"] = whole["region"] = "eu"
    lines = [
        update(number, bare if number % 3 == 0 else whole, stated_key) for number in range(1, 200)
    ]
    found = one_by_one(Outcome("oms-shareplex", "oms-dataworks", rules), lines)
    assert found["refused"] == [
        (number - 1, 0, "shape", SENTENCE) for number in range(1, 200) if number % 3 == 0
    ]
    assert len(found["values"]) == sum(number % 3 != 0 for number in range(1, 200))
    agree("oms-shareplex", "oms-dataworks", lines, rules)


def test_part_of_a_key_with_a_row_before_is_a_change_of_the_key():
    rules = TableRules({"shop.t": TableRule(("id",), DECLARED)})
    before = {"id": 7, "region": "eu", "amount": "2"}
    lines = [update(number, {"id": 7 + number}, before) for number in range(1, 100)]
    found = one_by_one(Outcome("oms-shareplex", "canal", rules), lines)
    assert found["refused"] == []
    assert len(found["values"]) == 99
