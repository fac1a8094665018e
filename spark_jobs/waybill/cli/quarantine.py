"""`waybill quarantine list` and `waybill quarantine show`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waybill.cli.lake_session import look_into, needed
from waybill.cli.output import console, print_json, print_table, printable
from waybill.errors import ConfigurationError
from waybill.inprocess.quarantine import text_or_base64
from waybill.overview.refusals import each_once, first_refusals, message_at, refusals
from waybill.spec.file import load_migration

if TYPE_CHECKING:
    from waybill.lake.history import History
    from waybill.overview.refusals import Places
    from waybill.spec.migration import Migration

_POSITION = re.compile(r"(.+)/(\d+)/(\d+)(?:/(\d+))?")


def list_command(
    migration: Path,
    batch: str | None,
    kind: str | None,
    limit: int,
    as_json: bool,
    table: str | None = None,
) -> None:
    """List refused messages: by convert, by a target's encoder, by the merge."""
    spec = load_migration(migration)
    asked: Places = {}
    if batch is not None:
        asked["batch"] = [batch]
    if kind is not None:
        asked["reason_kind"] = [kind]
    with look_into(spec) as lake:
        needed(spec, lake, "changes")
        found = first_refusals(lake, asked, limit + 1, table)
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


def show_command(migration: Path, position: str, raw: bool, as_json: bool) -> None:
    """Show a refused message with its bytes."""
    match = _POSITION.fullmatch(position)
    if match is None:
        message = f"{position!r} is not a position: write topic/partition/offset, e.g. shop/0/42"
        raise ConfigurationError(message)
    spec = load_migration(migration)
    with look_into(spec) as lake:
        found = _at(spec, lake, match)
        if not found:
            those = spec.command("quarantine", "list", "FILE")
            message = f"no message at {position} was refused; `{those}` shows which were"
            raise ConfigurationError(message)
        topic, partition, offset, _index = match.groups()
        bytes_ = message_at(lake, topic, int(partition), int(offset))
    key, value = bytes_ if bytes_ is not None else (None, None)
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
    needed(spec, lake, "changes")
    return each_once(refusals(lake, asked), lake)
