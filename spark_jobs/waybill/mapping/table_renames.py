"""Statements that give tables other names, and tables that lose what hides their columns by it.

Rules belong to names of tables. Under another name, which no such rule names, the columns would
come to readers in the clear with the next row, so the batch stops until the file names it, too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from waybill.errors import Code, ConfigurationError
from waybill.mapping.rules import fits_column, ignores_case
from waybill.mapping.shadows import swapped
from waybill.mapping.sql import (
    BLANK,
    EXACT,
    SP_RENAME,
    UnreadableStatement,
    partly_read,
    read,
    readings,
    without_front,
)
from waybill.mapping.statement_tables import table_called
from waybill.name_patterns import ANY, is_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sqlglot import exp

    from waybill.mapping.rules import Rules
    from waybill.records import TableSchema

_HINT = re.compile(r"rename|\bschema\b", re.IGNORECASE)
_ALTER = re.compile(r"alter\b", re.IGNORECASE)
_RENAMES = re.compile(
    rf"rename\b{BLANK}(?:tables?\b{BLANK}(?:if\s+exists\s+)?)?", re.IGNORECASE | re.DOTALL
)
NAME_PART = r"(?:`[^`]+`|\"[^\"]+\"|\[[^\]]+\]|\w[\w$#]*)"
"""A part of a name in a statement, quoted or not."""
_TABLE = rf"{NAME_PART}(?:{BLANK}\.{BLANK}{NAME_PART})*"
_TO = re.compile(
    rf"{BLANK}({_TABLE}){BLANK}\bto\b{BLANK}({_TABLE}){BLANK}(?:,|;?{BLANK}$)",
    re.IGNORECASE | re.DOTALL,
)

_ANYWHERE = re.compile(
    rf"\brename\b{BLANK}tables?\b{BLANK}(?:if\s+exists\s+)?", re.IGNORECASE | re.DOTALL
)
_ONE = re.compile(
    rf"{BLANK}({_TABLE}){BLANK}(?:\bwait\s+\d+{BLANK}|\bnowait\b{BLANK})?"
    rf"\bto\b{BLANK}({_TABLE}){BLANK},?",
    re.IGNORECASE | re.DOTALL,
)
_ALTERED = re.compile(
    rf"\balter\b{BLANK}table\b{BLANK}(?:if\s+exists\s+)?(?:only\s+)?({_TABLE})",
    re.IGNORECASE | re.DOTALL,
)
_RENAMED_TO = re.compile(
    rf"\brename\b{BLANK}(?:to\b{BLANK}|as\b{BLANK}|={BLANK})?"
    rf"(?!(?:to|as|column|index|key|constraint|partition)\b)({_TABLE})",
    re.IGNORECASE | re.DOTALL,
)
_MOVED_TO = re.compile(rf"\bset\b{BLANK}schema\b{BLANK}({NAME_PART})", re.IGNORECASE | re.DOTALL)
_TRANSFER = re.compile(
    rf"\balter\b{BLANK}schema\b{BLANK}({NAME_PART}){BLANK}\btransfer\b{BLANK}"
    rf"(?:object{BLANK}::{BLANK})?({_TABLE})",
    re.IGNORECASE | re.DOTALL,
)
"""SQL Server's statement that moves a table to another schema."""


class NamePart(NamedTuple):
    """A part of a table's name in a statement.

    Attributes:
        text: without its quotes.
        quoted: whether it had any.
    """

    text: str
    quoted: bool


TableName = tuple[NamePart, ...]


def table_renames(text: str, dialect: str) -> tuple[tuple[TableName, TableName], ...]:
    """The tables that a statement gives another name: the old and the new names.

    Args:
        text: one statement.
        dialect: the source's SQL (`mysql`, `postgresql`); both are tried where it is not known.

    Raises:
        UnreadableStatement: it looks like one of these and cannot be read.
    """
    text = without_front(text)
    if found := _RENAMES.match(text):
        return _renamed(text, found.end())
    if not _ALTER.match(text):
        return ()
    from sqlglot import exp

    for reading in (*readings(text, dialect), *partly_read(text, dialect)):
        if isinstance(reading.tree, exp.Alter):
            return tuple(_altered(reading.tree))
    raise UnreadableStatement(text)


