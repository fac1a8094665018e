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
from waybill.lake.history import Chosen, in_order
from waybill.merge.position import held_position, needed_held, order_of, position_of
from waybill.merge.table_rows import is_small, rows_in_order
from waybill.merge.table_states import table_state
from waybill.spec.file import load_migration
from waybill.suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from waybill.lake.commit import Commit
    from waybill.lake.history import History
    from waybill.spec.migration import Migration

Asked = dict[str, list[str | int]]
"""The values that rows have in some columns."""

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
    """A value of the table: absent and null are told apart."""
    if column not in row:
        return ""
    value = row[column]
    return "null" if value is None else value


class Wanted(NamedTuple):
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


def changes_command(migration: Path, wanted: Wanted, as_json: bool) -> None:
    """Print changes in the order of the merge.

    Raises:
        ConfigurationError: there are no changes of the table, or no batch waits for the gate.
    """
    table, key, limit, held = wanted
    spec = load_migration(migration)
    with look_into(spec) as lake:
        asked: Asked = {"outcome": ["ok"]}
        if table is not None:
            # A name with dots may be of a table whose own name has some.
            parts = table.split(".")
            asked["table"] = [".".join(parts[i:]) for i in range(len(parts))]
        log = needed(spec, lake, "changes")
        merge = needed_held(lake) if held else None
        if key is None:
            found = _first(lake, log, asked, wanted, spec, merge)
        else:
            found = _of_row(lake, log, asked, wanted, spec, merge)
        if not found and table is not None:
            _check_table(lake, log, asked, table)
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
            _qualified(row),
            row["operation"],
            row["key"] if row["old_key"] is None else f"{row['old_key']} -> {row['key']}",
            row["after"] or row["before"] or row["ddl_text"],
            "{topic}/{partition}/{offset}/{index}".format(**row),
            row["batch"],
        ]
        for row in found
    ]
    if key is not None:
        titles.append("what became of it")
        cells = [[*line, row.get("outcome")] for line, row in zip(cells, found, strict=True)]
    print_table(titles, cells)
    if len(found) == limit:
        sys.stderr.write(f"only the first {counted(limit, 'change')}; --limit shows more\n")


def _first(
    lake: History,
    log: str,
    asked: Asked,
    wanted: Wanted,
    spec: Migration,
    held: Commit | None,
) -> list[dict[str, Any]]:
    """The changes that come first."""
    came = None if held is None else _came(lake, held)

    def accepts(row: dict[str, Any]) -> bool:
        of_table = wanted.table is None or _joined(row) == wanted.table
        return of_table and (came is None or row["batch"] in came)

    chosen = Chosen((*_NAMES, "batch"), accepts)
    read, by = (*_READ, "order_key"), (*_NAMES, "order_key")
    if spec.order.ambiguous == "source_time":
        ordered = (_with_order(row, True) for row in lake.scan(log, read, asked, None, chosen))
        return nsmallest(wanted.limit, ordered, key=_by_order)
    rows = lake.first(log, read, asked, by, wanted.limit, None, chosen)
    return [_with_order(row, False) for row in rows]


def _of_row(
    lake: History,
    log: str,
    asked: Asked,
    wanted: Wanted,
    spec: Migration,
    held: Commit | None,
) -> list[dict[str, Any]]:
    """The changes of a row, whichever batch brought them, with what became of each."""
    has_key = _key_test(wanted.key or "")

    def accepts(row: dict[str, Any]) -> bool:
        if wanted.table is not None and _joined(row) != wanted.table:
            return False
        return row["operation"] == "truncate" or has_key(row)

    chosen = Chosen((*_NAMES, "operation", "key", "old_key"), accepts)
    rows = lake.scan(log, (*_READ, "order_key"), asked, None, chosen)
    by_time = spec.order.ambiguous == "source_time"
    ordered = (_with_order(row, by_time) for row in _with_truncates(rows, has_key))
    found = nsmallest(wanted.limit, ordered, key=_by_order)
    return _explained(lake, found, held)


def _with_order(row: dict[str, Any], by_source_time: bool) -> dict[str, Any]:
    order = order_of(row["order_key"], row["source_time"], by_source_time)
    return {name: order if name == "order_key" else row[name] for name in _SHOWN}


def _came(lake: History, held: Commit) -> set[str]:
    """The batches whose changes the merge that waits for the gate has taken."""
    waiting, visible = held_position(lake, held).changes, position_of(lake).changes
    return {commit.batch for commit in lake.between(lake.log("changes"), visible, waiting)}


