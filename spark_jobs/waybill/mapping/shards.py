"""Tables that become one: what their statements mean, and what is void of a table that was emptied.

A TRUNCATE or DROP of one of them must leave the rows of the others, and no format has a word for
that. So it becomes a DELETE of every row of that table, at its own place in the order: whatever
comes later with a lower order is void, as behind a TRUNCATE.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from waybill.errors import Code, ConfigurationError
from waybill.mapping.splices import Splices
from waybill.mapping.sql import UnreadableStatement, read
from waybill.mapping.statement_tables import name_table, tables_emptied, take_out
from waybill.order import placed_after, sequence_of, time_in_order

if TYPE_CHECKING:
    from sqlglot import exp

    from waybill.mapping.statement_tables import StatementTables
    from waybill.mapping.table import MappedTable

_EMPTIES = re.compile(r"drop|truncate", re.IGNORECASE)

EMPTIED = "its rows of the joined table are deleted"
"""Why a TRUNCATE or DROP of one of the joined tables is skipped."""

VOID = "from before its table was emptied"
"""Why a change is skipped that comes after the TRUNCATE or DROP that it stands before."""

OF_ONE = "statement of one of the joined tables"
"""Why other statements are skipped: they do not hold for the joined table."""


class OfShard(NamedTuple):
    """What a statement or TRUNCATE of one of the joined tables means.

    Attributes:
        emptied: qualified names of the tables that it empties, as the source calls them.
        stays: whether it holds for the joined table.
    """

    emptied: tuple[str, ...] = ()
    stays: bool = False


class EmptiedShards(NamedTuple):
    """Which of the joined tables a statement empties; kept with its row as JSON.

    Attributes:
        tables: qualified names, as the source calls them.
        column: the column with the name of the table that a row is from.
        in_key: whether it is part of the key.
        of: what the joined table is called: its database, schema and name.
    """

    tables: tuple[str, ...]
    column: str
    in_key: bool
    of: tuple[str | None, str | None, str | None]


class Several(NamedTuple):
    """What a statement that empties several tables means, some of which become one with others.

    Attributes:
        emptied: which joined tables lose rows of which of their tables.
        rest: what becomes of the first of the other tables, None where there is none.
        text: the statement about the others, with their new names.
    """

    emptied: tuple[EmptiedShards, ...]
    rest: MappedTable | None = None
    text: str | None = None


class Floor(NamedTuple):
    """Where a table was emptied for the last time.

    Attributes:
        order: the place in the order; everything of the table below it is void.
        time: the source's time in microseconds since 1970, None where it is not known.
        place: topic, partition and offset of a statement without a sequence id.
    """

    order: str
    time: int | None = None
    place: tuple[str, int, int] | None = None

    @property
    def by_position(self) -> bool:
        """Whether nothing but its position orders it."""
        return not sequence_of(self.order)

    def behind(self, newest: str | None) -> Floor:
        """It behind the newest change in front of it that has a sequence id, if there is one."""
        if newest is None or not self.by_position:
            return self
        return self._replace(order=placed_after(self.order, newest))

    def voids(
        self, order: str, time: int | None, place: tuple[str, int, int], by_source_time: bool
    ) -> bool:
        """Whether a change of the table is void.

        Args:
            order: its place in the order.
            time: the source's time of it.
            place: its topic, partition and offset.
            by_source_time: whether times order what has no sequence id.
        """
        if by_source_time and self.by_position and not sequence_of(order):
            return (time_in_order(time), order) < (time_in_order(self.time), self.order)
        ahead = self.place is not None and place[:2] == self.place[:2] and place < self.place
        return order < self.order or ahead


def of_shard(operation: str, text: str | None, mapped: MappedTable) -> OfShard:
    """What an event of one of the joined tables means; see `of_several`, too.

    Args:
        operation: `truncate`, `ddl` or `other`.
        text: the statement, None where none is stated.
        mapped: the table that it is about.

    Raises:
        ConfigurationError: it gives existing rows a value that only this table's rows have.
    """
    from sqlglot import exp

    if operation == "truncate":
        return OfShard((mapped.source.qualified_name,))
    reading = None if operation != "ddl" else read(text or "", mapped.source.dialect)
    if reading is None:
        return OfShard()
    tree = reading.tree
    if isinstance(tree, exp.Alter):
        return OfShard(stays=_holds_for_all(tree, mapped))
    return OfShard(tuple(_emptied(tree, mapped)))


_KEPT_AS = "emptied_tables"


def emptied_as_json(emptied: tuple[EmptiedShards, ...]) -> str:
    """As it is kept with the row of the statement, beside what envelopes carry on."""
    return json.dumps({_KEPT_AS: [one._asdict() for one in emptied]})


def read_emptied(extra: str | None) -> tuple[EmptiedShards, ...]:
    """What `emptied_as_json` kept; nothing where a row has something else there."""
    kept = {} if extra is None or _KEPT_AS not in extra else json.loads(extra)
    return tuple(
        EmptiedShards(**{**one, "tables": tuple(one["tables"]), "of": tuple(one["of"])})
        for one in kept.get(_KEPT_AS, ())
    )


def of_several(text: str | None, tables: StatementTables) -> Several | None:
    """What a statement means that empties several tables; None where it is no such statement.

    It is one of each table that it names, whichever of them its message names. So is one of a
    single table that is not the message's.

    Args:
        text: the statement, None where none is stated.
        tables: what becomes of the tables that it names.

    Returns:
        None, too, where none of the tables becomes one with others.
    """
    dialect = tables.source.dialect
    reading = read(text, dialect) if text and _EMPTIES.search(text) else None
    if text is None or reading is None:
        return None
    spliced = Splices(text, reading, dialect)
    nodes = tables_emptied(spliced.tree)
    found = [tables.of(node) for node in nodes]
    of: dict[str, list[MappedTable]] = {}
    for mapped in found:
        if mapped is not None and mapped.join is not None:
            of.setdefault(mapped.schema.qualified_name, []).append(mapped)
    if not of or (len(nodes) == 1 and found[0] is tables.mapped):
        return None
    emptied = tuple(emptied_by(joined) for joined in of.values())
    kept = [mapped is not None and mapped.join is None for mapped in found]
    rest = next((mapped for mapped, stays in zip(found, kept, strict=True) if stays), None)
    if rest is None:
        return Several(emptied)
    try:
        take_out(spliced, nodes, kept)
        for node in tables_emptied(spliced.tree):
            name_table(spliced, node, tables, rest.schema, in_full=True)
    except UnreadableStatement:
        return Several(emptied)
    spliced.leave_out_comments(executed_only=True)
    made = spliced.text_of()
    return Several(emptied) if made is None else Several(emptied, rest, made)


def emptied_by(tables: list[MappedTable]) -> EmptiedShards:
    """That all rows of some tables go, which become one joined table."""
    first, join = tables[0].schema, tables[0].join
    names = tuple(dict.fromkeys(mapped.source.qualified_name for mapped in tables))
    column, in_key = ("", False) if join is None else (join.column, join.in_key)
    return EmptiedShards(names, column, in_key, (first.database, first.schema, first.table))


def _emptied(tree: exp.Expr, mapped: MappedTable) -> list[str]:
    """The message's table, where the statement empties that alone."""
    return [mapped.source.qualified_name] if len(tables_emptied(tree)) == 1 else []


