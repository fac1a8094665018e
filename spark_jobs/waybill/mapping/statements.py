"""Statements of mapped tables, with the names that tables and columns have now."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from waybill.mapping.splices import Splices
from waybill.mapping.sql import UnreadableStatement, exact_name, read
from waybill.mapping.statement_tables import kind_of, name_table, tables_emptied, take_out

if TYPE_CHECKING:
    from sqlglot import exp

    from waybill.mapping.statement_tables import StatementTables
    from waybill.mapping.table import MappedTable

# Nothing is given back once it matched: comments end where they end.
_BLANKS = r"\s++|--[^\n]*\n|#[^\n]*\n"
_EXECUTED = r"/\*M?![0-9]*"
"""How a comment begins that MySQL and MariaDB execute from some version on."""
_OF_ROWS = re.compile(
    rf"(?:(?>(?:{_BLANKS}|/\*.*?\*/|\()*)|(?>(?:{_BLANKS}|{_EXECUTED}|/\*.*?\*/|\()*))"
    r"(?:INSERT|UPDATE|DELETE|REPLACE|SELECT|LOAD|MERGE|WITH|CALL|EXECUTE|PREPARE|SET|COPY|VALUES)\b",
    re.IGNORECASE | re.DOTALL,
)
_OF_TABLES = re.compile(
    rf"(?>(?:{_BLANKS}|(?!{_EXECUTED})/\*.*?\*/)*)"
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


def mapped_statement(text: str, tables: StatementTables) -> str | None:
    """A statement with the new names, without what it says of columns that are gone.

    Args:
        text: one statement.
        tables: what becomes of the tables that it names.

    Returns:
        None where it cannot be read, nothing of it is left, it names a default of a column whose
        values are masked, or it changes rows that become other ones.
    """
    own, dialect = tables.mapped, tables.source.dialect
    if own is None or (not own.rows_stay and changes_rows(text, dialect)):
        return None
    reading = read(text, dialect)
    if reading is None or kind_of(reading.tree) not in (*_RENAMED_KINDS, *_SPACES):
        return text if own.schema_stays and not _names_ruled(text, tables) else None
    if kind_of(reading.tree) in _SPACES:
        return text if own.schema_stays else None
    spliced = Splices(text, reading, dialect)
    try:
        return _mapped(spliced, tables, own)
    except UnreadableStatement:
        return None


def _mapped(spliced: Splices, tables: StatementTables, own: MappedTable) -> str | None:
    """See `mapped_statement`.

    Raises:
        UnreadableStatement: nobody knows where something stands in it.
    """
    from sqlglot import exp

    tree = spliced.tree
    nodes = list(tree.find_all(exp.Table))
    found = {id(node): tables.of(node) for node in nodes}
    if isinstance(tree, exp.Alter) and (tree.args.get("kind") or "TABLE") == "TABLE":
        stays = _alter_stays(spliced, tables, own, found.get(id(tree.this)))
    elif isinstance(tree, exp.Drop | exp.TruncateTable):
        emptied = tables_emptied(tree)
        kept = [found[id(node)] is not None for node in emptied]
        stays = any(kept) or not emptied
        if stays:
            take_out(spliced, emptied, kept)
    else:
        stays = own.columns_stay and all(
            _may_be_stated(tree, node, found[id(node)]) for node in nodes
        )
    if not stays:
        return None
    for node in tree.find_all(exp.Table):
        if node.args.get("this") and not _is_index(node):
            name_table(spliced, node, tables, own.schema)
    hides = any(mapped is not None and not mapped.columns_stay for mapped in found.values())
    if hides or spliced.changes:
        spliced.leave_out_comments(executed_only=not hides)
    return spliced.text_of() if spliced.changes else spliced.text


def _alter_stays(
    spliced: Splices, tables: StatementTables, own: MappedTable, about: MappedTable | None
) -> bool:
    """Whether anything of an ALTER TABLE is left, which gets the new names of columns.

    Args:
        spliced: the statement.
        tables: what becomes of the tables that it names.
        own: what becomes of the table that its message names.
        about: what becomes of the one that it alters, None where that is left out.
    """
    from sqlglot import exp

    options = spliced.tree.args.get("options") or ()
    if any(isinstance(option, exp.ToTableProperty) for option in options):
        # Two names of a table where one belongs: nobody knows what is meant.
        return False
    if about is None or (about is not own and not own.columns_stay):
        # The merge goes by the table that the message names.
        return False
    return _actions_left(spliced, tables, about)


_RENAMED_KINDS = ("", "TABLE", "VIEW", "INDEX")
"""Kinds of things that statements define which get new names."""

_SPACES = ("DATABASE", "SCHEMA")
"""Kinds of things that hold tables."""

_OF_NO_TABLE = re.compile(
    rf"(?!.*\b(?:TABLE|VIEW|INDEX|TRIGGER|AS|DO)\b)(?>(?:{_BLANKS}|(?!{_EXECUTED})/\*.*?\*/)*)"
    r"(?:GRANT|REVOKE|FLUSH|BEGIN|COMMIT|ROLLBACK|"
    r"(?:CREATE|ALTER|DROP|RENAME|SET)\s+(?:USER|ROLE|DATABASE|SCHEMA|PASSWORD|TABLESPACE))\b",
    re.IGNORECASE | re.DOTALL,
)
"""How statements begin that tell nothing of tables."""

_NAME = r"(?:`[^`]+`|\"[^\"]+\"|\[[^\[\]]+\]|\w[\w$#]*+)"
_NAMES = re.compile(rf"'[^']*'|({_NAME}(?>(?:\s*\.\s*{_NAME})*))", re.DOTALL)


def _names_ruled(text: str, tables: StatementTables) -> bool:
    """Whether a statement that cannot be read may name a table that becomes another one."""
    if _OF_NO_TABLE.match(text):
        return False
    for found in _NAMES.finditer(text):
        parts = [part.strip('`"[]') for part in re.findall(_NAME, found[1] or "")]
        # The last part may be a column.
        for named in (tables.named(parts), tables.named(parts[:-1])):
            if named is not None and named is not tables.source and tables.ruled(named):
                return True
    return False


def _is_index(node: exp.Table) -> bool:
    """Whether it is the index of a DROP INDEX, which is not a table."""
    from sqlglot import exp

    return isinstance(node.parent, exp.Drop) and kind_of(node.parent) == "INDEX"


def _may_be_stated(tree: exp.Expr, node: exp.Table, mapped: MappedTable | None) -> bool:
    """Whether a statement that is neither ALTER nor DROP of a table may show what it says of one.

    What a table is created with shows in its rows; a mask would have to hold in it.
    """
    from sqlglot import exp

    reference = node.find_ancestor(exp.Reference)
    if mapped is None:
        return reference is not None
    if not _defines(tree):
        return mapped.rows_stay
    if reference is None:
        return mapped.columns_stay
    return _keeps_names(reference, node, mapped)


def _keeps_names(reference: exp.Expr, node: exp.Table, mapped: MappedTable | None) -> bool:
    """Whether the columns that a foreign key refers to are called as before."""
    from sqlglot import exp

    names = [one.name for one in reference.find_all(exp.Identifier) if one.parent is not node]
    return mapped is not None and all(mapped.called(name) == name for name in names)


def changes_rows(text: str, dialect: str) -> bool:
    """Whether a statement is about rows and defines nothing.

    One that cannot be read is about rows unless it begins as one that defines something.
    """
    found = read(text, dialect)
    return _OF_TABLES.match(text) is None if found is None else not _defines(found.tree)


def _defines(tree: exp.Expr) -> bool:
    from sqlglot import exp

    return isinstance(tree, exp.Create | exp.Alter | exp.Drop | exp.TruncateTable)


def _actions_left(spliced: Splices, tables: StatementTables, about: MappedTable) -> bool:
    """Rename columns in what an ALTER does, and take out what is about others.

    What names a column in a way that is not known here goes as well, if that column has another
    name or is hidden: nothing is stated under a name that readers do not have.

    Args:
        spliced: the statement.
        tables: what becomes of the tables that it names.
        about: what becomes of the table that it alters.
    """
    from sqlglot import exp

    tree, dialect = spliced.tree, tables.source.dialect
    places = spliced.actions(tree.this)
    stays = [True] * len(places)
    left: list[exp.Expr] = []
    renamed: list[tuple[exp.Identifier, str]] = []
    for action in tree.args.get("actions") or ():
        known, others = _columns_named(action)
        names = [exact_name(node, dialect) for node in known]
        now = [about.called(name) for name in names]
        rest = [exact_name(node, dialect) for node in others]
        safe = all(about.called(name) == name for name in rest)
        safe = safe and _keeps_other_names(action, spliced.text, tables, about)
        if None in now or not safe:
            start, _ = spliced.span([*known, *others] or action.find_all(exp.Literal))
            at = [number for number, (_, end) in enumerate(places) if start < end]
            if not at:
                return False
            stays[at[0]] = False
            continue
        renamed += [
            (node, new)
            for node, name, new in zip(known, names, now, strict=True)
            if new is not None and new != name
        ]
        left.append(action)
    if not left or not any(stays):
        return False
    spliced.leave_out(places, stays)
    for node, new in renamed:
        spliced.rename(node, new)
    tree.set("actions", left)
    return True


def _keeps_other_names(
    action: exp.Expr, text: str, tables: StatementTables, about: MappedTable
) -> bool:
    """Whether what an action says without naming a column of its table may stay.

    Args:
        action: of an ALTER.
        text: the whole statement.
        tables: what becomes of the tables that it names.
        about: what becomes of the table that it alters.
    """
    from sqlglot import exp

    for reference in action.find_all(exp.Reference):
        node = reference.find(exp.Table)
        if node is not None and not _keeps_names(reference, node, tables.of(node)):
            return False
    if about.schema.table != about.source.table and any(
        column.args.get("table") is not None for column in action.find_all(exp.Column)
    ):
        # Its old name in front of a column.
        return False
    values = (
        *(exp.DefaultColumnConstraint, exp.CommentColumnConstraint, exp.CollateColumnConstraint),
        *(exp.CharacterSetColumnConstraint, exp.DataType, exp.Property),
    )
    # In MySQL's SQL it depends on the server whether "a" is a text or a column.
    return not any(
        about.called(one.name) != one.name
        for one in action.find_all(exp.Literal)
        if one.is_string
        and text[one.meta.get("start", 0)] == '"'
        and not isinstance(one.parent, values)
    )


def _columns_named(action: exp.Expr) -> tuple[list[exp.Identifier], list[exp.Identifier]]:
    """The names of columns in what an ALTER does, and those that may be of anything."""
    from sqlglot import exp

    of_column = (exp.Column, exp.ColumnDef, exp.ColumnPrefix, exp.AlterColumn, exp.ModifyColumn)
    of_columns = (exp.PrimaryKey, exp.ForeignKey)
    known: list[exp.Identifier] = []
    others: list[exp.Identifier] = []
    for node in action.find_all(exp.Identifier):
        parent = node.parent
        if isinstance(parent, exp.Table) or node.find_ancestor(exp.Reference) is not None:
            continue
        if node.arg_key == "table" and isinstance(parent, exp.Column):
            continue
        own = isinstance(parent, of_column) or (
            isinstance(parent, of_columns) and node.arg_key == "expressions"
        )
        (known if own else others).append(node)
    return known, others
