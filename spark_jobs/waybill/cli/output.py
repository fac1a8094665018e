"""What the commands print: tables for people, one JSON object a line for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from waybill.inprocess.run import Progress

PIPE_WIDTH = 4000
"""Columns of output that no terminal limits; a table is only as wide as its content."""


def console(stderr: bool = False) -> Console:
    """A console for tables; it does not break lines in a pipe."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PIPE_WIDTH
    return Console(stderr=stderr, width=width, highlight=False, emoji=False)


def print_json(rows: Iterable[Any]) -> None:
    """One JSON object a line."""
    for row in rows:
        sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> None:
    """A table; what stands in it is text and never markup."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    out = console()
    table = Table(box=box.SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False)
    rows = [list(row) for row in rows]
    for i, name in enumerate(columns):
        numbers = bool(rows) and all(isinstance(row[i], int | float) for row in rows)
        table.add_column(Text(name), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(shown(value)) for value in row))
    out.print(table)


def shown(value: Any) -> str:
    """A value as a table shows it; control characters are made visible."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:_}".replace("_", " ") if abs(value) >= 10_000 else str(value)
    if isinstance(value, float):
        return f"{value:.1f}"
    return printable(str(value))


def printable(text: str) -> str:
    """Text that cannot move the cursor or colour a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@contextmanager
def byte_progress(total: int | None) -> Iterator[Progress | None]:
    """A progress bar over bytes on a terminal; None, and silence, in a pipe."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = [BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda count: bar.advance(task, count)
