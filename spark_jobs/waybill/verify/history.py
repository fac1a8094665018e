"""Beside each difference the history of the row, so that the cause is seen with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from waybill.overview.row_changes import changes_of_row

if TYPE_CHECKING:
    from waybill.lake import Lake
    from waybill.spec.migration import Migration
    from waybill.verify.results import TableResult

ROWS = 20
"""Differences of a table that are told with their history."""
CHANGES = 20
"""The most changes of a row, the newest."""

FIELDS = (
    *("batch", "topic", "partition", "offset", "index", "operation", "before", "after"),
    *("source_time", "outcome"),
)
"""What is told of a change; `waybill changes` tells more."""


def with_history(spec: Migration, lake: Lake, results: list[TableResult]) -> list[dict[str, Any]]:
    """What a verification found as plain data, the first differences with their history."""
    documents = []
    for result in results:
        plain = result.to_dict()
        for found in plain["differences"][:ROWS]:
            found["history"] = _history(spec, lake, result.table, found["key"])
        documents.append(plain)
    return documents


def _history(
    spec: Migration, lake: Lake, table: str, key: dict[str, str | None]
) -> list[dict[str, Any]]:
    by_time = spec.order.ambiguous == "source_time"
    rows = changes_of_row(lake, table, json.dumps(key, ensure_ascii=False), CHANGES, by_time).rows
    return [
        {
            **{name: row.get(name) for name in FIELDS},
            "source_time": None if row["source_time"] is None else row["source_time"].isoformat(),
        }
        for row in rows
    ]
