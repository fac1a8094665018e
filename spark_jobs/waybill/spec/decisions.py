"""What a migration has decided about changes of columns, before they happen."""

from __future__ import annotations

from typing import NamedTuple

from waybill.name_patterns import matches_any

ADD, WIDEN, NARROW, RETYPE, RENAME, DROP = "add", "widen", "narrow", "retype", "rename", "drop"
CLASSES = (ADD, WIDEN, NARROW, RETYPE, RENAME, DROP)
"""Classes of changes, by their fields in a migration's file."""

TABLE = "table"
"""What stops at a change that a person decides about, unless it is the whole `migration`."""

MAP = "map"
"""The decision that a renamed column is the same one under its new name."""

STOP = "stop"
"""The decision that a person decides when it happens."""


class ColumnDecision(NamedTuple):
    """What becomes of each class of changes of a table's columns.

    Attributes:
        add: a new column: `take` or `stop`.
        widen: a type that holds more, to which the column can be promoted: `take` or `stop`.
        narrow: a type whose values the column holds already: `keep` or `stop`.
        retype: any other type: `rewrite` or `stop`.
        rename: another name: `map`, `beside` or `stop`.
        drop: a column that is gone: `keep` or `stop`.
        stops_what: what stops where a person decides: the `table`, or the whole `migration`.
    """

    add: str = "take"
    widen: str = "take"
    narrow: str = "keep"
    retype: str = STOP
    rename: str = STOP
    drop: str = "keep"
    stops_what: str = TABLE

    def stops(self, change: str) -> bool:
        """Whether a person decides about a class of changes."""
        return self._asdict()[change] == STOP  # type: ignore[no-any-return]


UNDECIDED = ColumnDecision()
"""What holds for a table that a migration's file says nothing of."""


class Decisions(NamedTuple):
    """What is decided, by names or patterns of tables; the first that names a table decides.

    Attributes:
        of_tables: patterns with decisions.
        joined: names or patterns of the tables that several of the source become.
    """

    of_tables: tuple[tuple[tuple[str, ...], ColumnDecision], ...] = ()
    joined: tuple[str, ...] = ()

    def find(self, qualified: str) -> ColumnDecision:
        """What is decided for a table of the lake."""
        for patterns, decision in self.of_tables:
            if matches_any(qualified, patterns):
                return decision
        return UNDECIDED

    def joins(self, qualified: str) -> bool:
        """Whether several tables of the source become a table of the lake."""
        return matches_any(qualified, self.joined)


NOTHING_DECIDED = Decisions()
