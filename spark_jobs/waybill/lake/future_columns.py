"""Columns that get another name, or the place of others, when their branch becomes visible.

Iceberg has one schema for all branches of a table. So a branch whose column gets another type
writes a column of its own beside it, which main's rows have as nulls, and in the step that makes
main the branch the one takes the name and the place of the other: no reader of main sees a row
without its value at any moment, and a branch that is dropped leaves main as it was.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from waybill.lake.branches import CLEARED
from waybill.lake.names import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from waybill.lake.metadata import Metadata, Snapshot

BECOMES = "becomes"
"""Key of a stamp's cursor: the names that columns get when the branch becomes visible."""

GONE = ""
"""What a column becomes that goes where no other one takes its place."""

_PREFIX = "_waybill_next_"


def future_name(column: str) -> str:
    """The name that the future column has beside the one whose place it takes."""
    return f"{_PREFIX}{column}"


def is_future(column: str) -> bool:
    """Whether a column waits for its branch to become visible."""
    return column.startswith(_PREFIX)


def becomes_of(snapshot: Snapshot, cursor: str) -> dict[str, str]:
    """What the columns of a stamped branch become.

    Args:
        snapshot: its newest one.
        cursor: the key of the summary under which stamps have their cursor.
    """
    found = json.loads(snapshot.summary.get(cursor, "{}")).get(BECOMES, {})
    return {str(column): str(name) for column, name in found.items()}


def becomes_at(metadata: Metadata, snapshot: int, cursor: str) -> dict[str, str]:
    """What the columns of any snapshot become, or became: of most nothing.

    A snapshot keeps the names that it was written with, also once it is visible; so does the one
    that is cleared of the rows kept aside.

    Args:
        metadata: of the table.
        snapshot: which one.
        cursor: see `becomes_of`.
    """
    found = metadata.snapshots.get(snapshot)
    if found is not None and CLEARED in found.summary and found.parent is not None:
        found = metadata.snapshots.get(found.parent)
    return {} if found is None else becomes_of(found, cursor)


def shown_names(names: Sequence[str], becomes: Mapping[str, str]) -> dict[str, str]:
    """The columns that a branch has once it is visible, in their order, by the names of before.

    A column that gets the name of one that goes takes its place; any other one keeps its own.

    Args:
        names: its columns.
        becomes: the names that some of them get; `GONE` for those that go.
    """
    by_name = {new: name for name, new in becomes.items() if new != GONE}
    found = {}
    for name in names:
        new = becomes.get(name)
        if new is None:
            came = by_name.get(name, name)
            found[came] = name
        elif new != GONE and (new not in names or new in becomes):
            found[name] = new
    return found


def left_behind(names: Sequence[str], becomes: Mapping[str, str]) -> set[str]:
    """The columns of a branch that go when it becomes visible."""
    return {*names} - shown_names(names, becomes).keys()


def as_shown(rows: DataFrame, becomes: Mapping[str, str]) -> DataFrame:
    """Rows of a branch with the columns that they have once it is visible."""
    if not becomes:
        return rows
    shown = shown_names(rows.columns, becomes)
    return rows.select(*(rows[quoted(name)].alias(new) for name, new in shown.items()))


def schema_shown(parser: Any, schema: Any, becomes: Mapping[str, str]) -> Any:
    """Iceberg's schema once columns have the names and places that they get; each keeps its id.

    Args:
        parser: Iceberg's `SchemaParser`.
        schema: the schema before.
        becomes: the names that columns get.
    """
    told = json.loads(str(parser.toJson(schema)))
    fields = {field["name"]: field for field in told["fields"]}
    shown = shown_names([*fields], becomes)
    told["fields"] = [{**fields[name], "name": new} for name, new in shown.items()]
    return parser.fromJson(json.dumps(told))
