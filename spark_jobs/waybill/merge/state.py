"""What the merge remembers from batch to batch, beside the tables themselves."""

from __future__ import annotations

import msgspec

from waybill.merge.columns import Column
from waybill.merge.transactions import Open


class Default(msgspec.Struct, frozen=True):
    """A column that a statement added with a value for the rows that were there.

    Attributes:
        order: the statement's place in the total order.
        column: the column's name in the source.
        text: exact text of the value.
    """

    order: str
    column: str
    text: str


class TableState(msgspec.Struct):
    """One source table.

    Attributes:
        key: names of its key columns, in key order; None before the first row.
        columns: its columns in the lake, in the order they came up.
        truncated: order of the newest TRUNCATE; everything with a lower order is void.
        defaults: columns added with a default.
        places: topics and partitions that brought changes without a sequence id.
        open_rows: whether any row ever depended on more than its newest image.
    """

    key: tuple[str, ...] | None = None
    columns: tuple[Column, ...] = ()
    truncated: str = ""
    defaults: tuple[Default, ...] = ()
    places: tuple[tuple[str, int], ...] = ()
    open_rows: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names in the source."""
        return tuple(column.name for column in self.columns)


class MergeState(msgspec.Struct):
    """All source tables of a migration, by qualified name, and what waits."""

    tables: dict[str, TableState] = {}
    open: tuple[Open, ...] = ()
    """Transactions whose rows wait for their end."""

    def to_json(self) -> str:
        """As it is kept with the batch."""
        return msgspec.json.encode(self).decode()

    @staticmethod
    def from_json(text: str) -> MergeState:
        """What `to_json` wrote."""
        return msgspec.json.decode(text, type=MergeState)

    def table(self, qualified: str) -> TableState:
        """The state of a table, made when it is first asked for."""
        return self.tables.setdefault(qualified, TableState())
