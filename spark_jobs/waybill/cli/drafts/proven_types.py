"""Types that the values of a sample suggest and that its messages can be read with.

A text may look like a number and stand in quotes, where a declared number would refuse it. So what
is proposed was tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from waybill.cli.drafts.reading import attempt
from waybill.errors import WaybillError
from waybill.tables import TableRule, TableRules
from waybill.types import parse_type

if TYPE_CHECKING:
    from waybill.cli.drafts.reading import SourceReading
    from waybill.cli.drafts.type_guesses import TypeGuess
    from waybill.records import Message

MOST = 400
"""Columns that are tried individually where all together refuse something."""

Types = dict[str, dict[str, "TypeGuess"]]
"""By table and column."""


def proven_types(reading: SourceReading, messages: Sequence[Message], rules: TableRules) -> Types:
    """The types of columns that state none, such that nothing more is refused with them.

    Args:
        reading: how the messages are read.
        messages: the sample.
        rules: what is declared already; no other type is proposed for that.
    """
    guesses: Types = {}
    for name, table in reading.evidence.tables.items():
        database, _, short = name.rpartition(".")
        declared = rules.find(database or None, None, short).columns
        found = {
            column: guess
            for column, guess in table.type_guesses.items()
            # A variable would be filled in where a name holds one.
            if column not in declared and "${" not in column
        }
        if found and "${" not in name and "*" not in name:
            guesses[name] = found
    if not guesses or _holds(reading, messages, rules, guesses):
        return guesses
    proven: Types = {}
    single = [(table, column) for table, found in guesses.items() for column in found]
    for table_name, column in single[:MOST]:
        guess = guesses[table_name][column]
        for one in (guess, *guess.others):
            if _holds(reading, messages, rules, {table_name: {column: one}}):
                proven.setdefault(table_name, {})[column] = one
                break
    return proven if _holds(reading, messages, rules, proven) else {}


def _holds(
    reading: SourceReading, messages: Sequence[Message], rules: TableRules, types: Types
) -> bool:
    """Whether the sample can be read with types as well as without."""
    try:
        found = attempt(reading, reading.all_settings(), messages, with_types(rules, types))
    except WaybillError:
        return False
    return found.refused_count <= reading.evidence.refused_count


def with_types(rules: TableRules, types: Mapping[str, Mapping[str, TypeGuess]]) -> TableRules:
    """Rules with more types."""
    every = dict(rules.declared)
    for name, found in types.items():
        database, _, short = name.rpartition(".")
        rule = every.get(name) or rules.find(database or None, None, short)
        more = {column: parse_type(guess.type) for column, guess in found.items()}
        every[name] = TableRule(rule.key, {**rule.columns, **more})
    return TableRules(every, rules.max_columns)
