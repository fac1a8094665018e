"""What the page of a row shows: every change of it, and what became of each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.errors import ConfigurationError
from waybill.order import read_order_key
from waybill.overview.row_changes import deleted_sentence, key_test, qualified_name
from waybill.overview.row_states import RowHistory, came_later, row_history
from waybill.overview.schema import PUBLISHED
from waybill_airflow.web.lake_reading import read_lake

if TYPE_CHECKING:
    from waybill.lake.history import History
    from waybill.overview.schema import Index
    from waybill.spec.migration import Migration

MOST = 200
"""So many changes a page shows, the newest."""

COLUMNS = 300
"""So many columns of a change a page shows."""


class Value(NamedTuple):
    """A column of a change.

    Attributes:
        column: its name.
        before: the value before, `null` for null; None where the change does not tell.
        after: the value after, likewise.
        changed: whether the two are stated and differ.
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
        later: whether it came after the batch as of which the row is shown.
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
    later: bool


class StateView(NamedTuple):
    """The row in the merged table.

    Attributes:
        table: its table; empty where it is not stated which is meant.
        rows: what the table has of the key: columns and values, None for a row that is deleted.
        batches: that made each of them what it is.
        problem: why it cannot be determined; empty where it can.
        command: prints the whole table so.
        as_of_now: see `RowHistory`.
    """

    table: str
    rows: list[list[tuple[str, str]] | None]
    batches: list[str]
    problem: str
    command: str
    as_of_now: bool


class RowView(NamedTuple):
    """The page.

    Attributes:
        name: of the migration.
        table: that was asked for.
        key: that was asked for.
        tables: merged tables, to choose from.
        changes: in the order of the merge.
        more: whether there are older ones.
        deleted: what retention has deleted of them; empty if nothing.
        problem: why the key cannot be one; empty where it can.
        command: prints the same.
        as_of: the batch as of which the row is shown; empty for now.
        batches: to choose from, newest first.
        state: the row in the merged table; None where no key is asked for.
    """

    name: str
    table: str
    key: str
    tables: list[str]
    changes: list[ChangeView]
    more: bool
    deleted: str
    problem: str
    command: str
    as_of: str
    batches: list[str]
    state: StateView | None


def row_view(
    spec: Migration, table: str, key: str, as_of: str = "", index: Index | None = None
) -> RowView:
    """The page of a row.

    Args:
        spec: the migration.
        table: qualified name of the table.
        key: the value of its key, or a JSON object of its columns; empty for none yet.
        as_of: the batch as of which the row is meant; empty for now.
        index: what is known of the migration.

    Raises:
        WaybillError: the lake cannot be read.
    """
    problem, nothing = "", RowHistory([])
    tables = [] if index is None else [line.table for line in index.tables]
    batches = [] if index is None else [b.batch for b in index.batches if b.state == PUBLISHED]

    def found(lake: History) -> RowHistory:
        if not lake.exists(lake.log("changes")):
            return nothing
        return row_history(lake, spec, table or None, key, MOST, as_of)

    of = ["--table", table] if table else []
    command = spec.command("changes", "FILE", *of, "--key", key) if key else ""
    try:
        key_test(key)
    except ConfigurationError as error:
        problem = error.sentence
    history = read_lake(spec, found, command) if key and not problem else nothing
    return RowView(
        name=spec.name,
        table=table,
        key=key,
        tables=tables,
        changes=[_change(row, as_of) for row in history.changes],
        more=history.more,
        deleted="" if history.since is None else deleted_sentence(history.since),
        problem=problem,
        command=command,
        as_of=as_of,
        batches=batches,
        state=_state(spec, history, as_of) if history.changes else None,
    )


def _state(spec: Migration, history: RowHistory, as_of: str) -> StateView:
    moment = ["--as-of", as_of] if as_of else []
    return StateView(
        table=history.table,
        rows=[
            None
            if row.image is None
            else [(n, "null" if v is None else v) for n, v in list(row.image.items())[:COLUMNS]]
            for row in history.rows
        ],
        batches=[row.batch for row in history.rows],
        problem=history.problem,
        command=spec.command("table", "FILE", history.table, *moment) if history.table else "",
        as_of_now=history.as_of_now,
    )


def _change(row: dict[str, Any], as_of: str) -> ChangeView:
    later = bool(as_of) and came_later(row)
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
        outcome=f"came after batch {as_of}" if later else row.get("outcome") or "",
        values=values[:COLUMNS],
        more=max(0, len(values) - COLUMNS),
        later=later,
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
