"""The walk through in the docs, step by step."""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.spark.test_mapping import published, rows_of
from waybill.jobs import run_migration
from waybill.lake import Lake
from waybill.spec.file import load_migration

PROJECT = Path(__file__).parents[2]
pytestmark = pytest.mark.spark


def test_the_walk_through(spark, tmp_path):
    page = (PROJECT / "docs/walk-through.md").read_text(encoding="utf-8")
    text, second = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    for folder in ("migrations", "samples/branches"):
        (tmp_path / folder).mkdir(parents=True)
    file = tmp_path / "migrations/branches.yaml"
    file.write_text(text, encoding="utf-8")
    bring("0001.jsonl", tmp_path)
    spec = load_migration(file)
    waybill = run_migration(spec, batch="b1", spark=spark)
    assert waybill.stage("convert").skipped == {"not selected": 2}
    assert set(Lake.open(spark, spec).merged_tables()) == {"shop.orders", "shop.customers"}
    assert orders(spark, spec) == {
        ("shop_1.orders_1", 1): "12.00",
        ("shop_1.orders_1", 2): "99.99",
        ("shop_2.orders_2", 1): "7.25",
        ("shop_2.orders_2", 2): "3.00",
    }
    (anna, _) = rows_of(spark, spec, "shop.customers")
    assert anna["email"] == hashlib.sha256(b"anna@example.org").hexdigest()
    first = published(tmp_path / "out/canal", "b1")
    assert {(m["database"], m["table"]) for m in first} == {
        ("shop", "orders"),
        ("shop", "customers"),
    }

    bring("0002.jsonl", tmp_path)
    file.write_text(text.replace("lake:", f"{second}lake:", 1), encoding="utf-8")
    spec = load_migration(file)
    run_migration(spec, batch="b2", spark=spark)
    assert orders(spark, spec) == {
        ("shop_1.orders_1", 1): "12.00",
        ("shop_1.orders_1", 2): "99.99",
        ("shop_2.orders_2", 3): "8.00",
    }
    assert (tmp_path / "out/canal/b2").is_dir()
    assert not (tmp_path / "out/maxwell/b1").exists()
    lines = [
        (m["type"], m["table"], m["data"]["id"], m["data"].get("branch"))
        for m in published(tmp_path / "out/maxwell", "b2")
    ]
    assert lines == [
        ("delete", "orders", 2, "shop_2.orders_2"),
        ("update", "customers", 2, None),
        ("delete", "orders", 1, "shop_2.orders_2"),
        ("delete", "orders", 2, "shop_2.orders_2"),
        ("insert", "orders", 3, "shop_2.orders_2"),
    ]
    for folder in (tmp_path / "out").iterdir():
        for path in folder.rglob("part-*"):
            assert b"@example.org" not in path.read_bytes()


def bring(name: str, folder: Path) -> None:
    shutil.copy(PROJECT / "samples/branches" / name, folder / "samples/branches")


def orders(spark: Any, spec: Any) -> dict[tuple[str, int], str]:
    return {(r["branch"], r["id"]): str(r["total"]) for r in rows_of(spark, spec, "shop.orders")}