def _renamed(text: str, at: int) -> tuple[tuple[TableName, TableName], ...]:
    """The pairs of `RENAME TABLE a TO b, c TO d` (Oracle: `RENAME a TO b`); none of a user."""
    found = []
    while at < len(text):
        pair = _TO.match(text, at)
        if pair is None and "table" not in text[:at].lower():
            # Without the word TABLE it may be of anything else, e.g. a user.
            return ()
        if pair is None:
            raise UnreadableStatement(text)
        found.append((name_parts(pair[1]), name_parts(pair[2])))
        at = pair.end()
    return tuple(found)


def _altered(statement: exp.Alter) -> Iterator[tuple[TableName, TableName]]:
    from sqlglot import exp

    if (statement.args.get("kind") or "TABLE") != "TABLE":
        # An index or a view has no rows.
        return
    for action in statement.args.get("actions") or ():
        if not isinstance(action, exp.AlterRename):
            continue
        old, new = _parts(statement.this), _parts(action.this)
        if old and new:
            yield old, new


def _parts(table: exp.Expr) -> TableName:
    from sqlglot import exp

    if not isinstance(table, exp.Table):
        return ()
    return tuple(NamePart(part.name, bool(part.args.get("quoted"))) for part in table.parts)


def name_parts(text: str) -> TableName:
    """The parts of a name as a statement spells it, with dots between them."""
    return tuple(
        NamePart(part[1:-1], True) if part[0] in '`"[' else NamePart(part, False)
        for part in re.findall(NAME_PART, text)
    )


def check_table_renames(text: str | None, source: TableSchema, rules: Rules) -> None:
    """See that no table loses what hides its columns with its name.

    Args:
        text: a statement, None where none is stated.
        source: the table that its message names.
        rules: the mapping.

    Raises:
        ConfigurationError: a table of which columns are masked or left out gets a name under which
            they would be shown.
    """
    if text is None or not _HINT.search(text):
        return
    for old, new in _in_the_end(_stated(text, source), source):
        shown = newly_shown(rules, old, new, source.dialect)
        if shown is None:
            continue
        message = (
            f"a statement renames the table {old.qualified_name} to {new.qualified_name}, and "
            f"under that name {shown} would be shown, which the mapping masks or leaves out under "
            f"the old one: name {new.qualified_name} under map as well (a pattern may name both), "
            "or leave it out under select"
        )
        raise ConfigurationError(message, code=Code.MAPPING)


def _stated(text: str, source: TableSchema) -> list[tuple[TableName, TableName]]:
    """What a statement says of names of tables, also where it is not read any further."""
    if (stated := _by_sql_server(text)) is not None:
        return stated
    try:
        found = table_renames(text, source.dialect)
    except UnreadableStatement:
        found = ()
    if found:
        return list(found)
    if read(text, source.dialect) is not None:
        return []
    pairs: list[tuple[TableName, TableName]] = []
    if start := _ANYWHERE.search(text):
        at = start.end()
        while one := _ONE.match(text, at):
            pairs.append((name_parts(one[1]), name_parts(one[2])))
            at = one.end()
    if altered := _ALTERED.search(text):
        old = name_parts(altered[1])
        for to in _RENAMED_TO.finditer(text, altered.end()):
            pairs.append((old, name_parts(to[1])))
        for to in _MOVED_TO.finditer(text, altered.end()):
            pairs.append((old, (*name_parts(to[1]), old[-1])))
    return pairs


