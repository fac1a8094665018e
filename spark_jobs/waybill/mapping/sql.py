"""SQL of sources, as sqlglot reads it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

DIALECTS = {"mysql": "mysql", "postgresql": "postgres", "oracle": "oracle", "tsql": "tsql"}
"""sqlglot's names for the SQL of sources, by the names that schemas give them."""


def dialects_of(dialect: str) -> list[str]:
    """The dialects in which to read a statement, by sqlglot's names.

    Args:
        dialect: the source's; MySQL's and PostgreSQL's are tried where it is not known.
    """
    return [DIALECTS[dialect]] if dialect in DIALECTS else ["mysql", "postgres"]


def parse(text: str, dialect: str) -> exp.Expr | None:
    """A statement; None where it cannot be read.

    Args:
        text: one statement.
        dialect: by sqlglot's name.
    """
    import sqlglot
    from sqlglot.errors import SqlglotError

    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    try:
        return sqlglot.parse_one(text, dialect=dialect)
    except SqlglotError:
        return None