def _holds_for_all(tree: exp.Alter, mapped: MappedTable) -> bool:
    """Whether an ALTER is one that the merge has to know.

    A new column shows in the rows that have it. A default does not, and a column with another name
    needs a person's decision.
    """
    from sqlglot import exp

    actions = tree.args.get("actions") or ()
    if any(isinstance(action, exp.RenameColumn) for action in actions):
        return True
    given = [
        column.name
        for action in actions
        for column in action.find_all(exp.ColumnDef)
        if isinstance(action, exp.ColumnDef | exp.Schema) and _gives_values(column)
        if mapped.called(column.name) is not None
    ]
    join = mapped.join
    if given and join is not None and not join.shared_defaults:
        message = (
            f"a statement gives the rows of {mapped.source.qualified_name} a value in the new "
            f"column {given[0]} that no message shows, and that is one of the tables that become "
            f"{mapped.schema.qualified_name}: set map.join.defaults: shared if all of them get the "
            "column with this default, or drop the column under map"
        )
        raise ConfigurationError(message, code=Code.MAPPING)
    return bool(given)


def _gives_values(column: exp.ColumnDef) -> bool:
    from sqlglot import exp

    kinds = [constraint.args.get("kind") for constraint in column.args.get("constraints") or ()]
    defaults = [kind for kind in kinds if isinstance(kind, exp.DefaultColumnConstraint)]
    if defaults:
        return not isinstance(defaults[0].this, exp.Null)
    # Without a default existing rows get the type's own, such as 0.
    return any(
        isinstance(kind, exp.NotNullColumnConstraint) and not kind.args.get("allow_null")
        for kind in kinds
    )
