"""Statements of mapped tables, with the names that tables and columns have now."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from waybill.mapping.sql import dialects_of, parse
from waybill.records import intern_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlglot import exp

    from waybill.mapping.table import MappedTable
    from waybill.records import TableSchema

# Nothing is given back once it matched: comments end where they end.
_BLANKS = r"\s|--[^\n]*\n|#[^\n]*\n"
_EXECUTED = r"/\*M?![0-9]*"
"""How a comment begins that MySQL and MariaDB execute from some version on."""
_OF_ROWS = re.compile(
    rf"(?:(?>{_BLANKS}|/\*.*?\*/|\()*+|(?>{_BLANKS}|{_EXECUTED}|/\*.*?\*/|\()*+)"
    r"(?:INSERT|UPDATE|DELETE|REPLACE|SELECT|LOAD|MERGE|WITH|CALL|EXECUTE|PREPARE|SET|COPY|VALUES)\b",
    re.IGNORECASE | re.DOTALL,
)
_OF_TABLES = re.compile(
    rf"(?>{_BLANKS}|(?!{_EXECUTED})/\*.*?\*/)*+"
    r"(?:(?:CREATE|ALTER|DROP|TRUNCATE|RENAME|COMMENT|ANALYZE|OPTIMIZE|REINDEX|CLUSTER)\b"
    r"|(?:EXEC(?:UTE)?\s+)?(?:\[?\w*\]?\.){0,2}\[?sp_rename\b)",
    re.IGNORECASE | re.DOTALL,
)
"""How a statement begins that defines something, also where the rest cannot be read."""
_TEXTS = ("sql", "query")
"""Fields of a family in which an event repeats a statement."""

_families = msgspec.json.Decoder(dict[str, Any]).decode


def tells_rows(text: str | None, extra: bytes | str | None) -> bool:
    """Whether an event repeats a statement that has values of rows in it.

    Args:
        text: its statement.
        extra: what else came with it.
    """
    texts = [text]
    if extra is not None:
        families = [one for one in _families(extra).values() if isinstance(one, dict)]
        texts += [one.get(name) for one in families for name in _TEXTS]
    return any(isinstance(one, str) and _OF_ROWS.match(one) for one in texts)


def mapped_statement(
    text: str, mapped: MappedTable, find: Callable[[TableSchema], MappedTable | None]
) -> str | None:
    """A statement with the new names, without what it says of columns that are gone.

    Args:
        text: one statement.
        mapped: the table that its message names.
        find: what becomes of other tables that it names.

    Returns:
        None where it cannot be read, nothing of it is left, it names a default of a column whose
        values are masked, or it changes rows that become other ones.
    """
    from sqlglot import exp

    statement = parsed(text, mapped.source.dialect)
    if statement is None:
        return None
    tree, dialect = statement
    if isinstance(tree, exp.Command):
        return None
    if not _defines(tree) and not mapped.rows_stay:
        return None
    tree = tree.copy()
    if isinstance(tree, exp.Alter):
        if any(
            isinstance(option, exp.ToTableProperty) for option in tree.args.get("options") or ()
        ):
            # Two names of a table where one belongs: nobody knows what is meant.
            return None
        if not _actions_left(tree, mapped):
            return None
    if isinstance(tree, exp.Create) and not mapped.columns_stay:
        # What a table is created with is told by its rows; a mask would have to hold in it.
        return None
    for table in list(tree.find_all(exp.Table)):
        _rename_table(table, mapped, find)
    return tree.sql(dialect=dialect)


def changes_rows(text: str, dialect: str) -> bool:
    """Whether a statement is about rows and defines nothing.

    One that cannot be read is about rows unless it begins as one that defines something.
    """
    from sqlglot import exp

    statement = parsed(text, dialect)
    if statement is None or isinstance(statement[0], exp.Command):
        return _OF_TABLES.match(text) is None
    return not _defines(statement[0])


def _defines(tree: exp.Expr) -> bool:
    from sqlglot import exp

    return isinstance(tree, exp.Create | exp.Alter | exp.Drop | exp.TruncateTable)


def parsed(text: str, dialect: str) -> tuple[exp.Expr, str] | None:
    """A statement and the dialect that it is read in; None where it cannot be read.

    The tree is shared, see `waybill.mapping.sql.parse`.

    Args:
        text: one statement.
        dialect: the source's (`mysql`, `postgresql`); both are tried where it is not known.
    """
    read = ((parse(text, name), name) for name in dialects_of(dialect))
    return next(((tree, name) for tree, name in read if tree is not None), None)


def _actions_left(tree: exp.Alter, mapped: MappedTable) -> bool:
    """Rename columns in what an ALTER does, and take out what is about others.

    What names a column in a way that is not known here goes as well, if that column has another
    name or is hidden: nothing is told under a name that readers do not have.
    """
    left: list[Any] = []
    for action in tree.args.get("actions") or ():
        known, others = _columns_named(action)
        now = [mapped.called(node.name) for node in known]
        if None in now or any(mapped.called(node.name) != node.name for node in others):
            continue
        for node, name in zip(known, now, strict=True):
            node.set("this", name)
        left.append(action)
    tree.set("actions", left)
    return bool(left)


def _columns_named(action: exp.Expr) -> tuple[list[exp.Identifier], list[exp.Identifier]]:
    """The names of columns in what an ALTER does, and those that may be of anything."""
    from sqlglot import exp

    of_column = (exp.Column, exp.ColumnDef, exp.ColumnPrefix, exp.AlterColumn, exp.ModifyColumn)
    of_columns = (exp.PrimaryKey, exp.ForeignKey)
    known: list[exp.Identifier] = []
    others: list[exp.Identifier] = []
    for node in action.find_all(exp.Identifier):
        parent = node.parent
        if isinstance(parent, exp.Table):
            continue
        own = isinstance(parent, of_column) or (
            isinstance(parent, of_columns) and node.arg_key == "expressions"
        )
        (known if own else others).append(node)
    return known, others


def table_named(node: exp.Table, source: TableSchema) -> TableSchema | None:
    """The table that a statement names, None where it names none.

    Args:
        node: the name, as far as it is spelled.
        source: the table that the message names.
    """
    return table_called([part.name for part in node.parts], source)


def table_called(parts: Sequence[str], source: TableSchema) -> TableSchema | None:
    """The table that the parts of a name mean, None where there are none; see `table_named`."""
    if not parts:
        return None
    # The part before the table is its schema where the source has some, else its database.
    of_schema = source.schema is not None
    space = parts[-2] if len(parts) > 1 else None
    return intern_schema(
        source.database if of_schema or space is None else space,
        (space or source.schema) if of_schema else None,
        parts[-1],
        dialect=source.dialect,
    )


def _rename_table(
    node: exp.Table, mapped: MappedTable, find: Callable[[TableSchema], MappedTable | None]
) -> None:
    """Give a table of a statement the name that it has now."""
    from sqlglot import exp

    source, parts = mapped.source, [part.name for part in node.parts]
    if not parts:
        return
    if parts[-1].casefold() == (source.table or "").casefold():
        now: TableSchema = mapped.schema
    else:
        other = table_named(node, source)
        found = None if other is None else find(other)
        now = (other or source) if found is None else found.schema
    quoted = node.this.args.get("quoted") if isinstance(node.this, exp.Identifier) else False
    node.set("this", exp.to_identifier(now.table, quoted=quoted))
    if len(parts) > 1:
        space = now.schema if source.schema is not None else now.database
        node.set("db", None if space is None else exp.to_identifier(space, quoted=quoted))
