"""Entries of `schema_changes` that name no table of a sample, or that never count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.cli.findings import NOTE, WRONG, Finding
from waybill.name_patterns import is_pattern, matches, matches_any
from waybill.spec.decisions import MAP
from waybill.suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from waybill.spec.schema_changes import SchemaChanges


def check_decisions(
    entries: list[SchemaChanges], tables: Iterable[str], joined: Iterable[str] = ()
) -> Iterator[Finding]:
    """What is odd about decisions on changes of columns.

    Args:
        entries: the entries of the file.
        tables: names of the tables of the sample, as the lake has them.
        joined: names or patterns of the tables that several of the source become.
    """
    known = sorted(set(tables))
    yield from _mapped_in_joined(entries, known, tuple(joined))
    for number, entry in enumerate(entries):
        earlier = [(n, one) for n, one in enumerate(entries[:number])]
        for pattern in entry.tables:
            about = f"schema_changes[{number}]"
            first = next((n for n, one in earlier if _covers(one, pattern)), None)
            if first is not None:
                text = f"{pattern} is named by entry {first} already, which decides: put it first"
                yield Finding(about, NOTE, text)
            elif known and not any(matches(name, pattern) for name in known):
                text = f"no table of the sample is called {pattern}"
                yield Finding(about, NOTE, text + did_you_mean(pattern, known))


def _mapped_in_joined(
    entries: list[SchemaChanges], known: list[str], joined: tuple[str, ...]
) -> Iterator[Finding]:
    """Decisions to map the columns of tables whose changes have no order among each other."""
    made = {name for name in known if matches_any(name, joined)}
    made.update(one for one in joined if not is_pattern(one))
    for name in sorted(made):
        for number, entry in enumerate(entries):
            if matches_any(name, entry.tables):
                if entry.rename == MAP:
                    text = (
                        f"several tables become {name} (map.join), and a column that is renamed in "
                        "one of them cannot be mapped: put an entry for it first, with `rename: "
                        "stop` or `beside`"
                    )
                    yield Finding(f"schema_changes[{number}]", WRONG, text)
                break


def _covers(entry: SchemaChanges, pattern: str) -> bool:
    """Whether an entry names everything that a pattern names."""
    # A star of one stands for whatever the other has there, also for its stars.
    return matches_any(pattern, entry.tables)
