"""What became of each change of one row, and why: the rules, told change by change."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

from waybill.merge.rules import WHOLE, Change, effects
from waybill.order import sequence_of

Place = tuple[str, int, int, int]


class Merged(NamedTuple):
    """What the merge knows of a row's table.

    Attributes:
        truncated: order of the newest TRUNCATE, DROP or reload.
        names: the table's columns.
        refused: why changes were refused, by place.
        waiting: places of changes whose transaction is open or was rolled back.
        unmerged: places of changes that no visible merge has taken yet.
    """

    truncated: str = ""
    names: frozenset[str] = frozenset()
    refused: Mapping[Place, str] = {}
    waiting: Mapping[Place, str] = {}
    unmerged: Container[Place] = frozenset()


def explain(key: str, changes: Iterable[Change], merged: Merged) -> dict[Place, str]:
    """A sentence for every change that touched a key, by the change's place.

    Args:
        key: text of the key.
        changes: all changes with an effect on it.
        merged: what the merge knows of the table.
    """
    found: dict[Place, str] = {}
    counted: list[Change] = []
    for change in changes:
        reason = _left_out(change, merged)
        if reason is None:
            counted.append(change)
        else:
            found[change.place] = reason
    counted.sort(key=lambda change: change.order, reverse=True)
    if not counted:
        return found
    newest = counted[0]
    found[newest.place], lacking = _won(key, newest, merged.names)
    for change in counted[1:]:
        told = (change.image or {}).keys() if key in _written(change) else frozenset()
        found[change.place] = _lost(change, newest, sorted(lacking & told))
        whole = change.operation in WHOLE or key not in _written(change)
        lacking = frozenset() if whole else lacking - told
    return found


def _left_out(change: Change, merged: Merged) -> str | None:
    """Why a change does not count, None if it does."""
    if change.place in merged.unmerged:
        return "not merged yet"
    if change.place in merged.waiting:
        return merged.waiting[change.place]
    if change.place in merged.refused:
        return f"refused: {merged.refused[change.place]}"
    if change.order < merged.truncated:
        return "void: older than a TRUNCATE, DROP or full reload of the table"
    return None


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
    told = ", ".join(sorted(lacking))
    return f"won, it is the newest; it leaves out {told}, which older changes gave", lacking


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
