"""`waybill show`: the messages of a file, readable."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from waybill.cli.detect import one_envelope
from waybill.cli.options import reading
from waybill.cli.output import console, printable
from waybill.cli.raw_bytes import bytes_as_lines
from waybill.counting import counted
from waybill.errors import ConfigurationError, Refusal
from waybill.inprocess.detect import sample_of
from waybill.inprocess.display import (
    CHANGED,
    ONLY,
    UNKNOWN,
    DisplayEntries,
    DisplayEntry,
    DisplayFilter,
)
from waybill.inprocess.quarantine import text_or_base64
from waybill.inprocess.topic_file import open_topic

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from waybill.inprocess.display import Cell
    from waybill.records import Message

LONG = 200
"""Characters of a value that are shown."""

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - shown with its Z, never compared
_MARKS = {CHANGED: "*", UNKNOWN: "?"}
_STYLES = {
    "insert": "green",
    "read": "green",
    "upsert": "green",
    "update": "yellow",
    "delete": "red",
    "truncate": "red",
}


@dataclass(frozen=True)
class Showing:
    """The options of one call, as they were given."""

    input: str
    source: str | None
    layout: str | None
    settings: list[str]
    schemas: Path | None
    tables: Path | None
    table: str | None
    only: str | None
    offsets: str | None
    limit: int
    full: bool
    json: bool


def show_command(given: Showing) -> None:
    """Print the messages of a file.

    Raises:
        ConfigurationError: an option is wrong, or the envelope cannot be determined.
    """
    wanted = _wanted(given)
    with open_topic(given.input, given.layout) as file:
        messages = file.messages()
        source, settings = given.source, given.settings
        if source is None:
            sample = sample_of(messages)
            found = one_envelope(file, sample, given)
            source = found.name
            settings = [
                *(f"{name}={value}" for name, value in found.settings_found.items()),
                *settings,
            ]
            messages = chain(sample, messages)
        envelope, decoder = reading(source, settings, given.schemas, given.tables)
        every = DisplayEntries(decoder, envelope.pairs).read(messages, wanted)
        entries = islice(every, given.limit or None)
        if given.json:
            for entry in entries:
                sys.stdout.write(f"{msgspec.json.encode(as_data(entry)).decode()}\n")
            return
        out, shown, last = console(), 0, None
        for entry in entries:
            if shown:
                out.print()
            print_entry(out, entry, None if given.full else LONG, entry.message is last)
            shown, last = shown + 1, entry.message
    if not shown:
        sys.stderr.write("no message is shown: the file has none of those that were asked for\n")
    elif shown == given.limit:
        sys.stderr.write(f"only the first {shown}; --limit shows more, --limit 0 all\n")


def _wanted(given: Showing) -> DisplayFilter:
    if given.only is not None and given.only not in ONLY:
        raise ConfigurationError(f"--only {given.only}: write one of {', '.join(ONLY)}")
    first, last = _range(given.offsets)
    return DisplayFilter(given.table, given.only, first, last)


def _range(text: str | None) -> tuple[int, int | None]:
    """First and last offset of `7`, `7-`, `-9` or `7-9`."""
    if text is None:
        return 0, None
    first, dash, last = text.strip().partition("-")
    try:
        start = int(first) if first else 0
        end = int(last) if last else (None if dash and first else start)
    except ValueError:
        end = start = -1
    if start < 0 or (end is not None and end < start):
        raise ConfigurationError(f"--offset {text}: write 7, 7-9, 7- or -9")
    return start, end


# For programs


def as_data(entry: DisplayEntry) -> dict[str, Any]:
    """An entry as plain data; images hold exact texts, and no columns that were not sent."""
    change, message = entry.change, entry.message
    data: dict[str, Any] = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "index": change.index,
        "timestamp": message.timestamp,
        "outcome": {"changes": "ok"}.get(entry.outcome, entry.outcome),
    }
    if entry.refusal is not None:
        data.update(kind=entry.refusal.kind, reason=entry.refusal.sentence)
        data.update(text_or_base64("key", message.key), **text_or_base64("value", message.value))
        return data
    if entry.outcome == "skipped":
        return {**data, "reason": change.reason_kind}
    schema = change.schema
    data.update(
        table=schema.qualified_name or None,
        operation=change.operation,
        half=change.half,
        first_half=None if entry.partner is None else entry.partner.offset,
        key=_plain(change.key_image()) if schema.key else None,
        old_key=_plain(_old_key(entry)),
        before=_plain(change.before),
        after=_plain(change.after),
        changed=[cell.name for cell in entry.cells() if cell.mark == CHANGED],
        sequence=None if change.sequence is None else list(change.sequence),
        full_row=change.full_row,
        order_key=change.order_key,
        source_time=_time(change.source_time),
        transaction=change.transaction,
        ddl_text=change.ddl_text,
        # As it is, so that no digit of a number in it is lost.
        extra=None if change.extra is None else msgspec.Raw(change.extra),
    )
    return data


def _plain(image: Any) -> Any:
    return None if image is None else msgspec.json.decode(msgspec.json.encode(image))


def _old_key(entry: DisplayEntry) -> Any:
    try:
        return entry.change.old_key_image()
    except Refusal:
        return None


def _time(micros: int | None) -> str | None:
    if micros is None:
        return None
    try:
        return f"{(_EPOCH + timedelta(microseconds=micros)).isoformat()}Z"
    except OverflowError:
        return f"{micros} µs since 1970"


# For people


def print_entry(out: Console, entry: DisplayEntry, limit: int | None, again: bool = False) -> None:
    """One entry.

    Args:
        out: where to.
        entry: it.
        limit: characters of a value that are shown; None for all.
        again: whether the entry before was of the same message, so that its bytes stand there.
    """
    from rich.text import Text

    change, message = entry.change, entry.message
    place = f"{message.topic}/{message.partition}/{message.offset}"
    if change.index:
        place += f"/{change.index}"
    head = Text(printable(place), style="bold")
    if entry.refusal is not None:
        head.append(f"  refused ({entry.refusal.kind})", style="bold red")
        out.print(head, soft_wrap=True)
        out.print(Text(f"  {printable(entry.refusal.sentence)}"), soft_wrap=True)
        if not again:
            _print_bytes(out, message, limit)
        return
    if entry.outcome == "skipped":
        head.append(f"  skipped: {printable(change.reason_kind or 'no change')}", style="dim")
        out.print(head, soft_wrap=True)
        return
    head.append(f"  {printable(change.schema.qualified_name)}" if change.schema.table else "")
    head.append(f"  {change.operation}", style=_STYLES.get(change.operation, "cyan"))
    out.print(head, soft_wrap=True)
    for fact in _facts(entry, limit):
        out.print(Text(f"  {printable(fact)}", style="dim"), soft_wrap=True)
    if change.before is not None or change.after is not None:
        out.print(_images(entry, limit))


def _facts(entry: DisplayEntry, limit: int | None) -> Iterator[str]:
    """What is shown beside the images."""
    change = entry.change
    facts = []
    if change.sequence is not None:
        facts.append(f"sequence {', '.join(str(part) for part in change.sequence)}")
    else:
        facts.append("no sequence, the position is its order")
    if change.full_row:
        facts.append("full row, older than every change")
    if change.source_time is not None:
        facts.append(f"time {_time(change.source_time)}")
    if change.transaction is not None:
        facts.append(f"transaction {change.transaction}")
    yield "; ".join(facts)
    if entry.partner is not None:
        yield f"an update in two messages, the first at offset {entry.partner.offset}"
    elif change.half is not None:
        other = "after" if change.half == "before" else "before"
        yield f"half of an update: the row {change.half} it; the row {other} it was not found"
    old = _plain(_old_key(entry))
    if old is not None:
        yield "the key changed, it was " + ", ".join(f"{k} {v}" for k, v in old.items())
    if change.ddl_text is not None:
        yield f"statement: {change.ddl_text[:limit]}{_rest(change.ddl_text, limit)}"


def _images(entry: DisplayEntry, limit: int | None) -> RenderableType:
    """The images side by side; `*` marks what changed, `?` what cannot be compared."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    change, cells = entry.change, entry.cells()
    sides = [side for side in ("before", "after") if getattr(change, side) is not None]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("", no_wrap=True)
    for name in ("column", "type"):
        table.add_column(name, overflow="fold")
    for side in sides:
        table.add_column(side, overflow="fold")
    for cell in cells:
        style = "bold yellow" if cell.mark == CHANGED else ""
        mark = f"{'k' if cell.key else ' '}{_MARKS.get(cell.mark, ' ')}"
        row = [Text(mark, style=style), Text(printable(cell.name), style=style)]
        row.append(Text(printable(cell.type), style="dim"))
        row += [_value(cell, getattr(cell, side), limit) for side in sides]
        table.add_row(*row)
    return Padding(table, (0, 0, 0, 2), expand=False)


