"""What of transactions may show, against an imaginary database that knows its own rows."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.contract.effort import properties
from tests.property.split_updates import plain
from tests.property.transaction_histories import (
    EVENTS,
    Sent,
    Sessions,
    delivered,
    head,
    visible,
)
from waybill.merge.rules import Table, bag
from waybill.merge.transactions import (
    Came,
    Members,
    Open,
    RolledBack,
    TransactionBoundary,
    announced,
    judge,
    name_of,
)


@properties(200)
@given(seed=st.integers(0, 2**32 - 1))
def test_in_the_end_all_that_was_committed_shows(seed) -> None:
    choose = random.Random(seed).randrange
    source = Sessions(choose, 1, placed=seed % 3 == 0, rollbacks=seed % 3 == 1)
    source.run(60)
    source.end_all()
    changes = [
        pair for batch in visible(delivered(choose, source, 4, lagging=False)) for pair in batch
    ]
    for table in source.keyed:
        merged = Table(("id", "n", "t"))
        merged.apply(change for name, change in changes if name == table)
        rows = {f'{{"id":"{key}"}}': row for key, row in source.rows[table].items()}
        assert merged.live() == rows
    heap = bag(change for name, change in changes if name == source.bag)
    assert heap == Counter(plain(row) for row in source.rows[source.bag].values())


class Merging:
    """What merges take, batch by batch, by what `judge` says of transactions.

    A batch's number stands for the snapshot behind it.
    """

    def __init__(self, prefix: str) -> None:
        self.tables = {f"shop.{table}{prefix}" for table in ("a", "b", "heap")}
        self.open: tuple[Open, ...] = ()
        self.gone: tuple[RolledBack, ...] = ()
        self.came: list[tuple[int, Sent]] = []
        self.shown: set[str] = set()
        self.ended: list[TransactionBoundary] = []

    def take(self, number: int, batch: list[Sent]) -> None:
        """Take one batch."""
        events = [
            TransactionBoundary(
                one.change.order,
                one.operation,
                one.change.transaction or "",
                None,
                announced(one.extra, self.tables),
            )
            for one in batch
            if one.operation in EVENTS
        ]
        self.came += [(number, one) for one in batch if one.operation not in EVENTS]
        verdict = judge(
            self.open, events, number - 1, 0, self._look, gone=self.gone, ends=self._ends
        )
        self.ended += [event for event in events if event.operation != "begin"]
        self.open = verdict.open
        hidden = [(t.members, t.after) for t in verdict.open]
        hidden += [(members, number - 1) for members in verdict.rolled_back]
        back = {members.name for members in verdict.rolled_back}
        names = [name_of(one.change.transaction or "") for n, one in self.came if n == number]
        self.gone = verdict.not_merged((name, f"b{number}") for name in names if name in back).gone
        found = [(n, one) for n, one in self.came if n == number and not among(one, n, hidden)]
        back = [(t.members, t.after) for t in verdict.released]
        found += [(n, one) for n, one in self.came if n < number and among(one, n, back)]
        self.shown |= {head(one.change) for _, one in found}

    def _ends(self, transactions: tuple[Open, ...]) -> list[TransactionBoundary]:
        names = {name_of(t.id) for t in transactions}
        return [event for event in self.ended if name_of(event.transaction) in names]

    def _look(self, transactions: tuple[Open, ...]) -> dict[str, Came]:
        found = {}
        for asked in transactions:
            mine = [(asked.members, None)]
            rows = {head(one.change) for n, one in self.came if among(one, n, mine)}
            found[asked.id] = Came(len(rows))
        return found


def among(one: Sent, number: int, transactions: list[tuple[Members, int | None]]) -> bool:
    """Whether a row that came in a batch is one of transactions since the batch behind which."""
    name, _, place = (one.change.transaction or "").partition(":")
    return any(
        members.name == name
        and (members.first is None or not place or int(place) >= members.first)
        and (members.last is None or not place or int(place) <= members.last)
        and (after is None or number > after)
        for members, after in transactions
    )


@properties(400)
@given(seed=st.integers(0, 2**32 - 1))
def test_what_is_held_back_is_what_was_not_committed_yet(seed) -> None:
    choose = random.Random(seed).randrange
    source = Sessions(choose, 1, placed=seed % 3 == 0, rollbacks=seed % 3 == 1)
    source.run(60)
    batches = delivered(choose, source, 5, damaged=seed % 4 == 0 and not source.reuses)
    merging, shown = Merging("1"), set()
    for number, (batch, wanted) in enumerate(zip(batches, visible(batches), strict=True)):
        shown |= {head(change) for _, change in wanted}
        merging.take(number, batch)
        assert merging.shown == shown, f"batch {number}"
