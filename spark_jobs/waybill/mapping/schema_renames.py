"""Statements that give schemas and databases other names, with all of their tables.

No statement says which tables these are. Each pattern of the mapping names some, so one that it
fits stands for them: what the rules say of that table under both names is compared, as they are
where a single table gets another name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from waybill.errors import Code, ConfigurationError
from waybill.mapping.sql import BLANK, EXACT
from waybill.mapping.table_renames import NAME_PART, name_parts, newly_shown
from waybill.name_patterns import ANY
from waybill.records import intern_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from waybill.mapping.rules import Rules
    from waybill.records import TableSchema

_Space = tuple[str | None, str | None]
"""Database and schema."""

_HINT = re.compile(r"rename|\bmodify\b", re.IGNORECASE)
_BEGIN = rf"(?:^|;){BLANK}"
_FLAGS = re.IGNORECASE | re.MULTILINE | re.DOTALL
_STATEMENTS = (
    # PostgreSQL
    re.compile(
        rf"{_BEGIN}alter\b{BLANK}\b(?P<kind>schema|database)\b{BLANK}(?P<old>{NAME_PART}){BLANK}"
        rf"\brename\b{BLANK}\bto\b{BLANK}(?P<new>{NAME_PART})",
        _FLAGS,
    ),
    # SQL Server; its schemas keep their names.
    re.compile(
        rf"{_BEGIN}alter\b{BLANK}\b(?P<kind>database)\b{BLANK}(?P<old>{NAME_PART}){BLANK}"
        rf"\bmodify\b{BLANK}\bname\b{BLANK}={BLANK}(?P<new>{NAME_PART})",
        _FLAGS,
    ),
    # MySQL 5.1, and ClickHouse
    re.compile(
        rf"{_BEGIN}rename\b{BLANK}\b(?P<kind>schema|database)\b{BLANK}(?P<old>{NAME_PART}){BLANK}"
        rf"\bto\b{BLANK}(?P<new>{NAME_PART})",
        _FLAGS,
    ),
)
_PROCEDURES = (
    re.compile(
        r"\bsp_rename(?P<kind>db)\b\W*?(?:@dbname\s*=\s*)?N?'(?P<old>[^']+)'\s*,\s*"
        r"(?:@newname\s*=\s*)?N?'(?P<new>[^']+)'",
        _FLAGS,
    ),
    re.compile(
        r"\bsp_rename\b\W*?(?:@objname\s*=\s*)?N?'(?P<old>[^']+)'\s*,\s*(?:@newname\s*=\s*)?"
        r"N?'(?P<new>[^']+)'\s*,\s*(?:@objtype\s*=\s*)?N?'(?P<kind>database)'",
        _FLAGS,
    ),
)
"""SQL Server's, which take the new name as it stands, with any quotes in it."""


class _Rename(NamedTuple):
    """A schema or database that gets another name.

    Attributes:
        kind: `schema` or `database`, as the statement has it.
        old: its name until now, as rows spell it.
        new: its name from now on.
    """

    kind: str
    old: str
    new: str


def check_schema_renames(text: str | None, source: TableSchema, rules: Rules) -> None:
    """See that no tables lose what hides their columns with the name of their schema or database.

    Args:
        text: a statement, None where none is stated.
        source: the table, or only the database, that its message names.
        rules: the mapping.

    Raises:
        ConfigurationError: tables of which columns are masked or left out get names under which
            they would be shown.
    """
    if text is None or not _HINT.search(text):
        return
    for rename in _stated(text, source, rules):
        for pattern, before, now in _samples(rename, source, rules):
            shown = newly_shown(rules, before, now, source.dialect)
            if shown is None:
                continue
            message = (
                f"a statement renames the {rename.kind} {rename.old} to {rename.new}, so that "
                f"{pattern} under map does not fit its tables any more, and {shown} would be "
                f"shown, which the mapping masks or leaves out: name the tables of {rename.new} "
                "under map as well (a pattern may name both), or leave them out under select"
            )
            raise ConfigurationError(message, code=Code.MAPPING)


def _stated(text: str, source: TableSchema, rules: Rules) -> Iterator[_Rename]:
    """What a statement says of names of schemas and databases."""
    for form in (*_STATEMENTS, *_PROCEDURES):
        for found in form.finditer(text):
            kind = "schema" if found["kind"].casefold() == "schema" else "database"
            old, new = _name(found["old"], source.dialect), found["new"]
            if form in _STATEMENTS:
                new = _name(new, source.dialect)
            if kind == "database" and source.dialect == "tsql" and old.casefold() == "current":
                old = source.database or old
            yield _Rename(kind, _as_spelled(old, source, rules), new)


def _name(text: str, dialect: str) -> str:
    parts = name_parts(text)
    if len(parts) != 1:
        # The text of a procedure may have any signs.
        return text
    exact = EXACT.get(dialect)
    return parts[0].text if parts[0].quoted or exact is None else exact(parts[0].text)


def _as_spelled(name: str, source: TableSchema, rules: Rules) -> str:
    """A name as the message or the mapping spells it: a statement may in any case of letters."""
    known = [source.database, source.schema]
    for rule in rules.of_tables:
        for pattern in rule.tables:
            known += pattern.split(".")[:-1]
    if name in known:
        return name
    return next((one for one in known if one and one.casefold() == name.casefold()), name)


def _samples(
    rename: _Rename, source: TableSchema, rules: Rules
) -> Iterator[tuple[str, TableSchema, TableSchema]]:
    """Patterns, and for each a table that it may fit, under its old and its new name."""
    patterns = dict.fromkeys(pattern for rule in rules.of_tables for pattern in rule.tables)
    dialect = source.dialect
    for pattern in patterns:
        *spaces, table = (_plain(part) for part in pattern.split("."))
        database = source.database or (spaces[0] if spaces else None)
        schema = source.schema or (spaces[1] if len(spaces) > 1 else None)
        renamed: list[tuple[_Space, _Space]] = []
        if rename.kind == "schema" and dialect != "mysql":
            renamed += [((database, rename.old), (database, rename.new))]
        if rename.kind == "database" or dialect in ("", "mysql"):
            schemas = dict.fromkeys((schema, None)) if dialect in ("", "mysql") else [schema]
            renamed += [((rename.old, one), (rename.new, one)) for one in schemas]
        for old, new in renamed:
            before, now = (intern_schema(*names, table, (), None, dialect) for names in (old, new))
            if rules.rules_of(before):
                yield pattern, before, now


def _plain(pattern: str) -> str:
    """A name that a pattern fits."""
    return pattern.replace(ANY, "x")