def _by_sql_server(text: str) -> list[tuple[TableName, TableName]] | None:
    """The tables that SQL Server's own ways give another name; None where it is none of these."""
    if procedures := [*SP_RENAME.finditer(text)]:
        olds = [(name_parts(one["old"]), one) for one in procedures]
        # The new name is taken as it stands, with any quotes and dots in it.
        return [
            (old, (*old[:-1], NamePart(one["new"], True)))
            for old, one in olds
            if (one["kind"] or "object").casefold() == "object"
        ]
    if moved := [*_TRANSFER.finditer(text)]:
        tables = [(name_parts(one[2]), one) for one in moved]
        return [(old, (*old[:-2], *name_parts(one[1]), old[-1])) for old, one in tables]
    return None


def _in_the_end(
    pairs: Iterable[tuple[TableName, TableName]], source: TableSchema
) -> list[tuple[TableSchema, TableSchema]]:
    """The tables that have another name behind a statement, with their old and new ones.

    A name may be given on: `RENAME TABLE a TO tmp, b TO a, tmp TO b`. Tools that alter a table by a
    copy of it end with such a statement, and the table keeps its name.
    """
    pairs = [(old, new) for old, new in pairs if old and new]
    kept = swapped((texts_of(old), texts_of(new)) for old, new in pairs)
    origins: dict[str, TableSchema] = {}
    found: dict[str, TableSchema] = {}
    for old, new in pairs:
        if texts_of(old) in kept:
            continue
        was = _called(old, source)
        if was.qualified_name.casefold() == source.qualified_name.casefold():
            # As the message spells it, which is what rows are called.
            was = source
        now = _called(new, source if len(new) > 1 or source.dialect == "mysql" else was)
        first = origins.pop(was.qualified_name, was)
        found.pop(was.qualified_name, None)
        origins[now.qualified_name], found[now.qualified_name] = first, now
    return [
        (origins[name], now) for name, now in found.items() if origins[name].qualified_name != name
    ]


def texts_of(name: TableName) -> tuple[str, ...]:
    """The parts of a name without what says how they were quoted."""
    return tuple(part.text for part in name)


def _called(name: TableName, source: TableSchema) -> TableSchema:
    """The table of a name, as rows spell it."""
    exact: Callable[[str], str] = EXACT.get(source.dialect, str)
    return table_called([p.text if p.quoted else exact(p.text) for p in name], source) or source


def newly_shown(rules: Rules, old: TableSchema, new: TableSchema, dialect: str) -> str | None:
    """What the rules of a table's old name hide and those of its new one show.

    Args:
        rules: the mapping.
        old: the table under its old name.
        new: the table under its new name.
        dialect: the source's SQL.

    Returns:
        A column, or a pattern of columns; None where there is nothing, also as one of the names is
        left out.
    """
    if not (rules.selects(old) and rules.selects(new)):
        return None
    # Which columns the table has is not known here, so another spelling hides none for sure.
    any_case = ignores_case(dialect)
    before, now = rules.rules_of(old), rules.rules_of(new)
    hides = [pattern for rule in now for pattern in (*rule.drop, *rule.masks)]
    keeps = [rule.keep for rule in now if rule.keep is not None]
    for pattern in (pattern for rule in before for pattern in (*rule.drop, *rule.masks)):
        # A star of another pattern stands for whatever this one has there, stars included.
        hidden = fits_column(pattern, hides, any_case) or any(
            not any(_may_meet(kept, pattern) for kept in keep) for keep in keeps
        )
        if not hidden:
            return pattern
    for keep in (rule.keep for rule in before if rule.keep is not None):
        hidden = fits_column("*", hides, any_case) or any(
            all(fits_column(kept, keep, any_case) for kept in other) for other in keeps
        )
        if not hidden:
            return f"more than {', '.join(keep)}"
    return None


def _may_meet(name: str, pattern: str) -> bool:
    """Whether a column of some table may be one of both; tables spell names in any case."""
    if is_pattern(name):
        # Two patterns: only what stands in front of their first star tells them apart.
        one, other = (text.casefold().split(ANY)[0] for text in (name, pattern))
        if is_pattern(pattern):
            return one.startswith(other) or other.startswith(one)
        return fits_column(pattern, (name,), any_case=True)
    return fits_column(name, (pattern,), any_case=True)
