"""`waybill quarantine list` and `waybill quarantine show`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from heapq import nsmallest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waybill.cli.lake_session import look_into, needed
from waybill.cli.output import console, print_json, print_table, printable
from waybill.errors import ConfigurationError
from waybill.inprocess.quarantine import text_or_base64
from waybill.merge.position import held_merge
from waybill.spec.file import load_migration

if TYPE_CHECKING:
    from waybill.lake.history import History
    from waybill.spec.migration import Migration

Places = dict[str, list[Any]]
"""The values that rows have in some columns."""

PLACE = ("batch", "topic", "partition", "offset", "index")
_POSITION = re.compile(r"(.+)/(\d+)/(\d+)(?:/(\d+))?")


def list_command(
    migration: Path, batch: str | None, kind: str | None, limit: int, as_json: bool
) -> None:
    """List refused messages: by convert, by a target's encoder, by the merge."""
    spec = load_migration(migration)
    asked: Places = {}
    if batch is not None:
        asked["batch"] = [batch]
    if kind is not None:
        asked["reason_kind"] = [kind]
    with look_into(spec) as lake:
        found = _first(spec, lake, asked, limit + 1)
    shown = found[:limit]
    if as_json:
        print_json(shown)
        return
    print_table(
        ["message", "row", "refused by", "kind", "reason", "table", "batch"],
        [
            [
                f"{row['topic']}/{row['partition']}/{row['offset']}",
                row["index"],
                row["by"],
                row["kind"],
                row["reason"],
                row["table"],
                row["batch"],
            ]
            for row in shown
        ],
    )
    if len(found) > limit:
        sys.stderr.write(f"only the first {limit}; --limit shows more\n")


def _first(spec: Migration, lake: History, asked: Places, limit: int) -> list[dict[str, Any]]:
    """The refusals with the lowest places, each message once."""
    wanted = limit
    while True:
        rows = nsmallest(wanted, refused(spec, lake, asked, wanted), key=_by_place)
        found = each_once(rows, lake)
        if len(found) >= limit or len(rows) < wanted:
            return found[:limit]
        # Full runs have brought the same messages again: others stand behind them.
        wanted *= 2


def each_once(rows: Iterable[dict[str, Any]], lake: History) -> list[dict[str, Any]]:
    """Refusals by place, of several batches the newest: a full run refuses a message again.

    Args:
        rows: what was refused.
        lake: tells which batch is newer.
    """
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    ages: dict[str, int] = {}
    for row in rows:
        place = _by_place(row)
        other = found.setdefault(place, row)
        if other is row or other["batch"] == row["batch"]:
            continue
        if not ages:
            commits = lake.commits(lake.log("changes"))
            ages = {commit.batch: age for age, commit in enumerate(commits)}
        if ages.get(row["batch"], len(ages)) < ages.get(other["batch"], len(ages)):
            found[place] = row
    return sorted(found.values(), key=_by_place)


def refused(
    spec: Migration, lake: History, asked: Places, limit: int | None = None
) -> Iterator[dict[str, Any]]:
    """Everything that was refused, by whom, why; also by a merge that the gate holds.

    Args:
        spec: the migration.
        lake: its tables.
        asked: the values that rows have in columns that all of the tables have.
        limit: of each table so many with the lowest places are enough.
    """

    def rows(
        table: str, columns: tuple[str, ...], where: Places, snapshot: int | None = None
    ) -> Iterable[dict[str, Any]]:
        if limit is None:
            return lake.scan(table, columns, where, snapshot)
        # Targets of one message are told in the order of their names.
        by = [name for name in (*PLACE[1:], "target") if name in columns]
        return lake.first(table, columns, where, by, limit, snapshot)

    why = ("reason_kind", "reason")
    named = ("database", "schema", "table")
    outcome = {**asked, "outcome": ["refused"]}
    for row in rows(needed(spec, lake, "changes"), (*PLACE, *why, *named), outcome):
        yield _shown(row, "convert", ".".join(row[n] for n in named if row[n] is not None))
    outbox, merges = lake.log("outbox"), lake.log("merges")
    if lake.exists(outbox):
        for row in rows(outbox, (*PLACE, *why, "target", "table"), outcome):
            yield _shown(row, row["target"], row["table"])
    if lake.exists(merges):
        kind, held = {**asked, "kind": ["refused"]}, held_merge(lake)
        newest = None if held is None else held.snapshot
        for row in rows(merges, (*PLACE, *why, "table"), kind, newest):
            yield _shown(row, "merge", row["table"])


def _shown(row: dict[str, Any], by: str, table: str | None) -> dict[str, Any]:
    place = {name: row[name] for name in PLACE}
    why = {"kind": row["reason_kind"], "reason": row["reason"]}
    return {**place, "by": by, **why, "table": table}


def _by_place(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in (*PLACE[1:], "by"))


def show_command(migration: Path, position: str, raw: bool, as_json: bool) -> None:
    """Show a refused message with its bytes."""
    match = _POSITION.fullmatch(position)
    if match is None:
        message = f"{position!r} is no position: write topic/partition/offset, e.g. shop/0/42"
        raise ConfigurationError(message)
    spec = load_migration(migration)
    with look_into(spec) as lake:
        found = _at(spec, lake, match)
        if not found:
            those = spec.command("quarantine", "list", "FILE")
            message = f"no message at {position} was refused; `{those}` shows which were"
            raise ConfigurationError(message)
        key, value = _bytes(spec, lake, match)
    if raw:
        sys.stdout.buffer.write(value or b"")
        return
    content = {**text_or_base64("key", key), **text_or_base64("value", value)}
    if as_json:
        print_json({**row, **content} for row in found)
        return
    out = console()
    for row in found:
        out.print(f"{row['kind']}: {printable(row['reason'] or '')}", style="bold", markup=False)
        title = f"{position}, row {row['index']}, refused by {row['by']} in batch {row['batch']}"
        out.print(printable(title), markup=False)
    for name, text in content.items():
        out.print(f"{name}:", style="dim")
        out.print("null" if text is None else printable(text), markup=False, soft_wrap=True)


def _message(match: re.Match[str]) -> Places:
    """A message's place, as the tables are asked for it."""
    topic, partition, offset, _index = match.groups()
    return {"topic": [topic], "partition": [int(partition)], "offset": [int(offset)]}


def _at(spec: Migration, lake: History, match: re.Match[str]) -> list[dict[str, Any]]:
    asked = _message(match)
    if match[4] is not None:
        asked["index"] = [int(match[4])]
    return each_once(refused(spec, lake, asked), lake)


def _bytes(
    spec: Migration, lake: History, match: re.Match[str]
) -> tuple[bytes | None, bytes | None]:
    """The message as the archive has it."""
    for row in lake.scan(needed(spec, lake, "archive"), ("key", "value"), _message(match)):
        return row["key"], row["value"]
    return None, None
