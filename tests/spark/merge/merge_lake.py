"""Changes put into a lake as convert leaves them, and a gate that lets everything pass."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec
import pyarrow as pa

from waybill.lake.row_sizes import longest_row
from waybill.lake.snapshot_ranges import LONGEST
from waybill.lake_columns import CHANGES
from waybill.merge.short_images import with_full_images
from waybill.merge.stage import run_merge
from waybill.records import Column, TableSchema, intern_schema
from waybill.stage_context import Options, StageContext
from waybill.types import parse_type
from waybill.validate.ranges import check_ranges
from waybill.validate.result import sentence_of
from waybill.validate.suites import load_suite
from waybill.validate.table_profiles import staged_tables, table_profiles

if TYPE_CHECKING:
    from collections.abc import Iterable

    from waybill.lake import Lake
    from waybill.merge.rules import Change


def schema(name: str, columns: dict[str, str], key: tuple[str, ...] | None) -> TableSchema:
    """A source table by its qualified name, with logical types."""
    database, table = name.split(".", 1)
    found = tuple(Column(column, parse_type(text)) for column, text in columns.items())
    return intern_schema(database, None, table, found, key, "mysql")


def image_text(image: dict[str, str | None] | None) -> str | None:
    return None if image is None else msgspec.json.encode(dict(image)).decode()


def change_row(change: Change, table: TableSchema, **more: Any) -> dict[str, Any]:
    """A row of `changes`."""
    topic, partition, offset, index = change.place
    row = dict.fromkeys(CHANGES.names)
    row.update(
        topic=topic,
        partition=partition,
        offset=offset,
        index=index,
        operation=change.operation,
        database=table.database,
        schema=table.schema,
        table=table.table,
        key=change.key or None,
        old_key=change.old_key,
        transaction=change.transaction,
        before=image_text(change.before),
        after=image_text(change.image),
        order_key=change.order,
        schema_id=table.id,
        outcome="ok",
    )
    if change.operation == "column":
        ((name, text),) = (change.image or {}).items()
        row["operation"], row["after"] = "ddl", None
        row["ddl_text"] = (
            f"ALTER TABLE {table.qualified_name} ADD COLUMN {name} "
            f"VARCHAR(40) NOT NULL DEFAULT '{text}'"
        )
    if change.operation == "drop":
        row["operation"], row["after"] = "ddl", None
        (name,) = change.image or {}
        row["ddl_text"] = f"ALTER TABLE {table.qualified_name} DROP COLUMN {name}"
    if change.operation == "rename":
        row["operation"], row["after"] = "ddl", None
        told = ", ".join(f"RENAME COLUMN {old} TO {new}" for old, new in change.image.items())
        row["ddl_text"] = f"ALTER TABLE {table.qualified_name} {told}"
    return {**row, **more}


def schema_row(table: TableSchema) -> dict[str, Any]:
    row = dict.fromkeys(CHANGES.names)
    row.update(
        topic="t",
        partition=0,
        offset=0,
        index=0,
        operation="other",
        schema_id=table.id,
        extra=table.to_json().decode(),
        outcome="schema",
    )
    return row


def put(
    lake: Lake,
    batch: str,
    rows: list[dict[str, Any]],
    schemas: list[TableSchema],
    details: dict[str, Any] | None = None,
) -> None:
    """Commit rows to `changes`, with the details of a report.

    Most batches of a test are small ones, whose rows are read and merged without tasks; every
    fourth is as one of unknown size is, for which Spark starts tasks.
    """
    table = lake.ensure(lake.log("changes"), CHANGES, ("outcome",))
    branch = lake.branch(table, "convert", batch)
    found = [{**row, "batch": row["batch"] or batch} for row in [*map(schema_row, schemas), *rows]]
    details = {**(details or {})}
    written = pa.RecordBatch.from_pylist(found, CHANGES)
    if crc32(f"{os.environ['PYTEST_CURRENT_TEST']} {batch}".encode()) % 4:
        details.setdefault(LONGEST, {"changes": longest_row(written)})
    branch.append_rows([tuple(row.values()) for row in written.to_pylist()], CHANGES)
    branch.commit({}, {"details": details}, batch, "convert")
    branch.fast_forward()


def merge(lake: Lake, spec, batch: str, **options: Any):
    """Run the stage."""
    context = StageContext(lake.spark, lake, spec, batch, Options(**options), lambda *words: None)
    return run_merge(spec, context)


def let_pass(lake: Lake, batch: str) -> None:
    """What the gate does when it has nothing against a batch: tables first, `merges` last."""
    (record,) = lake.waiting(lake.log("merges"), "merge", batch)
    assert record.commit is not None
    for table, name in record.commit.cursor["branches"].items():
        lake.reopen(table, name).fast_forward()
    lake.reopen(lake.log("merges"), record.name).fast_forward()


def refused_by_gate(lake: Lake, batch: str) -> list[str]:
    """What the product's suite for tables has against the tables that a merge has staged."""
    (record,) = lake.waiting(lake.log("merges"), "merge", batch)
    assert record.commit is not None
    staged = staged_tables(lake, record.commit.cursor["branches"], batch)
    rows = table_profiles(lake.spark, staged, batch)
    checks = check_ranges(load_suite("tables"), rows, {}) if rows else []
    assert checks is not None
    return [sentence_of(c) for c in checks if c.severity == "critical" and not c.success]


def rows_of(lake: Lake, qualified: str, dead: bool = False) -> dict[str, tuple[Any, ...]]:
    """Order and image of the rows that people see, by key; with `dead` of tombstones (null) too."""
    table = lake.merged_tables().get(qualified)
    if table is None:
        return {}
    every = with_full_images(lake, table, lake.read(table, lake.head(table) if dead else None))
    frame = every.select("_waybill_key", "_waybill_order", "_waybill_image", "_waybill_deleted")
    rows = frame.collect()
    assert dead or not any(row[2] is None or row[3] for row in rows), "main shows a tombstone"
    return {
        row[0]: (row[1], None if row[2] is None else msgspec.json.decode(row[2])) for row in rows
    }


def digest(row: Iterable[tuple[str, str]]) -> str:
    """What names a row of a table without key, in the key that the lake gives it."""
    text = json.dumps(dict(sorted(row)), ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
