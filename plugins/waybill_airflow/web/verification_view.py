"""What the page of a verification shows: what of the source database differs from the lake."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.verify.newest import (
    FAILED,
    MASKED,
    NAME,
    VERIFIED,
    distinct,
    label_of,
    last_results,
)
from waybill_airflow.web.lake_reading import read_lake

if TYPE_CHECKING:
    from waybill.lake.history import History
    from waybill.spec.migration import Migration
    from waybill.verify.newest import Outcome

MOST = 100
"""So many differences a page shows."""

COLUMNS = 50
"""So many columns of a difference a page shows."""

FACTS = (
    *("table", "method", "in_database", "in_lake", "differing", "undecided", "sentence"),
    "read_at",
)


class TableView(NamedTuple):
    """A table as it was verified last.

    Attributes:
        name: its name in the lake, with that of the source table where several become it.
        table: its name in the lake.
        method: what was compared.
        in_database: rows that were read or counted there.
        in_lake: rows of the lake.
        differing: how many differ.
        undecided: how many may be on their way.
        sentence: what else is to be known.
        read_at: when the database was read, ISO 8601.
        position: of the database's log then; empty where it is not known.
        outcome: whether it was verified; `sentence` says why not.
        by_key: whether rows that differ can be rebuilt individually.
    """

    name: str
    table: str
    method: str
    in_database: int
    in_lake: int
    differing: int
    undecided: int
    sentence: str
    read_at: str
    position: str
    outcome: Outcome
    by_key: bool

    @property
    def label(self) -> str:
        """See `waybill.verify.newest.VerifiedLine`."""
        return self.name


class DifferenceView(NamedTuple):
    """A row that differs.

    Attributes:
        table: its table in the lake.
        key: its key as a JSON object, for the page of the row.
        what: how it differs.
        columns: each column that differs, with the database's text and the lake's, `null` for null.
        more: how many columns there are beside these.
        is_masked: whether the key has masked values, so that no page of a row is found by it.
    """

    table: str
    key: str
    what: str
    columns: list[tuple[str, str, str]]
    more: int
    is_masked: bool


class VerificationView(NamedTuple):
    """The page.

    Attributes:
        name: of the migration.
        is_asked: whether the migration names a database to compare with.
        tables: those that were verified.
        differences: the first of them.
        more: how many others are kept.
        command: verifies again.
        repair: rebuilds the rows that differ, of tables where that can be done individually; empty
            where none is known.
        state: all of it in a sentence.
        is_bad: whether anything differs, or a table could not be verified.
    """

    name: str
    is_asked: bool
    tables: list[TableView]
    differences: list[DifferenceView]
    more: int
    command: str
    repair: str
    state: str
    is_bad: bool


def verification_view(spec: Migration) -> VerificationView:
    """The page of a migration's verifications.

    Raises:
        WaybillError: the lake cannot be read.
    """
    command = spec.command("verify", "FILE")
    tables, found = read_lake(spec, _found, command)
    differing = sum(t.differing for t in distinct(tables, lambda t: t.differing))
    undecided = sum(t.undecided for t in distinct(tables, lambda t: t.undecided))
    return VerificationView(
        spec.name,
        spec.verify is not None,
        tables,
        [_difference(*one) for one in found[:MOST]],
        max(0, len(found) - MOST),
        command,
        _repair(spec, tables),
        _state(tables, differing, undecided),
        differing > 0 or bool(_failed(tables)),
    )


def _repair(spec: Migration, tables: list[TableView]) -> str:
    rows = [t for t in tables if t.differing and t.method != "counts"]
    # One of several that become a table is enough to keep its rows from it.
    never = {t.table for t in rows if not t.by_key}
    wrong = dict.fromkeys(t.table for t in rows if t.table not in never)
    reloads = [word for name in wrong for word in ("--reload", name)]
    return spec.command("run", "FILE", *reloads, "--keys", "differing") if wrong else ""


def _state(tables: list[TableView], differing: int, undecided: int) -> str:
    if not tables:
        return "No table has been verified yet."
    if differing:
        wrong = dict.fromkeys(table.name for table in tables if table.differing)
        return f"{differing:,} rows differ from the database, in {', '.join(wrong)}."
    if failed := _failed(tables):
        names = ", ".join(failed)
        return f"Nothing differs in the tables that were verified; {names} could not be verified."
    if undecided:
        return (
            f"Nothing differs; {undecided:,} rows are not decided, because their changes may be on "
            "their way."
        )
    return "Nothing differs from the database."


def _failed(tables: list[TableView]) -> list[str]:
    """The names of those that could not be verified."""
    return [table.name for table in tables if table.outcome == FAILED]


def _found(lake: History) -> tuple[list[TableView], list[tuple[str, str, dict[str, Any]]]]:
    """The newest figures of every table, and the differences that they count."""
    results = last_results(lake)
    tables = [_table(result) for result in results]
    if not tables:
        return [], []
    ids = [result["verification"] for result in results]
    names = set(zip(ids, (table.name for table in tables), strict=True))
    of_lake = {table.name: table.table for table in tables}
    wanted = {"kind": ["difference"], "verification": sorted(set(ids))}
    columns = ("verification", "table", "what", "body")
    rows = lake.scan(lake.log(NAME), columns, wanted)
    found = [
        (of_lake[row["table"]], row["what"], json.loads(row["body"]))
        for row in rows
        if (row["verification"], row["table"]) in names
    ]
    return tables, sorted(found, key=lambda one: (one[0], json.dumps(one[2]["key"])))


def _table(result: dict[str, Any]) -> TableView:
    name = label_of(result["table"], result.get("shard"))
    # Verifications of before do not say it: a table that could not be verified ended everything.
    outcome = result.get("outcome", VERIFIED)
    facts = {name: result[name] for name in FACTS}
    by_key = result.get("by_key", True)
    position = result["position"] or ""
    return TableView(name, position=position, outcome=outcome, by_key=by_key, **facts)


def _difference(table: str, what: str, body: dict[str, Any]) -> DifferenceView:
    columns = [
        (name, _shown(sides["database"]), _shown(sides["lake"]))
        for name, sides in body["columns"].items()
    ]
    key = json.dumps(body["key"], ensure_ascii=False)
    is_masked = MASKED in body["key"].values()
    more = max(0, len(columns) - COLUMNS)
    return DifferenceView(table, key, what, columns[:COLUMNS], more, is_masked)


def _shown(text: str | None) -> str:
    return "null" if text is None else text
