"""A lake as stages leave it, made by PyIceberg: for commands that look into one without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


def catalog_in(folder: Path) -> Catalog:
    """The embedded catalog of a warehouse."""
    from pyiceberg.catalog.sql import SqlCatalog

    folder.mkdir(parents=True, exist_ok=True)
    return SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))


def commit(
    catalog: Catalog,
    table: str,
    schema: pa.Schema,
    rows: list[dict[str, Any]],
    stamp: tuple[str, str, dict[str, Any], dict[str, Any]],
) -> None:
    """Append rows with the stamp of a stage: batch, stage, cursor and report."""
    catalog.create_namespace_if_not_exists(table.split(".")[0])
    there = catalog.create_table_if_not_exists(table, schema)
    batch, stage, cursor, report = stamp
    properties = {
        "waybill.batch": batch,
        "waybill.stage": stage,
        "waybill.cursor": json.dumps(cursor),
        "waybill.report": json.dumps(report),
    }
    filled = [{**dict.fromkeys(schema.names), **row} for row in rows]
    there.append(pa.Table.from_pylist(filled, schema), snapshot_properties=properties)
