"""What a mapping makes of a sample, and which of its names fit nothing there."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from waybill.cli.findings import NOTE, OK, WRONG, Finding
from waybill.counting import counted
from waybill.errors import ConfigurationError, Refusal
from waybill.mapping.changes import ChangeMapper
from waybill.mapping.column_history import NO_HISTORY, history_of
from waybill.mapping.rules import fits, fits_column, in_any_case, names_of, same_column
from waybill.records import refused, skipped
from waybill.suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from waybill.mapping.changes import Bags
    from waybill.mapping.rules import Rules
    from waybill.records import Change, TableSchema
    from waybill.spec.mapping import Selection, TableMapping


def mapped(
    about: str,
    select: Selection,
    tables: list[TableMapping],
    rules: Rules,
    changes: list[Change],
    bags: Bags = None,
) -> Generator[Finding, None, list[Change]]:
    """Apply a mapping to the changes of a sample.

    Args:
        about: whose mapping it is.
        select: which tables it takes, as the file states it.
        tables: what becomes of them, as the file states it.
        rules: both as they are applied.
        changes: of the sample.
        bags: see `ChangeMapper`; None for the mapping of a target.

    Returns:
        The changes as they become; one that is left out is skipped.
    """
    if not rules:
        return changes
    by_identity = {id(c.schema): c.schema for c in changes if c.schema.table}
    schemas: list[TableSchema] = list(by_identity.values())
    # A target has all columns of its condition in every row.
    history = NO_HISTORY if bags is None else history_of(changes)
    mapper = ChangeMapper(rules, bags=bags, history=history)
    made: list[Change] = []
    left_out: Counter[str] = Counter()
    try:
        for change in changes:
            found, why, sentence, _ = mapper.map(change)
            if found is not None:
                made.append(found)
                continue
            why = why or ""
            left_out[f"{change.schema.qualified_name} ({why})"] += 1
            made.append(
                skipped(change.message, why, change.operation, change.index)
                if sentence is None
                else refused(change.message, Refusal(why, sentence, change.index))
            )
    except ConfigurationError as error:
        yield Finding(about, WRONG, error.sentence)
        return changes
    if left_out:
        listed = ", ".join(sorted(left_out)[:5])
        text = f"{counted(left_out.total(), 'change')} of the sample left out: {listed}"
        yield Finding(about, NOTE, text, {"left_out": dict(left_out)})
    now = {schema.qualified_name: mapper.of(schema) for schema in schemas}
    called = {old: table.schema.qualified_name for old, table in now.items() if table is not None}
    renamed = [f"{old} becomes {new}" for old, new in sorted(called.items()) if new != old]
    if renamed:
        yield Finding(about, OK, "; ".join(renamed[:5]), {"renamed": renamed})
    if schemas:
        yield from _unmatched(about, select, tables, schemas)
    return made


def _unmatched(
    about: str, select: Selection, tables: list[TableMapping], schemas: list[TableSchema]
) -> Iterator[Finding]:
    """Names and patterns that fit no table, or no column, of the sample."""
    known = sorted({schema.qualified_name for schema in schemas})
    for field, patterns in (("include", select.include), ("exclude", select.exclude)):
        for pattern in patterns:
            if not any(fits(names_of(schema), (pattern,)) for schema in schemas):
                text = f"select.{field}: no table of the sample is called {pattern}"
                yield Finding(about, NOTE, text + did_you_mean(pattern, known))
    for number, one in enumerate(tables):
        named = [schema for schema in schemas if fits(names_of(schema), tuple(one.tables))]
        if not named:
            text = f"map[{number}]: no table of the sample is called {' or '.join(one.tables)}"
            yield Finding(about, NOTE, text + did_you_mean(one.tables[0], known))
            continue
        stated = {(name, in_any_case(name, schema)) for schema in named for name in schema.names}
        columns = sorted({name for name, _ in stated})
        if not columns:
            continue
        asked = {
            "keep": one.columns.keep or [],
            "drop": one.columns.drop,
            "rename": list(one.columns.rename),
            "mask": list(one.columns.mask),
        }
        for field, patterns in asked.items():
            for pattern in patterns:
                # A new name is that of one column.
                found = (
                    same_column(name, pattern, any_case)
                    if field == "rename"
                    else fits_column(name, (pattern,), any_case)
                    for name, any_case in stated
                )
                if not any(found):
                    text = f"map[{number}].columns.{field}: no column there is called {pattern}"
                    yield Finding(about, NOTE, text + did_you_mean(pattern, columns))
