"""The newest verification of every table, for whoever only looks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from waybill.lake.history import History

NAME = "verifications"
"""Short name of the table that keeps what verifications found."""

Outcome = Literal["verified", "skipped", "not verified"]
"""What came of a table: it was compared; it is not compared in this way; or it could not be."""
VERIFIED: Outcome = "verified"
SKIPPED: Outcome = "skipped"
FAILED: Outcome = "not verified"


def label_of(table: str, shard: str | None) -> str:
    """What a compared table is called.

    Args:
        table: its name in the lake.
        shard: the source table, where it is one of several that become the same table.
    """
    return table if shard is None else f"{table} of {shard}"


def last_results(lake: History) -> list[dict[str, Any]]:
    """The figures of the newest verification of every table.

    Where it compared some rows and the number of all, there are two of the table.
    """
    name = lake.log(NAME)
    if not lake.exists(name):
        return []
    newest: dict[str, list[dict[str, Any]]] = {}
    kept = lake.scan(name, ["verification", "time", "table", "body"], {"kind": ["table"]})
    for row in sorted(kept, key=lambda row: row["time"]):
        found = newest.setdefault(row["table"], [])
        if found and found[-1]["verification"] != row["verification"]:
            found.clear()
        found.append(row)
    return [
        {
            "verification": row["verification"],
            "time": row["time"].isoformat(),
            **json.loads(row["body"]),
        }
        for _, rows in sorted(newest.items())
        for row in rows
    ]