def _value(cell: Cell, value: Any, limit: int | None) -> Any:
    """A value: null, not sent, or its text, in quotes where it could look like one of those."""
    from rich.text import Text

    if value is None:
        return Text("null", style="dim italic")
    if value is UNSET:
        return Text("(not sent)", style="dim italic")
    text = value if limit is None else value[:limit]
    if not cell.bare:
        text = msgspec.json.encode(text).decode()
    found = Text(printable(text), style="bold yellow" if cell.mark == CHANGED else "")
    return found.append(_rest(value, limit), style="dim")


def _rest(text: str, limit: int | None) -> str:
    """What is said of the characters that are not shown."""
    if limit is None or len(text) <= limit:
        return ""
    return f"… ({counted(len(text) - limit, 'character')} more; --full shows all)"


def _print_bytes(out: Console, message: Message, limit: int | None) -> None:
    from rich.text import Text

    for name, data in (("key", message.key), ("value", message.value)):
        if data is None:
            if name == "value":
                out.print(Text("  value: null", style="dim"))
            continue
        out.print(Text(f"  {name}, {counted(len(data), 'byte')}:", style="dim"))
        lines = bytes_as_lines(data) if limit is not None else bytes_as_lines(data, None)
        for line in lines:
            out.print(Text(f"    {line}"), soft_wrap=True)
