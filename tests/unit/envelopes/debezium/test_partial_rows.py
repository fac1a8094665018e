"""A delete that tells a part of its row is read by the messages before it, at once or not."""

from __future__ import annotations

import random

import msgspec

from tests.contract.test_bulk_rows import archive_of, decoded
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

RULES = TableRules(
    {"shop.t": TableRule(("id",), {name: parse_type("int64") for name in ("id", "a", "b")})}
)


def event(op, before, after) -> bytes:
    source = {"connector": "mysql", "db": "shop", "table": "t"}
    return msgspec.json.encode({"before": before, "after": after, "source": source, "op": op})


class Never(random.Random):
    """No message is without a value, with a header or with a key."""

    def random(self) -> float:
        return 0.5


def test_blocks_that_were_read_at_once_tell_the_columns_of_a_table():
    lines = [event("c", None, {"id": n, "a": n, "b": n}) for n in range(12)]
    lines.append(event("d", {"id": 1, "a": 1}, None))
    batches = [archive_of(lines[:12], Never()), archive_of(lines[12:], Never())]
    changes, schemas, _, in_bulk = decoded("debezium-json", batches, RULES, bulk=True)
    assert in_bulk > 0
    assert changes == decoded("debezium-json", batches, RULES, bulk=False)[0]
    columns = msgspec.json.decode(schemas[changes[-1]["schema_id"]])["columns"]
    assert [column[0] for column in columns] == ["id", "a", "b"]
