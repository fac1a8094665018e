"""SQL of sources, as sqlglot reads it."""

from __future__ import annotations

import logging
import re
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlglot import exp

DIALECTS = {"mysql": "mysql", "postgresql": "postgres", "oracle": "oracle", "tsql": "tsql"}
"""sqlglot's names for the SQL of sources, by the names that schemas give them."""

EXACT: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {"postgresql": str.lower, "oracle": str.upper}
)
"""What these databases make of a name that is not quoted; the others keep it."""

BLANK = r"(?:\s|/\*.*?\*/|--[^\n]*|#[^\n]*)*+"
"""What may stand before, in and behind a statement: white space and comments."""

NUMBERED = ("SERIAL", "BIGSERIAL", "SMALLSERIAL", "ROWVERSION")
"""Types whose values the database makes itself."""

SP_RENAME = re.compile(
    r"\bsp_rename\b\W*?(?:@objname\s*=\s*)?N?'(?P<old>[^']+)'\s*,\s*(?:@newname\s*=\s*)?"
    r"N?'(?P<new>[^']+)'(?:\s*,\s*(?:@objtype\s*=\s*)?N?'(?P<kind>\w+)')?",
    re.IGNORECASE,
)
"""SQL Server's procedure, of a table where no other kind of thing is stated. The old name of a
column has the table in front."""

_FRONT = re.compile(BLANK, re.DOTALL)


class UnreadableStatement(ValueError):
    """A statement that could not be read."""


def without_front(text: str) -> str:
    """A statement without the comments in front of it."""
    found = _FRONT.match(text)
    return text[found.end() :] if found else text


def dialects_of(dialect: str) -> list[str]:
    """The dialects in which to read a statement, by sqlglot's names.

    Args:
        dialect: the source's; MySQL's and PostgreSQL's are tried where it is not known.
    """
    return [DIALECTS[dialect]] if dialect in DIALECTS else ["mysql", "postgres"]


@lru_cache(maxsize=4)
def parse(text: str, dialect: str) -> exp.Expr | None:
    """A statement; None where it cannot be read.

    Several questions are asked of one statement, each by another module, so its tree is kept for
    all of them: whoever changes it takes a copy.

    Args:
        text: one statement.
        dialect: by sqlglot's name.
    """
    import sqlglot
    from sqlglot.errors import SqlglotError

    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    try:
        tree = sqlglot.parse_one(text, dialect=dialect)
    except SqlglotError:
        return None
    return _with_columns_renamed(tree)


def _with_columns_renamed(tree: exp.Expr) -> exp.Expr:
    """A statement in which `RENAME a TO b` of an ALTER is of a column.

    PostgreSQL may leave out COLUMN. sqlglot then reads a new name of the table, `a`, and an option
    with another one. A table gets its new name without an old one beside it.
    """
    from sqlglot import exp

    if not isinstance(tree, exp.Alter):
        return tree
    actions, options = tree.args.get("actions") or [], tree.args.get("options") or []
    to = [option for option in options if isinstance(option, exp.ToTableProperty)]
    if len(actions) != 1 or len(to) != 1 or not isinstance(actions[0], exp.AlterRename):
        return tree
    names = [actions[0].this, to[0].this]
    if not all(isinstance(name, exp.Table) and len(name.parts) == 1 for name in names):
        return tree
    old, new = (exp.Column(this=name.this) for name in names)
    tree.set("actions", [exp.RenameColumn(this=old, to=new)])
    tree.set("options", [option for option in options if option is not to[0]] or None)
    return tree
