"""What the page of a row shows: every change of it, and what became of each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.errors import ConfigurationError
from waybill.order import read_order_key
from waybill.overview.row_changes import changes_of_row, key_test, qualified_name
from waybill_airflow.web.lake_reading import read_lake

if TYPE_CHECKING:
    from waybill.lake.history import History
    from waybill.spec.migration import Migration

MOST = 200
"""So many changes a page shows."""

COLUMNS = 300
"""So many columns of a change a page shows."""


class Value(NamedTuple):
    """A column of a change.

    Attributes:
        column: its name.
        before: the value before, `null` for null; None where the change does not tell.
        after: the value after, likewise.
        changed: whether the two are told and differ.
    """

    column: str
    before: str | None
    after: str | None
    changed: bool


class ChangeView(NamedTuple):
    """A change.

    Attributes:
        operation: what it did.
        table: whose row it is.
        key: of the row after it.
        old_key: of the row before it, where that is another one.
        sequence: sequence id of the source; empty where it has none.
        time: source time, ISO 8601; empty where it is not known.
        place: topic, partition, offset and row of its message.
        batch: that brought it.
        outcome: what the merge made of it, and why.
        values: its columns.
        more: how many columns there are beside these.
    """

    operation: str
    table: str
    key: str
    old_key: str
    sequence: str
    time: str
    place: str
    batch: str
    outcome: str
    values: list[Value]
    more: int


class RowView(NamedTuple):
    """The page.

    Attributes:
        name: of the migration.
        table: that was asked for.
        key: that was asked for.
        tables: merged tables, to choose from.
        changes: in the order of the merge.
        more: whether there are others.
        problem: why the key cannot be one; empty where it can.
        command: prints the same.
    """

    name: str
    table: str
    key: str
    tables: list[str]
    changes: list[ChangeView]
    more: bool
    problem: str
    command: str


def row_view(spec: Migration, table: str, key: str, tables: list[str]) -> RowView:
    """The page of a row.

    Args:
        spec: the migration.
        table: qualified name of the table.
        key: the value of its key, or a JSON object of its columns; empty for none yet.
        tables: merged tables.

    Raises:
        WaybillError: the lake cannot be read.
    """
    by_time = spec.order.ambiguous == "source_time"
    problem = ""

    def found(lake: History) -> list[dict[str, Any]]:
        if not lake.exists(lake.log("changes")):
            return []
        return changes_of_row(lake, table or None, key, MOST + 1, by_time)

    of = ["--table", table] if table else []
    command = spec.command("changes", "FILE", *of, "--key", key) if key else ""
    try:
        key_test(key)
    except ConfigurationError as error:
        problem = error.sentence
    rows = read_lake(spec, found, command) if key and not problem else []
    changes = [_change(row) for row in rows[:MOST]]
    return RowView(spec.name, table, key, tables, changes, len(rows) > MOST, problem, command)


def _change(row: dict[str, Any]) -> ChangeView:
    sequence, _, _ = read_order_key(row["order_key"])
    values = _values(_image(row["before"]), _image(row["after"]))
    return ChangeView(
        operation=row["operation"],
        table=qualified_name(row),
        key=row["key"] or "",
        old_key=row["old_key"] or "",
        sequence=":".join(str(part) for part in sequence or ()),
        time="" if row["source_time"] is None else row["source_time"].isoformat(),
        place="{topic}/{partition}/{offset}/{index}".format(**row),
        batch=row["batch"],
        outcome=row.get("outcome") or "",
        values=values[:COLUMNS],
        more=max(0, len(values) - COLUMNS),
    )


def _image(text: str | None) -> dict[str, str] | None:
    if text is None:
        return None
    return {
        name: "null" if value is None else str(value) for name, value in json.loads(text).items()
    }


def _values(before: dict[str, str] | None, after: dict[str, str] | None) -> list[Value]:
    was, now = before or {}, after or {}
    return [
        Value(
            name,
            was.get(name),
            now.get(name),
            name in was and name in now and was[name] != now[name],
        )
        for name in dict.fromkeys([*now, *was])
    ]
