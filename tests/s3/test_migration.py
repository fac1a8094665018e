"""Whole migrations: source, lake and targets in object storage, the catalog in PostgreSQL."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq

from tests.s3.conftest import PROJECT, shop_at
from waybill.file_store import open_store
from waybill.jobs import read_table, run_migration

TABLES = ("shop.customers", "shop.orders")


def published(spec, batch: str) -> dict[str, list]:
    """The messages of a batch by target, in the order of its parts."""
    found = {}
    for target in spec.publish:
        store = open_store(f"{target.files.path}/{batch}")
        manifest = json.loads(store.read("manifest.json"))
        messages: list = []
        for part in manifest["parts"]:
            content = store.read(part["file"])
            if target.files.layout == "parquet":
                messages += pq.read_table(io.BytesIO(content)).to_pylist()
            else:
                messages += content.splitlines()
        assert len(messages) == manifest["messages"]
        assert store.names() == sorted(["manifest.json", *(p["file"] for p in manifest["parts"])])
        found[target.label] = messages
    return found


def tables(spec, spark) -> dict[str, list]:
    return {table: list(read_table(spec, table, spark=spark)) for table in TABLES}


def counts(waybill) -> list:
    return [(r.stage, r.rows_in, r.rows_out, r.refused, r.skipped) for r in waybill.stages]


def test_it_is_what_a_local_disk_gives(spark, shop, tmp_path: Path) -> None:
    shutil.copytree(PROJECT / "samples" / "shop", tmp_path / "in" / "shop")
    local = shop_at(str(tmp_path), {"warehouse": str(tmp_path / "lake")})
    here = run_migration(local, batch="b1", spark=spark)
    there = run_migration(shop, batch="b1", spark=spark)
    assert counts(there) == counts(here)
    assert tables(shop, spark) == tables(local, spark)
    assert published(shop, "b1") == published(local, "b1")
    assert all(published(shop, "b1").values())
