"""What the merge remembers from batch to batch, beside the tables themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from waybill.errors import Code, ConfigurationError, SchemaChangeError
from waybill.merge.column_changes import ColumnChange
from waybill.merge.columns import MergedColumn
from waybill.merge.renamings import Renamings
from waybill.merge.transactions import Open, RolledBack
from waybill.merge.watermark import Reached, complete, joined
from waybill.order import BEFORE, CHANGE, order_number

if TYPE_CHECKING:
    from collections.abc import Collection


def place_in(order: str) -> str:
    """The text of the position in an order, whatever stands before it."""
    return order.rsplit("/", 1)[1]


def by_position(order: str) -> bool:
    """Whether an order rests on nothing but the position in a topic (see `waybill.order`)."""
    return order.startswith(f"{CHANGE}//")


def only_one(
    name: str, known: tuple[str, str, str] | None, found: set[tuple[str, str, str]]
) -> tuple[str, str, str] | None:
    """The one source table that a qualified name stands for.

    Raises:
        SchemaChangeError: it stands for several, whose rows would become one table's.
    """
    every = sorted({*found, *([] if known is None else [known])})
    if len(every) > 1:
        first, second = (
            " of ".join(repr(part) for part in reversed(parts) if part) for parts in every[:2]
        )
        message = (
            f"two tables of the source are both called {name}: {first}, and {second}; rename one "
            "of them at the source, or give each a topic and a migration of its own"
        )
        raise SchemaChangeError(message, code=Code.TABLE_NAMES)
    return every[0] if every else None


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
        defaults: columns added with a default since `truncated`, oldest statement first.
        dropped: columns that statements dropped since `truncated` and that none added again, with
            the orders of the statements.
        dropped_below: columns that statements dropped since `truncated`, added again or not, with
            the orders of the newest: in a table without key, changes below it are without them.
        places: topics and partitions that brought changes without a sequence id.
        topics: where its changes come from.
        open_rows: whether any row ever depended on more than its newest image.
        highest: highest order of any change of a row.
        came_up: by column that came up when rows were there: the highest order by then. A row up to
            it may lack the column only because nobody knew it.
        stated: types narrower than the column's that the source has stated, by column.
        written: by column by which rows are found, the type that messages state of it, where that
            says with how many digits values are written (`waybill.merge.notations`).
        changes: changes of its columns of the last batch that brought any.
        renamed: what statements renamed, where the migration maps it, oldest first. All else has
            the names of now.
        added: columns that statements added with the name that a renamed one had, with the orders
            of the statements.
    """

    identity: tuple[str, str, str] | None = None
    key: tuple[str, ...] | None = None
    columns: tuple[MergedColumn, ...] = ()
    truncated: str = ""
    defaults: tuple[Default, ...] = ()
    dropped: dict[str, str] = {}
    dropped_below: dict[str, str] = {}
    places: tuple[tuple[str, int], ...] = ()
    topics: tuple[str, ...] = ()
    open_rows: bool = False
    highest: str = ""
    came_up: dict[str, str] = {}
    stated: dict[str, tuple[str, ...]] = {}
    written: dict[str, str] = {}
    changes: tuple[ColumnChange, ...] = ()
    renamed: Renamings = ()
    added: dict[str, str] = {}

    @property
    def reloaded_at(self) -> str | None:
        """The sequence id of the newest TRUNCATE as orders have it, if an older full load began so.

        Loads had rank 0 once, in front of the log's changes with the same id. Now their rank alone
        says that they come after these.
        """
        parts = self.truncated.split("/")
        return parts[1] if parts[2:3] == [order_number(BEFORE)] else None

    def added_again(self, before: TableState) -> list[str]:
        """The columns that statements dropped before and have added again, in words."""
        back = (name for name in before.dropped if name not in self.dropped)
        return [f"{name} added again" for name in back if before.column(name) is not None]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names in the source."""
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> MergedColumn | None:
        """A column by its name in the source, None if the lake has none."""
        return next((column for column in self.columns if column.name == name), None)

    @property
    def placed(self) -> bool:
        """Whether a statement that decides about rows has no order but its position."""
        return any(map(by_position, (self.truncated, *(d.order for d in self.defaults))))

    @property
    def known_names(self) -> tuple[str, ...]:
        """Its columns and those that only statements have named.

        A row that leaves out one of these rests on older changes too: they give it the default.
        """
        return tuple(dict.fromkeys((*self.names, *(d.column for d in self.defaults))))


class HeldTable(msgspec.Struct, frozen=True):
    """A source table whose changes wait for a decision of a person.

    Attributes:
        after: snapshot of `changes` up to which its changes were merged, None if none were.
        batch: the first batch whose changes wait.
        time: when that was merged, seconds since 1970.
        why: the sentence that says what has to be decided, and how.
        reached: how far it was complete then.
        changes: how many of its changes wait.
        file: digest of the migration's file that was tried last; empty where there was none.
    """

    after: int | None
    batch: str
    time: int
    why: str
    reached: Reached = Reached()
    changes: int = 0
    file: str = ""


class MergeState(msgspec.Struct):
    """All source tables of a migration, by qualified name, and what waits."""

    tables: dict[str, TableState] = {}
    open: tuple[Open, ...] = ()
    """Transactions whose rows wait for their end."""
    rolled_back: tuple[RolledBack, ...] = ()
    """Transactions whose rows never show. Few: hardly a source sends what it did not commit."""
    halves: dict[str, Reached] = {}
    """The oldest half of an update that waits for the other one, by table."""
    reached: dict[str, dict[int, Reached]] = {}
    """How far each partition is, by topic."""
    by_source_time: bool | None = None
    """Whether changes without a sequence id were ordered by their source time; None where none has
    come, and in states of before this was remembered."""
    held: dict[str, HeldTable] = {}
    """Tables that wait for a decision."""
    unnumbered: dict[str, dict[int, int]] | None = None
    """Offset of the furthest statement about rows that has no sequence id, by topic and partition;
    None in states of before this was remembered."""

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

    def add_unnumbered(self, topic: str, partition: int, offset: int) -> None:
        """Take in where a statement without a sequence id stands."""
        self.unnumbered = self.unnumbered or {}
        offsets = self.unnumbered.setdefault(topic, {})
        offsets[partition] = max(offset, offsets.get(partition, offset))

    def reach(self, places: dict[tuple[str, int], Reached]) -> None:
        """Take in how far a batch brought partitions."""
        for (topic, partition), reached in places.items():
            partitions = self.reached.setdefault(topic, {})
            partitions[partition] = joined(partitions.get(partition, Reached()), reached)

    def watermark(self, qualified: str) -> Reached:
        """How far a table is complete."""
        if qualified in self.held:
            return self.held[qualified].reached
        ends = self._partitions(self.table(qualified))
        if qualified in self.halves:
            ends = [*ends, self.halves[qualified]]
        return complete(ends, self.open)

    @property
    def ordered_by_time(self) -> bool | None:
        """Whether source times ordered what has no sequence id; None where nothing shows it."""
        return self._found_order() if self.by_source_time is None else self.by_source_time

    def check_order(self, by_source_time: bool, cut: Collection[str] = ()) -> None:
        """Stop where orders that the migration makes now cannot be compared with those in the lake.

        An order by source time is above every order by position. So rows that are there would win
        over all that comes once `source_time` is left. Once it is set they lose, as older ones do,
        but a statement that was placed by its position would no longer be above what it took away,
        and of the changes that were deleted because others hide them some would be the newest.

        Args:
            by_source_time: whether changes without a sequence id take their source time for one.
            cut: the tables of whose rows `retention` has deleted changes.

        Raises:
            ConfigurationError: names the tables and says how to go on.
        """
        was = self.ordered_by_time
        if was and not by_source_time:
            names = [name for name, table in self.tables.items() if table.places] or self.tables
            message = (
                f"changes without a sequence id (tables: {', '.join(sorted(names))}) were merged "
                "by their source time, so changes merged by anything else would all lose: set "
                "order.ambiguous to source_time again, or use a new migration name"
            )
            raise ConfigurationError(message, code=Code.ORDER_RULE_CHANGED)
        placed = [name for name, table in self.tables.items() if table.placed] if not was else []
        if placed and by_source_time:
            message = (
                f"a TRUNCATE, a DROP or the default of a new column of {', '.join(sorted(placed))} "
                "was merged by its position in the topic, so by source time every older change "
                "would count as newer: set order.ambiguous to fail or partition again, or use a "
                "new migration name"
            )
            raise ConfigurationError(message, code=Code.ORDER_RULE_CHANGED)
        lost = [name for name in cut if name in self.tables and self.tables[name].places]
        if lost and was is False and by_source_time:
            message = (
                f"retention has deleted changes of {', '.join(sorted(lost))} that others hide by "
                "their position in the topic, and by source time some of them would be the newest: "
                "set order.ambiguous to fail or partition again, or use a new migration name"
            )
            raise ConfigurationError(message, code=Code.ORDER_RULE_CHANGED)

    def _found_order(self) -> bool | None:
        """What `by_source_time` was, as far as orders show it that were made with it."""
        for table in self.tables.values():
            newest = table.highest or table.truncated
            if not table.places or not newest.startswith(CHANGE):
                continue
            if by_position(newest):
                return False
            if not any(reached.order for reached in self._partitions(table)):
                # Its topics have brought no sequence id, so this one was made of a time.
                return True
        return None

    def _partitions(self, table: TableState) -> list[Reached]:
        """How far the partitions are that bring a table's changes."""
        return [r for topic in table.topics for r in self.reached.get(topic, {}).values()]


def held_summary(state: MergeState) -> dict[str, dict[str, Any]]:
    """Tables that wait, for people who ask: since when, why, and with how many changes."""
    return {
        name: {"since": held.batch, "time": held.time, "why": held.why, "changes": held.changes}
        for name, held in sorted(state.held.items())
    }
