"""SQL of sources, as sqlglot reads it."""

from __future__ import annotations

import logging
import re
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sqlglot import Dialect, exp

DIALECTS = {"mysql": "mysql", "postgresql": "postgres", "oracle": "oracle", "tsql": "tsql"}
"""sqlglot's names for the SQL of sources, by the names that schemas give them."""

EXACT: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {"postgresql": str.lower, "oracle": str.upper}
)
"""What these databases make of a name that is not quoted; the others keep it."""

BLANK = r"(?>(?:\s++|/\*.*?\*/|--[^\n]*|#[^\n]*)*)"
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


class ParsedStatement(NamedTuple):
    """What a statement says in one of the ways to read it.

    Attributes:
        tree: the statement; it is shared, so whoever changes it takes a copy.
        way: how it is read: sqlglot's name of the SQL, or `ANSI_QUOTES`.
    """

    tree: exp.Expr
    way: str

    @property
    def dialect(self) -> str:
        """The SQL, by sqlglot's name."""
        return "mysql" if self.way == ANSI_QUOTES else self.way


ANSI_QUOTES = "mysql with ansi_quotes"
"""MySQL's SQL with double quotes around names."""


def _ways(dialect: str) -> list[str]:
    """The ways to read a statement of a source's dialect, the most likely one first."""
    if dialect not in DIALECTS:
        return ["mysql", "postgres", ANSI_QUOTES]
    known = DIALECTS[dialect]
    return [known, ANSI_QUOTES] if known == "mysql" else [known]


def read(text: str, dialect: str) -> ParsedStatement | None:
    """A statement; None where it cannot be read as a whole.

    Args:
        text: one statement.
        dialect: the source's (`mysql`, `postgresql`); MySQL's and PostgreSQL's are tried where it
            is not known.
    """
    return next(readings(text, dialect), None)


def readings(text: str, dialect: str) -> Iterator[ParsedStatement]:
    """The ways in which a statement can be read as a whole, the most likely one first.

    In MySQL's SQL "a" is a text, unless the server takes it for a name, as others do. Where a text
    would stand in the place of a name, the statement is not meant in this way.

    Args:
        text: one statement.
        dialect: see `read`.
    """
    from sqlglot import exp

    for way in _ways(dialect):
        tree = parse(text, way)
        if tree is not None and tree.find(exp.Command) is None and _has_names(tree, text, way):
            yield ParsedStatement(tree, way)


def partly_read(text: str, dialect: str) -> Iterator[ParsedStatement]:
    """The ways to read a statement of which one part may be unreadable; see `readings`."""
    for way in _ways(dialect):
        tree = parse(text, way)
        if tree is not None and _has_names(tree, text, way):
            yield ParsedStatement(tree, way)


def _has_names(tree: exp.Expr, text: str, way: str) -> bool:
    """Whether what stands in the place of a name is one, and no text in quotes."""
    from sqlglot import exp

    if not isinstance(tree, exp.Alter | exp.Create | exp.Drop | exp.TruncateTable):
        # What changes rows may call a column by a text.
        return True
    places = (
        *(exp.Column, exp.ColumnDef, exp.ColumnPosition, exp.AlterColumn, exp.ModifyColumn),
        *(exp.RenameColumn, exp.Drop, exp.Table, exp.Schema, exp.Constraint, exp.PrimaryKey),
        *(exp.ForeignKey, exp.Ordered),
    )
    values = ("default", "comment", "using")
    texts = (one for one in tree.find_all(exp.Literal) if one.arg_key not in values)
    if any(one.is_string and isinstance(one.parent, places) for one in texts):
        return False
    of_texts = "'\"" if way == "mysql" else "'"
    names = (one for one in tree.find_all(exp.Identifier) if one.arg_key != "alias")
    return not any(text[one.meta.get("start", 0)] in of_texts for one in names)


def exact_name(node: exp.Expr, dialect: str) -> str:
    """A name of a statement, as rows spell it.

    Args:
        node: the name.
        dialect: the source's.
    """
    from sqlglot import exp

    name = node if isinstance(node, exp.Identifier) else node.find(exp.Identifier)
    exact = EXACT.get(dialect)
    return node.name if exact is None or name is None or name.quoted else exact(node.name)


@lru_cache(maxsize=16)
def parse(text: str, way: str) -> exp.Expr | None:
    """A statement; None where it cannot be read.

    Several questions are asked of one statement, each by another module, so its tree is kept for
    all of them: whoever changes it takes a copy.

    Args:
        text: one statement.
        way: see `ParsedStatement`.
    """
    import sqlglot
    from sqlglot.errors import SqlglotError

    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    try:
        tree = sqlglot.parse_one(text, dialect=sqlglot_dialect(way))
    except SqlglotError:
        return None
    return _with_columns_renamed(tree)


@lru_cache(maxsize=1)
def _with_ansi_quotes() -> type[Dialect]:
    from sqlglot.dialects.mysql import MySQL

    class AnsiQuotes(MySQL):
        class Tokenizer(MySQL.Tokenizer):
            QUOTES: ClassVar = ["'"]
            IDENTIFIERS: ClassVar = ["`", '"']

    return AnsiQuotes


def sqlglot_dialect(way: str) -> str | type[Dialect]:
    """What sqlglot is given to read or cut a statement; see `ParsedStatement`."""
    return _with_ansi_quotes() if way == ANSI_QUOTES else way


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
