"""What the merge remembers from batch to batch, beside the tables themselves."""

from __future__ import annotations

import msgspec

from waybill.merge.columns import Column
from waybill.merge.transactions import Open
from waybill.merge.watermark import Reached, complete, joined


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
        identity: its database, schema and table; None before the first row of a message.
        key: names of its key columns, in key order; None before the first row.
        columns: its columns in the lake, in the order they came up.
        truncated: order of the newest TRUNCATE; everything with a lower order is void.
        defaults: columns added with a default.
        places: topics and partitions that brought changes without a sequence id.
        topics: where its changes come from.
        open_rows: whether any row ever depended on more than its newest image.
        highest: highest order of any change of a row.
        came_up: by column that came up when rows were there: the highest order by then. A row up to
            it may lack the column only because nobody knew it.
    """

    identity: tuple[str, str, str] | None = None
    key: tuple[str, ...] | None = None
    columns: tuple[Column, ...] = ()
    truncated: str = ""
    defaults: tuple[Default, ...] = ()
    places: tuple[tuple[str, int], ...] = ()
    topics: tuple[str, ...] = ()
    open_rows: bool = False
    highest: str = ""
    came_up: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names in the source."""
        return tuple(column.name for column in self.columns)

    @property
    def told(self) -> tuple[str, ...]:
        """Its columns and those that only statements have told of.

        A row that leaves out one of these rests on older changes too: they give it the default.
        """
        return tuple(dict.fromkeys((*self.names, *(d.column for d in self.defaults))))


class MergeState(msgspec.Struct):
    """All source tables of a migration, by qualified name, and what waits."""

    tables: dict[str, TableState] = {}
    open: tuple[Open, ...] = ()
    """Transactions whose rows wait for their end."""
    reached: dict[str, dict[int, Reached]] = {}
    """How far each partition is, by topic."""

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

    def reach(self, places: dict[tuple[str, int], Reached]) -> None:
        """Take in how far a batch brought partitions."""
        for (topic, partition), reached in places.items():
            partitions = self.reached.setdefault(topic, {})
            partitions[partition] = joined(partitions.get(partition, Reached()), reached)

    def watermark(self, qualified: str) -> Reached:
        """How far a table is complete."""
        topics = self.table(qualified).topics
        found = [r for topic in topics for r in self.reached.get(topic, {}).values()]
        return complete(found, self.open)
