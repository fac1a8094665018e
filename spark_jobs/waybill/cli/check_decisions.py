"""Entries of `schema_changes` that name no table of a sample, or that never count."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from waybill.cli.findings import NOTE, Finding
from waybill.suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from waybill.spec.schema_changes import SchemaChanges


def check_decisions(entries: list[SchemaChanges], tables: Iterable[str]) -> Iterator[Finding]:
    """What is odd about decisions on changes of columns.

    Args:
        entries: the entries of the file.
        tables: names of the tables of the sample, as the lake has them.
    """
    known = sorted(set(tables))
    for number, entry in enumerate(entries):
        earlier = [(n, one) for n, one in enumerate(entries[:number])]
        for pattern in entry.tables:
            about = f"schema_changes[{number}]"
            first = next((n for n, one in earlier if _covers(one, pattern)), None)
            if first is not None:
                text = f"{pattern} is named by entry {first} already, which decides: put it first"
                yield Finding(about, NOTE, text)
            elif known and not any(fnmatchcase(name, pattern) for name in known):
                text = f"no table of the sample is called {pattern}"
                yield Finding(about, NOTE, text + did_you_mean(pattern, known))


def _covers(entry: SchemaChanges, pattern: str) -> bool:
    """Whether an entry names everything that a pattern names."""
    return any(one in (pattern, "*") or fnmatchcase(pattern, one) for one in entry.tables)
