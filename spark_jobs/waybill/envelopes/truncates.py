"""Tells a TRUNCATE from other statements, and which table it emptied.

OMS Default has no record type of its own for it; other formats have one, whose statement has to be
of the same table. A statement that only begins like one (a partition, a storage clause, `/*! … */`)
is left the DDL that it is.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from waybill.envelopes.statements import COMMENT, GAP, GAPS, NAME
from waybill.errors import Refusal

_TRUNCATE = re.compile(
    rf"{GAPS}truncate(?![\w$])(?:{GAP}{GAPS}table(?![\w$]))?{GAPS}"
    rf"(?:({NAME}){GAPS}\.{GAPS})?({NAME}){GAPS}(?:;{GAPS})?",
    re.IGNORECASE,
)


_QUOTED = re.compile(
    r"`(?>(?:[^`]++|``)*)`|\"(?>(?:[^\"]++|\"\")*)\"|'(?>(?:[^']++|'')*)'" rf"|{COMMENT}"
)
_PARTITION = re.compile(r"(?<![\w$])(?:sub)?partitions?(?![\w$])", re.IGNORECASE)


class Emptied(NamedTuple):
    """The table that a TRUNCATE names.

    Attributes:
        database: its qualifier, None where it has none.
        table: its name.
    """

    database: str | None
    table: str


def emptied(text: str, db_type: str | None) -> Emptied | None:
    """The table that a statement truncates; None if it is another statement.

    Args:
        text: the statement.
        db_type: `dbType` of the message; Oracle means `T` by a name `t` without quotes.
    """
    match = _TRUNCATE.fullmatch(text)
    if match is None:
        return None
    upper = db_type is not None and db_type.upper().endswith("ORACLE")
    database, table = match.groups()
    return Emptied(None if database is None else _bare(database, upper), _bare(table, upper))


def of_partition(text: str | None, db_type: str | None) -> bool:
    """Whether a statement empties a partition, so that a message of it is no TRUNCATE of a table.

    Args:
        text: the statement, which may be missing.
        db_type: see `emptied`.
    """
    if not text or emptied(text, db_type) is not None:
        return False
    return _PARTITION.search(_QUOTED.sub(" ", text)) is not None


def _bare(name: str, upper: bool) -> str:
    quote = name[0]
    if quote in '`"':
        return name[1:-1].replace(quote * 2, quote)
    return name.upper() if upper else name


def table_emptied(
    named: Emptied, database: str | None, table: str | None
) -> tuple[str | None, str]:
    """The database and table of a TRUNCATE, from the statement and from the message.

    Without a name of the table in the message, its database is the one the statement ran in, which
    a qualified name overrules.

    Raises:
        Refusal: the two name different tables; emptying one of them would be a guess.
    """
    if not table:
        return named.database or database, named.table
    if not _same(table, named.table) or not _same(database, named.database):
        stated = ".".join(filter(None, named))
        name = ".".join(filter(None, (database, table)))
        raise Refusal("shape", f"the statement truncates {stated}, and the message names {name}")
    return database or named.database, table


def check_emptied(
    text: str | None, db_type: str | None, place: tuple[str | None, str | None], table: str
) -> None:
    """Refuse the statement of a TRUNCATE that truncates another table than its message names.

    Args:
        text: the statement, which may be missing, or one that is not understood.
        db_type: see `emptied`.
        place: database and schema of the message; a statement may qualify its table by either.
        table: its table.

    Raises:
        Refusal: emptying one of the two tables would be a guess.
    """
    named = emptied(text or "", db_type)
    if named is not None:
        of_schema = place[1] is not None and _same(place[1], named.database)
        table_emptied(named, place[1] if of_schema else place[0], table)


def truncate_statement(
    text: str, db_type: str | None, place: tuple[str | None, str | None], table: str
) -> str:
    """The statement that a TRUNCATE is written with: its own, or one that names its table as here.

    Names are those of the message, so a statement that qualifies its table in another way would be
    one of another table; and one of a partition would be none.
    """
    try:
        check_emptied(text, db_type, place, table)
    except Refusal:
        return truncate_of(place[0], table)
    return truncate_of(place[0], table) if of_partition(text, db_type) else text


def truncate_of(database: str | None, table: str | None) -> str:
    """A statement that truncates a table."""
    names = [name for name in (database, table) if name]
    return "TRUNCATE TABLE " + ".".join(f"`{name.replace('`', '``')}`" for name in names)


def _same(name: str | None, stated: str | None) -> bool:
    """Whether two names can be one; letters' case does not tell in every database."""
    return not name or not stated or name.casefold() == stated.casefold()
