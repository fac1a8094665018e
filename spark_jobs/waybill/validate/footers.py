"""What the footers of data files tell the gate, so that no query has to count it."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING

from waybill.lake_columns import BOOTSTRAP, MESSAGE_PLACE
from waybill.order import CHANGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waybill.lake import Lake, Span
    from waybill.lake.ordered_rows import RowGroup
    from waybill.validate.profiles import ROW

OK = "ok"
OTHERS = ("refused", "replayed", "skipped", "waiting")
"""Outcomes of rows of `changes` that are neither accepted changes nor schemas."""

_CUTS = (f"{CHANGE}/", f"{CHANGE}//", f"{CHANGE}/0", f"{CHANGE}0")
"""Between these stand, in the order of their bytes: full rows, changes with a sequence id below
zero, changes without one, changes with another one, and nothing."""
_NUMBERED = (1, 3)


class Footers:
    """The row groups of what is judged, as far as their footers tell what is in them.

    Attributes:
        changes: those of accepted changes and of what targets begin with, bounded by
            `MESSAGE_PLACE`; None if that is not stated.
        messages: those of messages to publish by target, bounded by it too; None as above.
        sent: how many messages to publish there are; None as above.
        counted: what `profiles.outcomes` finds; None as above.
    """

    def __init__(self, lake: Lake, changes: Span, outbox: Span) -> None:
        accepted = {"outcome": [OK]}
        bounds = (*MESSAGE_PLACE, "index", "order_key")
        found = lake.row_groups(changes, accepted, bounds, ())
        begun = lake.row_groups(changes, {"outcome": [BOOTSTRAP]}, bounds, ())
        others = lake.row_groups(changes, {"outcome": OTHERS}, (), ())
        self.changes = self.counted = None
        if found is not None and begun is not None:
            self.changes = [_bounded(group, 0) for group in (*found, *begun)]
            self.counted = None if begun or others != [] else _outcomes(found)
        groups = lake.row_groups(outbox, accepted, ("target", *MESSAGE_PLACE), ())
        self.sent = None if groups is None else sum(group.rows for group in groups)
        self.messages = None if groups is None else _by_target(groups)


def _bounded(group: RowGroup, first: int) -> RowGroup:
    """A row group with bounds of places alone."""
    here = slice(first, first + len(MESSAGE_PLACE))
    return group._replace(low=group.low[here], high=group.high[here])


def _by_target(groups: Sequence[RowGroup]) -> dict[str, list[RowGroup]] | None:
    found: dict[str, list[RowGroup]] = {}
    for group in groups:
        if group.low[0] != group.high[0]:
            return None
        found.setdefault(group.low[0], []).append(_bounded(group, 1))
    return found


def _outcomes(groups: Sequence[RowGroup]) -> list[ROW] | None:
    """Accepted changes by topic, as `profiles.outcomes` counts them."""
    rows: Counter[str] = Counter()
    numbered: Counter[str] = Counter()
    for group in groups:
        (topic, *_, index, low), (other, *_, last, high) = group.low, group.high
        ordered = _ordered(low, high)
        # Only of a message with several changes not every row is the first.
        if topic != other or (index, last) != (0, 0) or ordered is None:
            return None
        rows[topic] += group.rows
        numbered[topic] += group.rows if ordered else 0
    return [(topic, OK, count, count, numbered[topic]) for topic, count in rows.items()]


def _ordered(low: str, high: str) -> bool | None:
    """Whether order keys between two bounds have a sequence id; None where some have one."""
    between = bisect_right(_CUTS, low)
    return between in _NUMBERED if between == bisect_right(_CUTS, high) else None
