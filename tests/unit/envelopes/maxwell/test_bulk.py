"""Messages of Maxwell that tell their key in other ways, read in bulk."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.test_bulk import agree
from waybill.envelopes.maxwell.settings import MaxwellReadSettings
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

RULES = TableRules({"shop.t": TableRule(("id",), {"id": parse_type("bigint")})})


@pytest.mark.parametrize("key", [None, {"id": 1}, [{"id": 1}], [[1]], []])
def test_a_key_without_values_by_their_places(key: Any) -> None:
    lines = []
    for number in range(300):
        document = {
            "database": "shop",
            "table": "t",
            "type": "insert",
            "ts": 1_700_000_000 + number,
        }
        document |= {"primary_key": key, "primary_key_columns": ["id"], "data": {"id": number}}
        lines.append(json.dumps(document, separators=(",", ":")).encode())
    agree("maxwell", "canal", lines, RULES, MaxwellReadSettings())
