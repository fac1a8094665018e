"""What a batch brings for one table."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from waybill.merge.column_changes import TakenChanges, of_batch
from waybill.merge.renamings import present
from waybill.spec.decisions import RETYPE

if TYPE_CHECKING:
    from waybill.merge.column_changes import ColumnChange
    from waybill.merge.columns import MergedColumn
    from waybill.merge.increment_counts import TableSurvey
    from waybill.merge.renamings import Renaming
    from waybill.merge.state import Default, TableState
    from waybill.merge.statements import Statement

NAMED = 20
"""Changes of columns that a report names of each table."""


class FullReload(NamedTuple):
    """A full reload, as what it does to the rows that are there.

    Attributes:
        order: the place of its TRUNCATE; rows below it are replaced.
        above: order of a statement of the same batch that emptied the table before, if any did.
    """

    order: str
    above: str


@dataclass
class TablePlan:
    """What the batch brings for one table.

    Attributes:
        survey: its changes in numbers.
        before: what was known of the table.
        state: what is known with this batch.
        truncates: orders of the batch's TRUNCATEs.
        reloads: those that full reloads begin with.
        risen: orders of TRUNCATEs and DROPs of before that stand higher with this batch.
        dropped: order of the newest statement of the batch that dropped the table, if any did.
        defaults: columns that the batch's statements added with a default.
        bag: whether the table has no key, so that its rows are counted (`waybill.merge.bags`).
        taken: what is decided about changes of its columns, and those that the batch brings.
        statements: texts of those that altered it, oldest first.
        renamings: what the batch's statements renamed, where it is mapped.
        was: what was known of a table that the batch rebuilds; None of any other.
        keys: keys whose rows the batch rebuilds, where it does not rebuild the table.
    """

    survey: TableSurvey
    before: TableState
    state: TableState
    truncates: list[str] = field(default_factory=list)
    reloads: list[str] = field(default_factory=list)
    risen: list[str] = field(default_factory=list)
    dropped: str = ""
    defaults: list[Default] = field(default_factory=list)
    bag: bool = False
    taken: TakenChanges = field(default_factory=partial(TakenChanges, ""))
    statements: list[str] = field(default_factory=list)
    renamings: list[Renaming] = field(default_factory=list)
    was: TableState | None = None
    keys: frozenset[str] = frozenset()

    @property
    def counted(self) -> bool:
        """Whether its rows are counted: it has no key, or had none when only statements come."""
        return self.bag or (self.before.key == () and not self.survey.rows)

    @property
    def rebuilds(self) -> bool:
        """Whether the batch rebuilds the table, or some of its rows."""
        return self.was is not None or bool(self.keys)

    def count_unordered(self, statement: Statement) -> None:
        """Count a TRUNCATE or DROP among those without order, if it is one."""
        if statement.unordered:
            self.survey.unordered_truncates += 1
            self.survey.places.add((statement.topic, statement.partition))

    def keep_changes(self, batch: str) -> None:
        """Remember what the batch did to the columns, if anything."""
        if self.was is not None:
            # Those that its statements did are known.
            self.state.changes = self.was.changes
        elif self.taken.changes:
            self.state.changes = of_batch(self.taken.changes, self.statements, batch)

    @property
    def accepted(self) -> tuple[ColumnChange, ...]:
        """Changes of its columns that the batch made, unless it rebuilds the table."""
        return self.state.changes if self.taken.changes and self.was is None else ()

    @property
    def column_sentences(self) -> list[str]:
        """What the batch did to the columns, in words, as far as a report names it."""
        sentences = [one.sentence for one in self.accepted]
        named = [*sentences, *self.state.added_again(self.before), *self.rebuilt_columns]
        return named if len(named) <= NAMED else [*named[:NAMED], f"and {len(named) - NAMED} more"]

    @property
    def rebuilt_columns(self) -> list[str]:
        """What becomes of the columns of a table that is rebuilt, in words."""
        if self.was is None:
            return []
        gone = [one.name for one in self.was.columns if self.state.column(one.name) is None]
        new = [one.name for one in self.state.columns if self.was.column(one.name) is None]
        pairs = ((self.was.column(one.name), one) for one in self.state.columns)
        retyped = [
            f"{column.name} is {column.type}, and was {before.type}"
            for before, column in pairs
            if before is not None and before.type != column.type
        ]
        return [
            *(f"{name} is gone" for name in gone),
            *(f"{name} is new" for name in new),
            *retyped,
        ]

    @property
    def retyped(self) -> set[str]:
        """The columns that the batch gives a type to which they cannot be promoted."""
        return {one.column for one in self.taken.changes if one.change == RETYPE}

    @property
    def truncated(self) -> bool:
        """Whether a TRUNCATE or DROP of the batch is newer than every one before."""
        return self.state.truncated > self.before.truncated

    @property
    def reload(self) -> FullReload | None:
        """The full reload that decides what is there, None if something else does."""
        order = max(self.reloads, default="")
        if not self.truncated or self.state.truncated != order:
            return None
        others = [other for other in self.truncates if other not in self.reloads]
        return FullReload(order, max([self.dropped, *self.risen, *others]))

    @property
    def counted_truncate(self) -> bool:
        """Whether it is a change of its own, not the text of another statement."""
        return self.truncated and self.state.truncated in self.truncates

    @property
    def to_fill(self) -> tuple[MergedColumn, ...]:
        """Columns that come into the lake after a statement gave rows a default for them."""
        with_default = {self._now(default.column) for default in self.before.defaults}
        there = set(map(self._now, self.before.names))
        if not there:
            return ()
        return tuple(
            c for c in self.state.columns if c.name in with_default and c.name not in there
        )

    @property
    def moved(self) -> dict[str, str]:
        """The names that columns of the lake get, by those that they have."""
        both = (
            (column.lake, self.state.column(self._now(column.name)))
            for column in self.before.columns
        )
        return {old: new.lake for old, new in both if new is not None and new.lake != old}

    def _now(self, name: str) -> str:
        return present(name, self.renamings)

    @property
    def late_columns(self) -> dict[str, str]:
        """Columns that the batch may bring to rows that lack them, as in `TableState.came_up`."""
        lowest = max(self.survey.lowest, self.state.truncated)
        if not self.survey.rows:
            return {}
        return {name: order for name, order in self.state.came_up.items() if lowest < order}

    @property
    def reached(self) -> str | None:
        """Lowest order of the batch's new statements: rows above it may have to be redone."""
        orders = [default.order for default in self.defaults]
        if self.truncated:
            orders.append(self.state.truncated)
        return min(orders, default=None)
