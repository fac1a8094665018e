"""What became of each change of one row, and why: the rules, change by change."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from waybill.full_load import TOPIC
from waybill.merge.rules import WHOLE, Change, effects
from waybill.order import sequence_of

if TYPE_CHECKING:
    from waybill.merge.renamings import Renamings

Place = tuple[str, int, int, int]

NOT_MERGED = "not merged yet"
"""What is said of a change that no visible merge has taken yet."""


LEFT = "the newest one that is left"
"""What is said of a change as of a time from which others may be missing."""


class Merged(NamedTuple):
    """What the merge knows of a row's table.

    Attributes:
        truncated: order of the newest TRUNCATE, DROP or reload.
        names: the table's columns.
        refused: why changes were refused, by place.
        waiting: places of changes whose transaction is open or was rolled back.
        unmerged: places of changes that no visible merge has taken yet.
        renamed: what statements renamed in it.
        whole: whether all changes are there. Of those that `retention` deletes none is the newest
            of its row, and none gives it anything.
    """

    truncated: str = ""
    names: frozenset[str] = frozenset()
    refused: Mapping[Place, str] = {}
    waiting: Mapping[Place, str] = {}
    unmerged: Container[Place] = frozenset()
    renamed: Renamings = ()
    whole: bool = True


def explain(key: str, changes: Iterable[Change], merged: Merged) -> dict[Place, str]:
    """A sentence for every change that touched a key, by the change's place.

    Args:
        key: text of the key.
        changes: all changes with an effect on it that are left, and the TRUNCATEs of its table:
            those that took no row of the key away get no sentence.
        merged: what the merge knows of the table.
    """
    found: dict[Place, str] = {}
    counted: list[Change] = []
    void: list[Change] = []
    truncates: list[Change] = []
    for change in changes:
        reason = _left_out(change, merged)
        if change.operation == "truncate":
            truncates += [change] if reason is None else []
        elif reason is not None:
            found[change.place] = reason
        elif change.order < merged.truncated:
            void.append(change)
        else:
            counted.append(change)
    found |= _voided(key, void, truncates, counted, merged.whole)
    counted.sort(key=lambda change: change.order, reverse=True)
    if not counted:
        return found
    newest = counted[0]
    found[newest.place], lacking = _won(key, newest, merged.names)
    if not merged.whole and NOT_MERGED in found.values():
        # What stood in the table before these came may be what they hide, and be gone.
        found[newest.place], lacking = LEFT, frozenset()
    for change in counted[1:]:
        written = (change.image or {}).keys() if key in _written(change) else frozenset()
        found[change.place] = _lost(change, newest, sorted(lacking & written))
        whole = change.operation in WHOLE or key not in _written(change)
        lacking = frozenset() if whole else lacking - written
    return found


def _left_out(change: Change, merged: Merged) -> str | None:
    """Why a change does not count, None if it does."""
    if change.place in merged.unmerged:
        return NOT_MERGED
    if change.place in merged.waiting:
        return merged.waiting[change.place]
    if change.place in merged.refused:
        return f"refused: {merged.refused[change.place]}"
    return None


def _voided(
    key: str, void: list[Change], truncates: list[Change], counted: list[Change], whole: bool
) -> dict[Place, str]:
    """Changes that are older than the newest TRUNCATE, and the TRUNCATEs that they met.

    Args:
        key: text of the key.
        void: the changes.
        truncates: statements and reloads that emptied the table.
        counted: changes that are newer.
        whole: whether all changes are there.
    """
    found = {}
    ends = sorted(truncates, key=lambda change: change.order)
    below = {}
    for change in sorted(void, key=lambda change: change.order):
        end = next((end for end in ends if end.order > change.order), None)
        if end is None:
            found[change.place] = "void: older than a statement that emptied or dropped the table"
            continue
        what = "full reload" if _is_reload(end) else "TRUNCATE"
        found[change.place] = f"void: older than the {what} {_named(end.place)}"
        below[end.place] = (end, change)
    for end, newest in below.values():
        if key in _written(newest):
            found[end.place] = _took(end, [*void, *counted]) if whole else "emptied the table"
    return found


def _took(end: Change, changes: list[Change]) -> str:
    """What a TRUNCATE did to a row that was there."""
    if not _is_reload(end):
        return "took the row away"
    if any(change.place[0] == end.place[0] for change in changes):
        return "the row was replaced by the full reload's"
    return "took the row away: the full reload does not have it"


def _is_reload(truncate: Change) -> bool:
    """Whether a TRUNCATE is the beginning of a full reload."""
    return truncate.place[0].startswith(TOPIC)


def _lost(change: Change, newest: Change, given: list[str]) -> str:
    if _is_copy(change, newest):
        return f"the same change as {_named(newest.place)}, once more"
    if given:
        names = ", ".join(given)
        return (
            f"superseded by {_named(newest.place)}, but for {names}, which newer changes leave out"
        )
    return f"superseded: {_named(newest.place)} is newer"


def _won(key: str, change: Change, names: frozenset[str]) -> tuple[str, frozenset[str]]:
    if key not in _written(change):
        gone = "the row is deleted" if change.old_key is None else f"the row is now {change.key}"
        return f"won, it is the newest: {gone}", frozenset()
    if change.operation in WHOLE:
        return "won, it is the newest: this is the row", frozenset()
    lacking = names - (change.image or {}).keys()
    if not lacking:
        return "won, it is the newest: this is the row", frozenset()
    lacking_names = ", ".join(sorted(lacking))
    return (
        f"won, it is the newest; it leaves out {lacking_names}, which older changes gave",
        lacking,
    )


def _written(change: Change) -> tuple[str, ...]:
    """The keys that a change puts a row at."""
    return () if change.image is None else effects(change)[:1]


def _is_copy(change: Change, newest: Change) -> bool:
    return (
        bool(sequence_of(change.order))
        and change.order.split("/")[:3] == newest.order.split("/")[:3]
        and change.operation == newest.operation
        and change.image == newest.image
    )


def _named(place: Place) -> str:
    return "{}/{}/{}/{}".format(*place)
