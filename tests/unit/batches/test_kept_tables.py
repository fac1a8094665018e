"""Which rows of `changes` a reload keeps."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from waybill.batches.kept_tables import KeptTables, RowKeys
from waybill.lake_columns import CHANGES


def row(key: str | None, old_key: str | None = None, **more: Any) -> dict[str, Any]:
    def text(value: str | None) -> str | None:
        return None if value is None else json.dumps({"id": value})

    given = {"database": "shop", "table": "orders", "outcome": "ok", "operation": "update"}
    return {
        **dict.fromkeys(CHANGES.names),
        **given,
        "key": text(key),
        "old_key": text(old_key),
        **more,
    }


def kept(rows: list[dict[str, Any]], keys: RowKeys | None) -> tuple[list[int], int]:
    """The places of the rows that are kept, and how many count."""
    numbered = [{**one, "offset": place} for place, one in enumerate(rows)]
    tables = KeptTables(("shop.orders",), keys)
    batches = tables.of([pa.RecordBatch.from_pylist(numbered, schema=CHANGES)])
    return [place for batch in batches for place in batch.column("offset").to_pylist()], tables.rows


ROWS = [
    row("1"),
    row("2"),
    row("3", "1"),
    row(None, operation="truncate"),
    row(None, outcome="refused"),
    row(None, outcome="schema"),
    row("1", table="people"),
    row("1", outcome="skipped"),
]


def test_all_rows_of_the_tables():
    assert kept(ROWS, None) == ([0, 1, 2, 3, 4, 5], 5)


def test_only_changes_of_some_rows_with_those_that_moved_to_or_from_them():
    own = {"shop.orders": frozenset({frozenset({("id", "1")})})}
    assert kept(ROWS, own) == ([0, 2, 5], 2)
    moved = {"shop.orders": frozenset({frozenset({("id", "3")})})}
    assert kept(ROWS, moved) == ([2, 5], 1)
    assert kept(ROWS, {"shop.people": frozenset({frozenset({("id", "1")})})}) == ([5], 0)
