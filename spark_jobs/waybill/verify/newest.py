"""The newest verification of every table, for whoever only looks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    from waybill.lake.history import History

NAME = "verifications"
"""Short name of the table that keeps what verifications found."""

MASKED = "(masked)"
"""Stands for a value that `map` masks; null stays null."""

Outcome = Literal["verified", "skipped", "not verified"]
"""What came of a table: it was compared; it is not compared in this way; or it could not be."""
VERIFIED: Outcome = "verified"
SKIPPED: Outcome = "skipped"
FAILED: Outcome = "not verified"


def shown_value(text: str | None, is_shown: bool) -> str | None:
    """A value as people see it: the lake may have one from before it was masked."""
    return text if text is None or is_shown else MASKED


def label_of(table: str, shard: str | None) -> str:
    """What a compared table is called.

    Args:
        table: its name in the lake.
        shard: the source table, where it is one of several that become the same table.
    """
    return table if shard is None else f"{table} of {shard}"


class VerifiedLine(Protocol):
    """What a verification says of a table in one of its lines."""

    @property
    def label(self) -> str:
        """See `label_of`."""

    @property
    def method(self) -> str:
        """What was compared."""


OneLine = TypeVar("OneLine", bound=VerifiedLine)


def distinct(lines: Sequence[OneLine], rows: Callable[[OneLine], int]) -> list[OneLine]:
    """Without the lines on numbers of rows that count what other lines count by the row.

    A row that one side lacks is one that differs, and shows in the number of rows as well.

    Args:
        lines: of one or more tables.
        rows: of how many rows a line tells.
    """
    known = {line.label for line in lines if line.method != "counts" and rows(line)}
    return [line for line in lines if line.method != "counts" or line.label not in known]


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
