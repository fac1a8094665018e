"""The columns of tables, as the messages that were taken showed them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.caches import Bounded

if TYPE_CHECKING:
    from waybill.records import Column, TableSchema
    from waybill.tables import TableName

_MAX_COLUMNS = 2_000
"""Of tables with more nothing is known from one message to the next, since each new column replaces
everything that is known of its table; databases allow 1,000 to 1,600 columns."""


class News(Exception):
    """A message tells something that is not known.

    Attributes:
        apart: whether no other message of its table is settled, nor will those of another table
            be read otherwise for it.
    """

    def __init__(self, apart: bool = False) -> None:
        super().__init__()
        self.apart = apart


class Memory:
    """The columns of tables, as the messages that were taken showed them.

    Attributes:
        held: whether nothing may be added.
        started_over: whether tables were forgotten, of which something may be left elsewhere.
        additions: how many times something was added.
    """

    def __init__(self) -> None:
        self.held = False
        self.additions = 0
        self.started_over = False
        self._columns: Bounded[TableName, tuple[Column, ...]] = Bounded()

    def known(self, name: TableName) -> dict[str, Column]:
        """The columns of a table; none where it is not known, or has had too many."""
        columns = self._columns.get(name, ())
        return {} if len(columns) > _MAX_COLUMNS else {c.name: c for c in columns}

    def knows(self, schema: TableSchema) -> bool:
        """Whether a table has just the columns of a schema, as far as is known by now."""
        return self._columns.get(_name_of(schema), ()) == schema.columns

    def keep(self, schema: TableSchema) -> None:
        """Know a table by the schema of a message that is taken.

        Raises:
            News: nothing may be added.
        """
        name = _name_of(schema)
        before = self._columns.get(name)
        if before == schema.columns:
            return
        self.add(first=before is None and self._columns.roomy)
        over = self._columns.starts_over_with(name, schema.columns)
        self.started_over = self.started_over or over
        self._columns[name] = schema.columns

    def add(self, first: bool = False) -> None:
        """Say that something will be added.

        Args:
            first: whether it is all that is known of a table.

        Raises:
            News: it may not.
        """
        if self.held:
            raise News(first and not self.started_over)
        self.additions += 1


def _name_of(schema: TableSchema) -> TableName:
    return schema.database, schema.schema, schema.table or ""


class Form:
    """What is known of messages of one form."""

    _met = False

    def repeats(self) -> bool:
        """Whether it was asked before, so that making the known-table way for such messages pays.

        That takes a thousand times as long as reading one message closely, and tables of ever new
        columns would make it for every message.
        """
        met, self._met = self._met, True
        return met