def _by_order(row: dict[str, Any]) -> tuple[Any, ...]:
    """What changes are sorted by; what is missing goes first."""
    return in_order(row[name] for name in (*_NAMES, "order_key"))


def _explained(
    lake: History, rows: list[dict[str, Any]], held: Commit | None
) -> list[dict[str, Any]]:
    """The changes of a row with what the merge made of each, under `outcome`.

    TRUNCATEs that took no row away are left out.
    """
    from waybill.merge.change_facts import changes_of, merged_facts
    from waybill.merge.explain import explain

    by_table: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_table.setdefault(_qualified(row) or row["topic"], []).append(row)
    for name, own in by_table.items():
        changes, facts = changes_of(own), merged_facts(lake, name, own, held)
        # The key that was asked for is the one that all of them touch.
        row_changes = [change for change in changes.values() if change.operation != "truncate"]
        keys = [{change.key, change.old_key} for change in row_changes]
        if not keys:
            # A limit may leave nothing of a table but its TRUNCATEs.
            continue
        for key in set.intersection(*keys) - {None, ""} or set.union(*keys) - {None, ""}:
            for place, sentence in explain(key or "", changes.values(), facts).items():
                own[list(changes).index(place)].setdefault("outcome", sentence)
    return [row for row in rows if row["operation"] != "truncate" or "outcome" in row]


_SHOWN = (
    *("batch", "topic", "partition", "offset", "index", "operation", "database", "schema"),
    *("table", "key", "old_key", "before", "after", "order_key", "source_time", "transaction"),
    "ddl_text",
)
"""What is told of a change."""
_NAMES = ("database", "schema", "table")
_READ = tuple(name for name in _SHOWN if name != "order_key")


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A change as one JSON object; images are objects, times are text."""
    plain = dict(row)
    for name in ("key", "old_key", "before", "after"):
        plain[name] = None if row[name] is None else json.loads(row[name])
    if row["source_time"] is not None:
        plain["source_time"] = row["source_time"].isoformat()
    return plain


def _qualified(row: dict[str, Any]) -> str:
    return ".".join(row[part] for part in ("database", "schema", "table") if row[part])


def _check_table(lake: History, log: str, asked: Asked, table: str) -> None:
    """Raise ConfigurationError if there are no changes of a table at all."""
    chosen = Chosen(_NAMES, lambda row: _joined(row) == table)
    if next(lake.scan(log, _NAMES, asked, None, chosen), None) is None:
        every = lake.scan(log, _NAMES, {"outcome": ["ok"]})
        known = sorted({_joined(row) for row in every} - {""})
        message = f"there are no changes of table {table}{did_you_mean(table, known)}"
        raise ConfigurationError(message)


def _joined(row: dict[str, Any]) -> str:
    """A table's name as people write it; parts that are there and empty count."""
    return ".".join(row[p] for p in ("database", "schema", "table") if row[p] is not None)


def _as_text(key: str) -> dict[str, str | None]:
    """The columns of a key as text images hold them: numbers with every digit that was given.

    Raises:
        ValueError: it is no JSON object.
    """
    data = json.loads(key, parse_float=str, parse_int=str, parse_constant=str)
    words = {True: "true", False: "false", None: None}
    return {
        name: words[value] if value is None or isinstance(value, bool) else str(value)
        for name, value in data.items()
    }


def _key_test(key: str) -> Callable[[dict[str, Any]], bool]:
    """Whether a row is of a key: a JSON object of its columns, or the value of its only column.

    Raises:
        ConfigurationError: it looks like JSON and is none.
    """
    wanted: dict[str, str | None] | None = None
    if key.lstrip().startswith("{"):
        try:
            wanted = _as_text(key)
        except ValueError as error:
            raise ConfigurationError(f"--key {key} is not JSON: {error}") from error

    def matches(text: str | None) -> bool:
        if text is None:
            return False
        values = json.loads(text)
        return list(values.values()) == [key] if wanted is None else values == wanted

    return lambda row: matches(row["key"]) or matches(row["old_key"])


def _with_truncates(
    rows: Iterable[dict[str, Any]], has_key: Callable[[dict[str, Any]], bool]
) -> Iterator[dict[str, Any]]:
    """Changes of a key, and with them the TRUNCATEs of their tables, of full reloads too."""
    tables: set[str] = set()
    truncates: list[dict[str, Any]] = []
    for row in rows:
        if has_key(row):
            tables.add(_joined(row))
            yield row
        elif row["operation"] == "truncate":
            truncates.append(row)
    for row in truncates:
        if _joined(row) in tables - {""}:
            yield row
