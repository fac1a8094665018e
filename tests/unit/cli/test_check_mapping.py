"""What `waybill check` says of a mapping."""

from __future__ import annotations

from tests.unit.mapping.test_shards import MESSAGE, event, rules, table
from waybill.cli.check_mapping import mapped
from waybill.cli.findings import OK
from waybill.records import Change
from waybill.spec.mapping import Selection, TableMapping

JOIN = {
    "tables": "shop_*.orders_*",
    "rename": {"database": "shop", "table": "orders"},
    "join": {"column": "shard"},
}


def test_joined_tables_are_reported_one_by_one():
    findings = []
    changes = []
    for schema in (table(), table("shop_2", "orders_7")):
        changes.append(Change("insert", schema, MESSAGE, after=schema.Image("1", "x")))
    changes.append(event("truncate", None))
    given = TableMapping.model_validate(JOIN)
    found = mapped("migration", Selection(), [given], rules(), changes)
    try:
        while True:
            findings.append(next(found))
    except StopIteration as end:
        made = end.value
    (good,) = [one for one in findings if one.verdict == OK]
    expected = "shop_1.orders_1 becomes shop.orders; shop_2.orders_7 becomes shop.orders"
    assert good.text == expected
    assert [change.outcome for change in made] == ["ok", "ok", "skipped"]
    assert made[2].reason_kind == "its rows of the joined table are deleted"
