"""Properties of the lake's tables, as Iceberg keeps them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime

from waybill.lake.data_files import ROW_GROUP_BYTES

QUALIFIED = "waybill.table"
"""Table property: the source table's name."""

KEPT_SINCE = "waybill.kept-since"
"""Table property: milliseconds since 1970; of batches that ended before, messages were deleted."""

CUT_TABLES = "waybill.cut-tables"
"""Property of `changes`: JSON object of the source tables of whose rows changes were deleted, each
with the highest order of a change that hid such ones."""

TABLE_PROPERTIES = {
    "format-version": "2",
    # Tasks write what they have; without these two every write would be shuffled or sorted.
    "write.distribution-mode": "none",
    "write.spark.fanout.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "write.metadata.compression-codec": "gzip",
    "write.merge.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.delete.mode": "merge-on-read",
}
"""Iceberg properties of every table."""

LOG_PROPERTIES = {"write.parquet.row-group-size-bytes": str(ROW_GROUP_BYTES)}
"""Beside these for tables of messages, where Spark writes them."""


def cut_tables(properties: Mapping[str, str]) -> dict[str, str]:
    """What `CUT_TABLES` says, by the properties of `changes`."""
    found: dict[str, str] = json.loads(properties.get(CUT_TABLES, "{}"))
    return found


def deletion_marks(
    properties: Mapping[str, str], oldest_ms: int, cut: Mapping[str, str]
) -> dict[str, str]:
    """What the properties of a table of messages have to say when some of these were deleted.

    They never say that it has more than an earlier deletion, or one at the same time, has left it.

    Args:
        properties: what they say already.
        oldest_ms: milliseconds since 1970; of batches that ended before messages were deleted.
        cut: what `CUT_TABLES` has to say of this deletion.
    """
    marks = {KEPT_SINCE: str(max(oldest_ms, int(properties.get(KEPT_SINCE, 0))))}
    if cut:
        before = cut_tables(properties)
        highest = {name: max(at, before.get(name, "")) for name, at in cut.items()}
        marks[CUT_TABLES] = json.dumps({**before, **highest}, sort_keys=True)
    return marks


def kept_since(properties: Mapping[str, str]) -> str | None:
    """Since when a table of messages is whole, as people read it; None where none was deleted."""
    millis = properties.get(KEPT_SINCE)
    if millis is None:
        return None
    return f"{datetime.fromtimestamp(int(millis) / 1000, UTC):%Y-%m-%d %H:%M} UTC"
