"""`waybill table` and `waybill changes`."""

from __future__ import annotations

import json
import sys
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.cli.lake_session import look_into, needed, sign_of_life, without_spark
from waybill.cli.output import print_json, print_table, printable
from waybill.counting import counted
from waybill.errors import ConfigurationError
from waybill.inprocess.lines import OutputFile, check_new
from waybill.lake.history import Chosen
from waybill.lake_columns import TABLE_PARTS
from waybill.merge.position import needed_held, position_after, position_of
from waybill.merge.table_rows import is_small, rows_in_order
from waybill.merge.table_states import table_state
from waybill.overview.row_changes import (
    READ,
    ask_for,
    by_order,
    changes_of_row,
    deleted_sentence,
    qualified_name,
    with_order,
    written_name,
)
from waybill.spec.file import load_migration
from waybill.suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from waybill.lake.commit import Commit
    from waybill.lake.history import History
    from waybill.overview.row_changes import Asked
    from waybill.spec.migration import Migration

SHOWN = 200
"""Rows that a table on a terminal shows; --json and --output give all."""


class Output(NamedTuple):
    """Where the rows of a table go.

    Attributes:
        file: a file of lines; standard output where it is None.
        force: write over a file that is there.
        json: print one JSON object a line.
    """

    file: Path | None = None
    force: bool = False
    json: bool = False


def table_command(
    migration: Path, name: str | None, to: Output, as_of: str | None, held: bool = False
) -> None:
    """Print or write the rows of a merged table.

    Raises:
        ConfigurationError: the output is there already, or see `waybill.jobs.read_table`.
    """
    spec = load_migration(migration)
    check_new(to.force, None if to.file is None else str(to.file))
    why = "only Spark can open this catalog"
    with without_spark(spec) as lake:
        if lake is not None:
            # What is wrong with what was asked for is said before Spark takes its time to start.
            state = table_state(lake, spec, name, as_of, held)
            if is_small(lake, state):
                _put(rows_in_order(lake, state), to)
                return
            why = "the table is so large that Spark reads it"
    from waybill.jobs import read_table

    sign_of_life(why)
    _put(read_table(spec, name, as_of=as_of, held=held), to)


def _put(rows: Iterator[dict[str, str | None]], to: Output) -> None:
    """Print or write rows."""
    if to.file is not None:
        with OutputFile(str(to.file)) as sink:
            for row in rows:
                sink.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
    elif to.json:
        print_json(rows)
    else:
        shown = list(islice(rows, SHOWN + 1))
        columns = list(dict.fromkeys(name for row in shown for name in row))
        cells = [[_cell(row, column) for column in columns] for row in shown[:SHOWN]]
        print_table(columns, cells)
        if len(shown) > SHOWN:
            sys.stderr.write(f"only the first {SHOWN} rows; --json or --output give all\n")


def _cell(row: dict[str, str | None], column: str) -> str:
    """A value of the table: absent and null are distinguished."""
    if column not in row:
        return ""
    value = row[column]
    return "null" if value is None else value


class ChangeFilter(NamedTuple):
    """Which changes are asked for.

    Attributes:
        table: only of this table.
        key: only of this row, and what became of each.
        limit: at most so many.
        held: those of the batch that waits for the gate; of a row, what it would make of each.
    """

    table: str | None
    key: str | None
    limit: int
    held: bool = False


def changes_command(migration: Path, wanted: ChangeFilter, as_json: bool) -> None:
    """Print changes in the order of the merge.

    Raises:
        ConfigurationError: there are no changes of the table, or no batch waits for the gate.
    """
    table, key, limit, held = wanted
    spec = load_migration(migration)
    with look_into(spec) as lake:
        asked = ask_for(table)
        log = needed(spec, lake, "changes")
        merge = needed_held(lake) if held else None
        if key is None:
            found, more = _first(lake, log, asked, wanted, spec, merge), False
            since = lake.changes_since(table)
        else:
            by_time = spec.order.ambiguous == "source_time"
            found, more, since = changes_of_row(lake, table, key, limit, by_time, merge)
        if not found and table is not None:
            _check_table(lake, log, asked, table)
    if since is not None:
        sys.stderr.write(f"{deleted_sentence(since)}\n")
    if as_json:
        print_json(_plain(row) for row in found)
        return
    if key is not None and not found:
        sys.stderr.write(
            f"no change has the key {printable(key)}; write a key as its value, such as 7, or as "
            """all of its columns, such as '{"region": "eu", "no": "7"}'\n"""
        )
        return
    titles = ["table", "operation", "key", "after (before of a delete)", "place", "batch"]
    cells = [
        [
            qualified_name(row),
            row["operation"],
            row["key"] if row["old_key"] is None else f"{row['old_key']} -> {row['key']}",
            row["after"] or row["before"] or row["ddl_text"],
            "{topic}/{partition}/{offset}/{index}".format(**row),
            row["batch"],
        ]
        for row in found
    ]
    if key is not None:
        titles.append("outcome")
        cells = [[*line, row.get("outcome")] for line, row in zip(cells, found, strict=True)]
    print_table(titles, cells)
    if more:
        sys.stderr.write(f"only the newest {counted(limit, 'change')}; --limit shows more\n")
    elif key is None and len(found) == limit:
        sys.stderr.write(f"only the first {counted(limit, 'change')}; --limit shows more\n")


def _first(
    lake: History,
    log: str,
    asked: Asked,
    wanted: ChangeFilter,
    spec: Migration,
    held: Commit | None,
) -> list[dict[str, Any]]:
    """The changes that come first."""
    came = None if held is None else _came(lake, held)

    def accepts(row: dict[str, Any]) -> bool:
        of_table = wanted.table is None or written_name(row) == wanted.table
        return of_table and (came is None or row["batch"] in came)

    chosen = Chosen((*TABLE_PARTS, "batch"), accepts)
    read, by = (*READ, "order_key"), (*TABLE_PARTS, "order_key")
    if spec.order.ambiguous == "source_time":
        ordered = (with_order(row, True) for row in lake.scan(log, read, asked, None, chosen))
        return nsmallest(wanted.limit, ordered, key=by_order)
    rows = lake.first(log, read, asked, by, wanted.limit, None, chosen)
    return [with_order(row, False) for row in rows]


def _came(lake: History, held: Commit) -> set[str]:
    """The batches whose changes the merge that waits for the gate has taken."""
    waiting, visible = position_after(lake, held).changes, position_of(lake).changes
    return {commit.batch for commit in lake.between(lake.log("changes"), visible, waiting)}


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A change as one JSON object; images are objects, times are text."""
    plain = dict(row)
    for name in ("key", "old_key", "before", "after"):
        plain[name] = None if row[name] is None else json.loads(row[name])
    if row["source_time"] is not None:
        plain["source_time"] = row["source_time"].isoformat()
    return plain


def _check_table(lake: History, log: str, asked: Asked, table: str) -> None:
    """Raise ConfigurationError if there are no changes of a table at all."""
    chosen = Chosen(TABLE_PARTS, lambda row: written_name(row) == table)
    if next(lake.scan(log, TABLE_PARTS, asked, None, chosen), None) is None:
        every = lake.scan(log, TABLE_PARTS, {"outcome": ["ok"]})
        known = sorted({written_name(row) for row in every} - {""})
        message = f"there are no changes of table {table}{did_you_mean(table, known)}"
        raise ConfigurationError(message)
