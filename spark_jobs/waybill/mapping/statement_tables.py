"""The tables that a statement names, and the names that they have now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.mapping.sql import EXACT, UnreadableStatement, exact_name, read
from waybill.records import intern_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sqlglot import exp

    from waybill.mapping.splices import Splices
    from waybill.mapping.table import MappedTable
    from waybill.records import TableSchema


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
    if len(parts) > 2:
        return intern_schema(parts[-3], parts[-2], parts[-1], dialect=source.dialect)
    of_schema = source.schema is not None
    space = parts[-2] if len(parts) > 1 else None
    return intern_schema(
        source.database if of_schema or space is None else space,
        (space or source.schema) if of_schema else None,
        parts[-1],
        dialect=source.dialect,
    )


def spellings_of(schema: TableSchema, patterns: Iterable[str]) -> Iterator[TableSchema]:
    """The tables that a statement may mean by one that it spells in another case of letters.

    Args:
        schema: the table as the statement spells it.
        patterns: names of tables, among them those that it may mean.
    """
    if schema.dialect in EXACT:
        return
    parts = [part for part in (schema.database, schema.schema, schema.table) if part is not None]
    for pattern in patterns:
        names = pattern.split(".")
        if pattern.casefold() == ".".join(parts).casefold():
            parts = names
            break
    for spelled in (parts, [part.upper() for part in parts], [part.lower() for part in parts]):
        *spaces, table = spelled
        database = spaces[0] if schema.database is not None and spaces else None
        space = spaces[-1] if schema.schema is not None and spaces else None
        yield intern_schema(database, space, table, dialect=schema.dialect)


class StatementTables:
    """The tables that a statement names, and what becomes of them.

    Args:
        source: the table that its message names, if any.
        mapped: what becomes of that, None where it is left out.
        find: what becomes of others.
        ruled: whether a mapping says anything of a table's names or columns.
    """

    def __init__(
        self,
        source: TableSchema,
        mapped: MappedTable | None,
        find: Callable[[TableSchema], MappedTable | None],
        ruled: Callable[[TableSchema], bool],
    ) -> None:
        self.source, self.mapped, self._find, self.ruled = source, mapped, find, ruled

    def named(self, parts: Sequence[str]) -> TableSchema | None:
        """The table that the parts of a name mean, None where there are none."""
        named = table_called(parts, self.source)
        return self.source if named is not None and self.is_own(named) else named

    def is_own(self, named: TableSchema) -> bool:
        """Whether a table is the message's, as far as that says which one it is."""
        source = self.source
        if not source.table or (named.table or "").casefold() != source.table.casefold():
            return False
        pairs = ((source.database, named.database), (source.schema, named.schema))
        return all(one is None or one.casefold() == (o or "").casefold() for one, o in pairs)

    def find(self, named: TableSchema) -> MappedTable | None:
        """What becomes of a table, None where it is left out."""
        return self.mapped if named is self.source else self._find(named)

    def of(self, node: exp.Table) -> MappedTable | None:
        """What becomes of a table that a statement names, None where it is left out."""
        named = self.named(_parts(node, self.source))
        return None if named is None else self.find(named)


def _parts(node: exp.Table, source: TableSchema) -> list[str]:
    return [exact_name(part, source.dialect) for part in node.parts]


def kind_of(tree: exp.Expr) -> str:
    """The kind of thing that a statement defines, such as TABLE; nothing where it says none."""
    return str(tree.args.get("kind") or "").upper()


def tables_emptied(tree: exp.Expr) -> list[exp.Table]:
    """The tables of a statement that takes their rows away."""
    from sqlglot import exp

    if isinstance(tree, exp.Drop):
        of_tables = tree.args.get("kind") == "TABLE" and not tree.args.get("temporary")
        return list(tree.find_all(exp.Table)) if of_tables else []
    if isinstance(tree, exp.TruncateTable) and tree.find(exp.Partition) is None:
        return list(tree.find_all(exp.Table))
    if isinstance(tree, exp.Create) and tree.args.get("replace") and kind_of(tree) == "TABLE":
        return list(tree.find_all(exp.Table))[:1]
    return []


def subject(text: str, tables: StatementTables) -> MappedTable | None:
    """What becomes of the one table that a statement is about; None where there is none.

    Args:
        text: one statement.
        tables: what becomes of the tables that it names.
    """
    from sqlglot import exp

    reading = read(text, tables.source.dialect)
    if reading is None or kind_of(reading.tree) not in ("", "TABLE"):
        return None
    tree = reading.tree
    if isinstance(tree, exp.Alter | exp.Create):
        node = tree.this.find(exp.Table)
        return None if node is None else tables.of(node)
    if not isinstance(tree, exp.Drop | exp.TruncateTable):
        return None
    nodes = list(tree.find_all(exp.Table))
    return tables.of(nodes[0]) if len(nodes) == 1 else None


def take_out(spliced: Splices, nodes: Sequence[exp.Table], kept: Sequence[bool]) -> None:
    """Leave out some tables of a statement that lists them.

    Args:
        spliced: the statement.
        nodes: the tables, in their order.
        kept: which of them stay; at least one.
    """
    if all(kept):
        return
    spliced.leave_out([spliced.span(node.parts) for node in nodes], kept)
    for node, stays in zip(nodes, kept, strict=True):
        if not stays:
            node.pop()


def name_table(
    spliced: Splices,
    node: exp.Table,
    tables: StatementTables,
    context: TableSchema,
    in_full: bool = False,
) -> None:
    """Give a table of a statement the name that it has now.

    Args:
        spliced: the statement.
        node: the table.
        tables: what becomes of the tables that it names.
        context: the table that the statement's message names now.
        in_full: whether to spell its database or schema in any case.

    Raises:
        UnreadableStatement: no name means this table there.
    """
    parts = _parts(node, tables.source)
    named = tables.named(parts)
    if named is None:
        return
    mapped = tables.find(named)
    before, now = (named, named) if mapped is None else (mapped.source, mapped.schema)
    own = named is tables.source
    if not in_full and _place(before) == _place(now) and _means(parts, context, now, own):
        return
    names = (now.database, now.schema, now.table)
    known = [name for name in names if name is not None]
    least = max(len(parts), 2 if in_full else 1)
    for count in range(min(least, len(known)), len(known) + 1):
        if _means(known[-count:], context, now, own):
            spliced.rename_table(node, known[-count:])
            return
    raise UnreadableStatement(spliced.text)


def _place(schema: TableSchema) -> tuple[str | None, str | None, str | None]:
    return schema.database, schema.schema, schema.table


def _means(parts: Sequence[str], context: TableSchema, now: TableSchema, own: bool) -> bool:
    """Whether the parts of a name mean a table, in a message that names another one.

    Args:
        parts: of the name.
        context: the table that the message names.
        now: the table that is to be meant.
        own: whether that is the message's, which nothing but its name needs to say.
    """
    found = table_called(parts, context)
    if found is None:
        return False
    if own and (len(parts) == 1 or (context.database is None and context.schema is None)):
        return (found.table or "").casefold() == (now.table or "").casefold()
    return found.qualified_name.casefold() == now.qualified_name.casefold()
