"""Generated histories find bugs: five are planted in the rules, and each makes a history fail."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.property.merge_histories import COLUMNS, delivered, history, misfit
from waybill.merge import rules
from waybill.merge.rules import Change, Row, Table

SEEDS = range(150)


def failures(changed: Callable[[Change], Change] = lambda change: change) -> int:
    """How many histories end with other rows than the imaginary database."""
    found = 0
    for seed in SEEDS:
        choose = random.Random(seed).randrange
        source = history(choose, 20)
        table = Table(COLUMNS, misfit)
        for batch in delivered(choose, source.changes):
            table.apply([changed(change) for change in batch])
        found += table.live() != source.truth
    return found


def test_without_a_bug_every_history_is_right():
    assert failures() == 0


def as_text(change: Change) -> Change:
    """The sequence id compared as text: 999 after 1000."""
    kind, sequence, rest = change.order.split("/", 2)
    digits = sequence[1 + int(sequence[0]) :] if sequence else ""
    return change._replace(order=f"{kind}/{digits}/{rest}")


def full_rows_at_the_end(change: Change) -> Change:
    """A full row taken for the newest change."""
    order = "2" + change.order[1:] if change.operation == "read" else change.order
    return change._replace(order=order)


def halves_swapped(change: Change) -> Change:
    """The key before taken for the key after."""
    if change.old_key is None or change.operation == "insert":
        return change
    return change._replace(key=change.old_key, old_key=change.key)


@pytest.mark.parametrize("bug", [as_text, full_rows_at_the_end, halves_swapped])
def test_a_wrong_reading_of_changes_is_found(bug):
    assert failures(bug) > 0


def test_a_lost_tombstone_is_found(monkeypatch):
    """A delete that forgets its place: an older change that comes later brings the row back.

    All changes are folded in order here, so the older change comes in a batch of its own, onto the
    rows that were kept.
    """
    monkeypatch.setattr(rules, "_tombstone", lambda row, change: Row("", None, live=False))
    deleted = Change("3", "delete", "k")
    late = Change("2", "insert", "k", {"id": "1"})
    rows = rules.fold({}, [deleted])
    assert rows["k"].order < late.order, "the late insert would win"
    assert failures_of_kept_rows() > 0


def failures_of_kept_rows() -> int:
    """How often a kept row does not know the order of what made it."""
    found = 0
    for seed in SEEDS:
        source = history(random.Random(seed).randrange, 20)
        changes = [c for c in source.changes if c.image is None or not misfit(c.image)]
        newest: dict[str, str] = {}
        swapping: set[str] = set()
        for change in sorted(changes, key=lambda change: change.order):
            if change.operation == "truncate":
                newest.clear()
            elif change.operation != "column":
                # At the key that the second row of a swap had stands the first one by then.
                first = change.transaction not in swapping
                keys = rules.effects(change) if first else (change.key,)
                newest.update(dict.fromkeys(keys, change.order))
                swapping |= set() if change.transaction is None else {change.transaction}
        kept = rules.fold({}, changes, COLUMNS)
        found += {key: row.order for key, row in kept.items()} != newest
    return found


def test_kept_rows_know_their_order():
    assert failures_of_kept_rows() == 0


def test_an_ignored_truncate_is_found():
    def ignored(change: Change) -> Change:
        return change._replace(operation="column", image={}) if is_truncate(change) else change

    def is_truncate(change: Change) -> bool:
        return change.operation == "truncate"

    assert failures(ignored) > 0


def test_a_statement_whose_number_is_decided_once_is_found(monkeypatch):
    """Without a sequence id it takes that of what was before it, also of what comes later."""
    real = rules.placed
    decided: dict[tuple, str] = {}

    def once(changes):
        return [
            change._replace(order=decided.setdefault(change.place, change.order))
            if change.operation in ("truncate", "column")
            else change
            for change in real(changes)
        ]

    def wrong() -> int:
        found = 0
        for seed in SEEDS:
            choose = random.Random(seed).randrange
            source = history(choose, 20, unnumbered=True, partitions=1)
            table = Table(COLUMNS, misfit)
            decided.clear()
            for batch in delivered(choose, source.changes, twice=False):
                table.apply(batch)
            found += table.live() != source.truth
        return found

    assert wrong() == 0
    monkeypatch.setattr(rules, "placed", once)
    assert wrong() > 0
