"""Which operation a statement is, by its verb and what that is about.

Comments and blanks before and between the words are passed over, and so are the words that say how
it is to be done (`ALTER ONLINE TABLE`, `ALTER IGNORE TABLE`, `CREATE OR REPLACE TEMPORARY TABLE`).
A comment that MySQL executes (`/*! … */`) is none.

Source of the grammar: MySQL's and MariaDB's manuals, "ALTER TABLE", "CREATE TABLE", "CREATE INDEX",
"DROP TABLE" and "RENAME TABLE"; Oracle's "CREATE TABLE" and "CREATE INDEX".
"""

from __future__ import annotations

import re

# Nothing is given back once it matched (`(?>`): a statement that is none is recognised in one pass.
NAME = r"`(?>(?:[^`]++|``)+)`|\"(?>(?:[^\"]++|\"\")+)\"|[\w$]++"
# Oracle has names with # in them, so a comment that begins with it stands behind a blank.
COMMENT = r"/\*(?!!)(?>(?:[^*]++|\*(?!/))*)\*/|--[^\n]*+|(?:(?<=[\s;])|\A)\#[^\n]*+"
GAP = rf"(?>\s++|{COMMENT})"
GAPS = rf"(?>{GAP}*)"

_HOW = (
    "or|replace|temporary|temp|global|local|private|unlogged|external|online|offline|ignore"
    "|unique|fulltext|spatial|bitmap|clustered|nonclustered"
)
_DEFINES = re.compile(
    rf"{GAPS}(create|alter|drop|rename)(?>(?:{GAP}{GAPS}(?:{_HOW})(?![\w$]))*)"
    rf"{GAP}{GAPS}(table|index|database|schema)s?+(?![\w$])",
    re.IGNORECASE,
)
_OPERATIONS = {
    ("create", "table"): "CREATE",
    ("create", "index"): "CINDEX",
    ("alter", "table"): "ALTER",
    ("drop", "table"): "ERASE",
    ("drop", "index"): "DINDEX",
    ("rename", "table"): "RENAME",
}


def defined_by(statement: str | None) -> tuple[str, str] | None:
    """The verb of a DDL statement and what it is about, in small letters; None for others."""
    match = _DEFINES.match(statement or "")
    return None if match is None else (match[1].lower(), match[2].lower())


def operation_of(statement: str | None) -> str:
    """The operation of a DDL statement as Canal and StreamX name it; everything else is QUERY.

    A statement that truncates and is no TRUNCATE of a table empties a partition of one, so it is a
    QUERY.
    """
    defined = defined_by(statement)
    return "QUERY" if defined is None else _OPERATIONS.get(defined, "QUERY")
