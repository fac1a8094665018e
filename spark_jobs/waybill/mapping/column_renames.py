"""Statements that rename a column of which a mapping shows nothing.

A mask, and what is dropped, belong to a name. Under another name the values would come to readers
in the clear with the next row, so the batch stops until the file names the new one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from waybill.errors import Code, ConfigurationError
from waybill.mapping.shadows import shadow_of
from waybill.mapping.sql import BLANK, EXACT, SP_RENAME, exact_name, read
from waybill.mapping.statement_tables import table_called, table_named
from waybill.records import intern_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlglot import exp

    from waybill.mapping.table import MappedTable
    from waybill.records import TableSchema

    Find = Callable[[TableSchema], MappedTable | None]

_HINT = re.compile(r"rename|change", re.IGNORECASE)
_NAME = r"(`[^`]+`|\"[^\"]+\"|\[[^\]]+\]|\w[\w$#]*+)"
_IF_EXISTS = rf"(?:if\b{BLANK}\bexists\b{BLANK})?"
_PAIRS = re.compile(
    rf"\brename\b{BLANK}\bcolumn\b{BLANK}{_IF_EXISTS}{_NAME}{BLANK}\bto\b{BLANK}{_NAME}"
    rf"|\bchange\b{BLANK}(?:column\b{BLANK})?{_IF_EXISTS}{_NAME}{BLANK}{_NAME}",
    re.IGNORECASE | re.DOTALL,
)
"""What renames a column in a statement that is not read any further."""
_SP_PARTS = re.compile(r'\[([^\]]+)\]|"([^"]+)"|([^.\[\]"]+)')
"""The parts of the old name that SQL Server's procedure gets."""


class ColumnRename(NamedTuple):
    """A column that gets another name by a statement.

    Attributes:
        table: its table, None where the statement names none.
        old: its name until now, as rows spell it.
        new: its name from now on.
    """

    table: TableSchema | None
    old: str
    new: str


def check_renames(text: str | None, source: TableSchema, find: Find) -> None:
    """See that no column loses what hides its values with its name.

    Args:
        text: a statement, None where none is stated.
        source: the table that its message names.
        find: what becomes of a table.

    Raises:
        ConfigurationError: a column whose values are masked or left out gets a name under which
            they would be shown.
    """
    if text is None or not _HINT.search(text):
        return
    for rename in _renamed(text, source):
        for schema in _asked(source, rename.table):
            table = find(schema)
            if table is None or not table.hides(rename.old) or table.hides(rename.new, exact=True):
                continue
            message = (
                f"a statement renames {rename.old} of {schema.qualified_name}, which the mapping "
                f"masks or drops, to {rename.new}, and under that name its values would be shown: "
                f"name {rename.new} under mask or drop as well (a pattern may name both), or take "
                f"{rename.old} out of there if everybody may see them"
            )
            raise ConfigurationError(message, code=Code.MAPPING)


def _asked(source: TableSchema, named: TableSchema | None) -> Iterator[TableSchema]:
    """The tables that a statement may be about, and those that take a shadow table's columns."""
    # As the message spells it, which is what rows are called.
    same_table = (
        named is None or named.qualified_name.casefold() == source.qualified_name.casefold()
    )
    schema = source if named is None or same_table else named
    yield schema
    original = shadow_of(schema.table or "")
    if original is not None:
        yield intern_schema(schema.database, schema.schema, original, (), None, schema.dialect)


def _renamed(text: str, source: TableSchema) -> list[ColumnRename]:
    """The columns to which a statement gives other names."""
    from sqlglot import exp

    if by_procedure := renames_by_procedure(text, source):
        return by_procedure
    found = read(text, source.dialect)
    if found is None or not isinstance(found.tree, exp.Alter):
        pairs = [[name for name in pair if name] for pair in _PAIRS.findall(text)]
        return [ColumnRename(None, _plain(old, source), _plain(new, source)) for old, new in pairs]
    tree = found.tree
    table_node = tree.find(exp.Table)
    named = None if table_node is None else table_named(table_node, source)
    return [
        ColumnRename(named, exact_name(old, source.dialect), exact_name(new, source.dialect))
        for old, new in renames_in(tree)
    ]


def renames_by_procedure(text: str, source: TableSchema) -> list[ColumnRename]:
    """The columns to which calls of SQL Server's procedure give other names, in their order.

    Args:
        text: a statement, or several.
        source: the table that its message names.
    """
    found = []
    for one in SP_RENAME.finditer(text):
        if (one["kind"] or "").casefold() != "column":
            continue
        if parts := ["".join(part) for part in _SP_PARTS.findall(one["old"])]:
            # The new name is taken as it stands, with any quotes in it.
            found.append(ColumnRename(table_called(parts[:-1], source), parts[-1], one["new"]))
    return found


def renames_in(tree: exp.Alter) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """The names that an ALTER takes from columns, and those that it gives them."""
    from sqlglot import exp

    for action in tree.args.get("actions") or ():
        if isinstance(action, exp.RenameColumn):
            yield action.this, action.args["to"]
        elif isinstance(action, exp.ModifyColumn) and action.args.get("rename_from") is not None:
            yield action.args["rename_from"], action.this


def _plain(name: str, source: TableSchema) -> str:
    if name[0] in '`"[':
        return name[1:-1]
    exact = EXACT.get(source.dialect)
    return name if exact is None else exact(name)
