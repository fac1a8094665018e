"""The condition of a mapping, asked of rows of the database.

In the lake a condition saw the texts of messages. Canonical texts are others: they have no blanks
at the end of CHARACTER(n) and no zeros at the end of a decimal. So a condition gets the database's
own texts, written as messages write values of the type that the column has there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from waybill.errors import Refusal
from waybill.mapping.conditions import asked_columns, compared_columns, condition
from waybill.types import BOOLEAN, TIMES
from waybill.values.declared import check_for
from waybill.verify.canonical import Text, has_one_text, of_database

if TYPE_CHECKING:
    from waybill.records import TableSchema
    from waybill.types import LogicalType
    from waybill.verify.canonical import SourceColumn
    from waybill.verify.database import Texts

_WORDS = ("string", "enum", "set")
_CALENDAR = ("date", *TIMES)


def message_text(column: SourceColumn, type_: LogicalType) -> Text | None:
    """A function from the database's own text of a value to the one that a condition compares.

    It raises a Refusal where a message with the value is refused.

    Args:
        column: as the database has it.
        type_: what it is in messages, by its declaration if it has one.

    Returns:
        None where messages may write the value in several ways, or in another zone, so that nobody
        knows what the condition said of it.
    """
    if column.array:
        return None
    own = column.type.kind
    if type_.kind in _WORDS:
        # Every digit of a decimal is in the texts of both sides.
        plain = column.padded or column.type.kind in ("decimal", "number") or has_one_text(column)
        return str if plain else None
    if own in _WORDS:
        return check_for(type_) or str
    if type_.is_number:
        return of_database(column) if column.type.is_number else None
    if type_.kind == "boolean":
        if column.type.is_integer:
            return check_for(BOOLEAN)
        return of_database(column) if own == "boolean" else None
    if type_.kind in _CALENDAR:
        return of_database(column) if own == type_.kind else None
    # Of all others a condition asks only whether they are null.
    return str


def uncertain_columns(
    text: str, schema: TableSchema, columns: Sequence[SourceColumn]
) -> tuple[str, ...]:
    """The columns of a condition whose values messages may write in several ways.

    Args:
        text: the condition.
        schema: the table as messages have it.
        columns: as the database has them.
    """
    compared = compared_columns(text, schema)
    types = {column.name: column.type for column in schema.columns}
    return tuple(
        column.name
        for column in columns
        if column.name in compared and message_text(column, types[column.name]) is None
    )


def row_condition(
    text: str, schema: TableSchema, columns: Sequence[SourceColumn]
) -> Callable[[Texts], bool]:
    """Whether the migration takes a row that was read, by its condition.

    Args:
        text: the condition, of which no column is uncertain.
        schema: the table as messages have it.
        columns: those that are read.
    """
    holds = condition(text, schema)
    places = {column.name: place for place, column in enumerate(columns)}
    asked = []
    for name, at in asked_columns(text, schema).items():
        read = message_text(columns[places[name]], schema.columns[at].type) or str
        asked.append((f"f{at}", places[name], read))

    def taken(row: Texts) -> bool:
        try:
            values = {
                field: None if (own := row[place]) is None else read(own)
                for field, place, read in asked
            }
            return holds(schema.Image(**values)) is True
        except Refusal:
            # Its change was refused, so the lake lacks the row: that is to be seen.
            return True

    return taken
