"""When the columns came that conditions ask for, as statements say it.

A message from before a column was there does not have it. If the first statement about the column
behind it adds the column, and gives the rows that are there no value, the column is null in it. If
nobody can know that, the message may as well leave the column out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET

from waybill.mapping.column_renames import renames_by_procedure, renames_in
from waybill.mapping.sql import NUMBERED, exact_name, read
from waybill.mapping.statement_tables import table_named
from waybill.order import FULL_ROW, sequence_of, time_in_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sqlglot import exp

    from waybill.records import Change, TableSchema


class ColumnStatement(NamedTuple):
    """What a statement did to a column.

    Attributes:
        column: its name, as rows spell it.
        null: whether it added the column and the rows that were there have null in it.
        order: the statement's place in the order.
        time: the source's time in microseconds since 1970, None where it is not known.
        place: topic, partition and offset.
    """

    column: str
    null: bool
    order: str
    time: int | None
    place: tuple[str, int, int]

    def is_behind(self, change: Change, by_source_time: bool) -> bool:
        """Whether a change of the table is known to stand before it."""
        order, message = change.order_key, change.message
        if order.startswith(f"{FULL_ROW}/"):
            return True
        if sequence_of(order) and sequence_of(self.order):
            return order < self.order
        if by_source_time and not sequence_of(order) and not sequence_of(self.order):
            return time_in_order(change.source_time) < time_in_order(self.time)
        *queue, offset = self.place
        return [message.topic, message.partition] == queue and message.offset < offset


@dataclass(frozen=True)
class ColumnHistory:
    """What statements did to the columns of tables.

    Attributes:
        statements: by the source's qualified name of the table.
        by_source_time: whether times order what has no sequence id.
        complete: whether all statements that there are have been looked at. As long as they have
            not, none of them decides anything: one that is not known yet may stand in between.
    """

    statements: Mapping[str, tuple[ColumnStatement, ...]] = field(default_factory=dict)
    by_source_time: bool = False
    complete: bool = True

    def came_later(self, column: str, change: Change) -> bool:
        """Whether a column, which a change does not have, was not there yet and is null in it."""
        found = [
            statement
            for statement in self.statements.get(change.schema.qualified_name, ())
            if statement.column.casefold() == column.casefold()
            and statement.is_behind(change, self.by_source_time)
        ]
        # Where times order what has no sequence id, the place does only among equal ones.
        first = min(
            found, key=lambda one: (sequence_of(one.order), one.time or 0, one.order), default=None
        )
        return first is not None and first.null


NO_HISTORY = ColumnHistory()


def columns_left_out(change: Change, asked: Mapping[str, int]) -> list[str]:
    """The columns of a condition that a message names and says nothing of, in one row or both.

    Args:
        change: of a table with a condition.
        asked: the columns of the condition, and their places.
    """
    images = [image for image in (change.before, change.after) if image is not None]
    return [
        name
        for name, place in asked.items()
        if any(getattr(image, f"f{place}") is UNSET for image in images)
    ]


def with_columns_to_come(
    change: Change, asked: Mapping[str, int], history: ColumnHistory
) -> Change:
    """A change whose rows have null in columns that came later.

    Some connectors describe old rows by the columns that the table has now.

    Args:
        change: of a table with a condition.
        asked: the columns of the condition, and their places.
        history: when they came.
    """
    left_out = columns_left_out(change, asked)
    later = [f"f{asked[name]}" for name in left_out if history.came_later(name, change)]
    if not later:
        return change
    before, after = (_with_nulls(image, later) for image in (change.before, change.after))
    return msgspec.structs.replace(change, before=before, after=after)


def _with_nulls(image: Any, fields: Iterable[str]) -> Any:
    if image is None:
        return None
    lacking = [name for name in fields if getattr(image, name) is UNSET]
    return msgspec.structs.replace(image, **dict.fromkeys(lacking)) if lacking else image


def history_of(changes: Iterable[Change]) -> ColumnHistory:
    """What the statements among some changes did to columns."""
    found: dict[str, list[ColumnStatement]] = {}
    for change in changes:
        for table, statement in column_statements(change):
            found.setdefault(table.qualified_name, []).append(statement)
    return ColumnHistory({name: tuple(statements) for name, statements in found.items()})


def column_statements(change: Change) -> Iterator[tuple[TableSchema, ColumnStatement]]:
    """What the statement of a change did to columns, with the table that it altered."""
    from sqlglot import exp

    source = change.schema
    if change.operation != "ddl" or change.ddl_text is None:
        return

    def stated(column: str, null: bool) -> ColumnStatement:
        message = change.message
        place = (message.topic, message.partition, message.offset)
        return ColumnStatement(column, null, change.order_key, change.source_time, place)

    for rename in renames_by_procedure(change.ddl_text, source):
        altered = _as_rows_call_it(rename.table, source)
        yield altered, stated(rename.old, False)
        yield altered, stated(rename.new, False)
    found = read(change.ddl_text, source.dialect)
    if found is None or not isinstance(found.tree, exp.Alter):
        return
    tree, dialect = found.tree, found.dialect
    named = table_named(tree.this, source) if isinstance(tree.this, exp.Table) else None
    altered = _as_rows_call_it(named, source)
    for name, null in _columns(tree, dialect, altered):
        yield altered, stated(name, null)


def _as_rows_call_it(named: TableSchema | None, source: TableSchema) -> TableSchema:
    """The table that a statement names, as the message spells it where it is the same."""
    if named is None or named.qualified_name.casefold() == source.qualified_name.casefold():
        return source
    return named


def _columns(tree: exp.Alter, dialect: str, source: TableSchema) -> Iterator[tuple[str, bool]]:
    """The columns that an ALTER adds, drops and renames, and whether they begin with null."""
    from sqlglot import exp

    for old, new in renames_in(tree):
        yield exact_name(old, source.dialect), False
        yield exact_name(new, source.dialect), False
    for action in tree.args.get("actions") or ():
        if isinstance(action, exp.ColumnDef | exp.Schema):
            for column in action.find_all(exp.ColumnDef):
                yield exact_name(column.this, source.dialect), _is_null(column, dialect)
        elif isinstance(action, exp.Drop):
            for dropped in action.find_all(exp.Column):
                yield exact_name(dropped, source.dialect), False


def _is_null(column: exp.ColumnDef, dialect: str) -> bool:
    """Whether a new column is known to be null in the rows that are there."""
    from sqlglot import exp

    if column.args.get("exists"):
        # IF NOT EXISTS: it may have been there.
        return False
    kinds = [constraint.args.get("kind") for constraint in column.args.get("constraints") or ()]
    harmless = (
        *(exp.CommentColumnConstraint, exp.CollateColumnConstraint, exp.CheckColumnConstraint),
        *(exp.CharacterSetColumnConstraint, exp.UniqueColumnConstraint),
    )
    stated = False
    for kind in kinds:
        if isinstance(kind, exp.NotNullColumnConstraint):
            stated = bool(kind.args.get("allow_null"))
            if not stated:
                return False
        elif isinstance(kind, exp.DefaultColumnConstraint):
            if not isinstance(kind.this, exp.Null):
                return False
        elif not isinstance(kind, harmless):
            return False
    type_ = column.args.get("kind")
    name = "" if type_ is None else str(getattr(type_.this, "name", type_.this))
    if name == exp.DataType.Type.USERDEFINED.name:
        # A domain may have a default.
        return False
    # MySQL's TIMESTAMP may begin with the time of the statement unless it says NULL.
    return name not in NUMBERED and (
        stated or dialect != "mysql" or not name.startswith("TIMESTAMP")
    )
