"""Beside each difference the history of the row, so that the cause is seen with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from waybill.overview.row_changes import changes_of_rows, deleted_sentence
from waybill.verify.results import values_shown

if TYPE_CHECKING:
    from waybill.lake import Lake
    from waybill.overview.row_changes import RowChanges
    from waybill.spec.migration import Migration
    from waybill.verify.results import TableResult

ROWS = 1_000
"""Differences of a table that are shown with their history, as many as the lake keeps. All of them
are found in one look at the changes, and stand in memory together."""
CHANGES = 20
"""The most changes of a row, the newest."""

FIELDS = (
    *("batch", "topic", "partition", "offset", "index", "operation", "before", "after"),
    *("source_time", "outcome"),
)
"""What is shown of a change; `waybill changes` shows more."""


def with_history(spec: Migration, lake: Lake, results: list[TableResult]) -> list[dict[str, Any]]:
    """What a verification found as plain data, the differences with their history.

    Where a table has more differences than have one, its sentence says how many and what to do.
    """
    by_time = spec.order.ambiguous == "source_time"
    documents = []
    for result in results:
        plain = result.to_dict()
        found = plain["differences"]
        keys = [difference.key for difference in result.differences[:ROWS]]
        histories = changes_of_rows(lake, result.table, keys, CHANGES, by_time)
        for difference, history in zip(found, histories, strict=False):
            difference["history"] = _plain(history, result.shown)
        if len(found) > ROWS:
            look = spec.command("changes", "FILE", "--table", result.table, "--key", "KEY")
            more = f"{len(found) - ROWS} differences are without their history: `{look}` shows it"
            plain["sentence"] = "; ".join(filter(None, (plain["sentence"], more)))
        if (since := next((history.since for history in histories), None)) is not None:
            said = (plain["sentence"], deleted_sentence(since))
            plain["sentence"] = "; ".join(filter(None, said))
        documents.append(plain)
    return documents


def _plain(history: RowChanges, shown: frozenset[str] | None) -> list[dict[str, Any]]:
    return [
        {
            **{name: row.get(name) for name in FIELDS},
            "before": _image_shown(row.get("before"), shown),
            "after": _image_shown(row.get("after"), shown),
            "source_time": None if row["source_time"] is None else row["source_time"].isoformat(),
        }
        for row in history.rows
    ]


def _image_shown(image: str | None, shown: frozenset[str] | None) -> str | None:
    """An image of a change, which may be from before columns were masked."""
    if image is None or shown is None:
        return image
    return json.dumps(values_shown(json.loads(image), shown), ensure_ascii=False)
