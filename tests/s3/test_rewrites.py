"""A column that gets another scale: its table is rewritten on other catalogs and stores, too."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.s3.test_catalogs import migration, rest
from waybill.jobs import run_migration
from waybill.lake import Lake
from waybill.spec.migration import Migration

__all__ = ["rest"]  # a fixture of the catalogs' tests, here too

Bring = Callable[[str, bytes], object]
REWRITE = [{"tables": "shop.*", "retype": "rewrite"}]
PRICES = {"9": "0.10", "10": "99999999.99"}


def order(kind: str, price: str, prices: dict[str, str]) -> bytes:
    """Canal's message of orders, whose column `price` has this type."""
    return json.dumps(
        {
            "database": "shop",
            "table": "orders",
            "type": kind,
            "isDdl": False,
            "sql": "",
            "es": 1700000000000,
            "ts": 1700000000123,
            "id": 1,
            "pkNames": ["id"],
            "mysqlType": {"id": "bigint", "price": price},
            "data": [{"id": number, "price": text} for number, text in prices.items()],
            "old": None,
            "sqlType": {"id": -5, "price": 3},
        }
    ).encode()


def orders(lake: Lake, snapshot: int | None = None) -> dict[int, Any]:
    rows = lake.read(lake.merged_tables()["shop.orders"], snapshot).where("NOT _waybill_deleted")
    return {row.id: row.price for row in rows.collect()}


def rewritten(spark: Any, spec: Migration, bring: Bring) -> None:
    """Two batches, of which the second rewrites what the first one wrote."""
    told = {**spec.model_dump(exclude_unset=True), "schema_changes": REWRITE}
    spec = Migration.model_validate(told)
    bring("a.jsonl", order("INSERT", "decimal(10,2)", PRICES))
    run_migration(spec, batch="b1", spark=spark)
    lake = Lake.open(spark, spec)
    table = lake.merged_tables()["shop.orders"]
    first = lake.head(table)
    bring("b.jsonl", order("INSERT", "decimal(15,4)", {"11": "12345678901.2345"}))
    report = run_migration(spec, batch="b2", spark=spark).stage("merge")
    (event,) = report.details["shop.orders"]["column changes"]
    assert (event["change"], event["after"]) == ("retype", "decimal(15,4)")
    lake = Lake.open(spark, spec)
    types = dict(lake.spark.read.table(table).dtypes)
    assert types["price"] == "decimal(15,4)"
    assert not [name for name in types if name.startswith("_waybill_next")]
    assert orders(lake) == {
        9: Decimal("0.1000"),
        10: Decimal("99999999.9900"),
        11: Decimal("12345678901.2345"),
    }
    before = {number: str(price) for number, price in orders(lake, first).items()}
    assert before == {9: "0.10", 10: "99999999.99"}
    assert all(stage.repeated for stage in run_migration(spec, batch="b2", spark=spark).stages)


def test_a_rewrite_on_a_rest_catalog(spark: Any, rest: str, tmp_path: Path) -> None:
    spec = migration(tmp_path, rest, "rewritten")
    rewritten(spark, spec, lambda name, text: (tmp_path / "in" / name).write_bytes(text))


def test_a_rewrite_in_object_storage(spark: Any, small: Any, bucket: str, admin: Any) -> None:
    def bring(name: str, text: bytes) -> None:
        admin.put_object(Bucket=bucket, Key=f"in/{name}", Body=text)

    rewritten(spark, small(), bring)
