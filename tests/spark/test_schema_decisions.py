"""A decimal gets another scale: its table waits while others go on, then it is rewritten."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from waybill import jobs
from waybill.cli.status import merged_status
from waybill.lake import Lake
from waybill.merge.position import position_of
from waybill.merge.state import held_summary

pytestmark = pytest.mark.spark


def canal(number: int, table: str, type_: str, price: str, kind: str = "INSERT") -> bytes:
    row = {"id": str(number), "price": price}
    return json.dumps(
        {
            "database": "shop",
            "table": table,
            "type": kind,
            "isDdl": False,
            "es": 1700000000000 + number,
            "ts": 1700000000123,
            "id": number,
            "sql": "",
            "pkNames": ["id"],
            "mysqlType": {"id": "bigint", "price": type_},
            "sqlType": {"id": -5, "price": 3},
            "data": [row],
            "old": None,
        }
    ).encode()


def test_another_scale_from_messages_to_what_people_query(spark, migration, tmp_path: Path) -> None:
    def file(name: str, *messages: bytes) -> None:
        (tmp_path / "in" / name).write_bytes(b"\n".join(messages))

    target = [{"envelope": "canal", "files": {"path": str(tmp_path / "out")}}]
    spec = migration(publish=target)
    file(
        "a.jsonl",
        canal(1, "orders", "decimal(10,2)", "10.25"),
        canal(2, "orders", "decimal(10,2)", "99999999.99"),
        canal(3, "items", "decimal(10,2)", "1.00"),
    )
    jobs.run_migration(spec, spark=spark)
    file(
        "b.jsonl",
        canal(4, "orders", "decimal(15,4)", "0.1234"),
        canal(5, "items", "decimal(10,2)", "2.00"),
    )
    waybill = jobs.run_migration(spec, spark=spark)
    lake = Lake.open(spark, spec)
    held = held_summary(position_of(lake).state)["shop.orders"]
    assert (held["since"], held["changes"]) == (waybill.batch, 1)
    assert "set `retype: rewrite` for shop.orders" in held["why"]
    merged = next(report for report in waybill.stages if report.stage == "merge")
    assert merged.waiting == 1
    assert any("waits since batch" in text for text in merged.warnings)
    assert len(list(jobs.read_table(spec, "shop.items", spark=spark))) == 2
    assert len(list(jobs.read_table(spec, "shop.orders", spark=spark))) == 2
    decided = [{"tables": "shop.orders", "retype": "rewrite"}]
    spec = migration(publish=target, schema_changes=decided)
    waybill = jobs.run_migration(spec, spark=spark)
    assert [report.stage for report in waybill.stages] == list(jobs.STAGES)
    lake = Lake.open(spark, spec)
    assert held_summary(position_of(lake).state) == {}
    orders = lake.spark.read.table(lake.merged("shop.orders")).orderBy("id")
    assert dict(orders.dtypes)["price"] == "decimal(15,4)"
    assert [row.price for row in orders.collect()] == [
        Decimal("10.2500"),
        Decimal("99999999.9900"),
        Decimal("0.1234"),
    ]
    (change,) = merged_status(lake)["shop.orders"]["column changes"]
    assert (change["change"], change["batch"]) == ("retype", waybill.batch)
    assert list(jobs.read_table(spec, "shop.orders", spark=spark))[2]["price"] == "0.1234"
