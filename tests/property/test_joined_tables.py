"""Tables that become one, against two imaginary databases that know their own rows.

What `convert` writes for them is modelled here, over the rules of the merge; that it writes so in a
lake is in `tests/spark/test_shards.py`.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.effort import cases
from tests.property.merge_histories import COLUMNS, Source, delivered, misfit
from tests.property.test_merge_rules import drawn
from waybill.mapping.shards import Floor
from waybill.merge.rules import Change, Table
from waybill.order import sequence_of


class OneOfTwo(Source):
    """Without defaults, which need a person's decision."""

    def alter(self) -> None:
        self.altered = True


def of_table(name: str, change: Change) -> Change:
    """A change with the table in its key, and in its place, as it has a topic of its own."""
    key, old = (None if k is None else f"{name} {k}" for k in (change.key, change.old_key))
    place = (f"{name}-{change.place[0]}", *change.place[1:])
    return change._replace(key=key, old_key=old, place=place)


class Joined:
    """What batches become, as `convert` writes them."""

    def __init__(self) -> None:
        self.floors: dict[str, Floor] = {}
        self.seen: list[Change] = []
        self.void = 0

    def batch(self, changes: list[Change]) -> list[Change]:
        rows, emptied = [], []
        for change in changes:
            floor = self.floors.get(name_of(change))
            if change.operation == "truncate":
                emptied.append(change)
            elif floor and floor.voids(change.order, None, change.place[:3], False):
                self.void += 1
            else:
                rows.append(change)
        self.seen += rows
        newest: dict[str, tuple[Floor, Change]] = {}
        for change in emptied:
            name, floor = name_of(change), self.floor(change)
            known = newest[name][0] if name in newest else self.floors.get(name)
            if known is None or known.order < floor.order:
                newest[name] = floor, change
        made = []
        for name, (floor, change) in newest.items():
            self.floors[name] = floor
            made += self.deletes(name, floor, change)
        self.seen += made
        return rows + made

    def floor(self, change: Change) -> Floor:
        floor = Floor(change.order)
        if not floor.by_position:
            return floor
        topic, partition, offset, _ = change.place
        ahead = [
            other.order
            for other in self.seen
            if sequence_of(other.order)
            and other.place[:2] == (topic, partition)
            and other.place[2] < offset
        ]
        placed = floor._replace(place=(topic, partition, offset))
        return placed.behind(max(ahead, default=None))

    def deletes(self, name: str, floor: Floor, change: Change) -> list[Change]:
        below = {
            key
            for other in self.seen
            if name_of(other) == name and other.order < floor.order
            for key in (other.key, other.old_key)
            if key is not None
        }
        topic, partition, offset, index = change.place
        return [
            Change(floor.order, "delete", key, place=(topic, partition, offset, index + n))
            for n, key in enumerate(sorted(below), 1)
        ]


def name_of(change: Change) -> str:
    return change.place[0].partition("-")[0]


def two_tables(data: st.DataObject, **knobs) -> tuple[list[Change], dict]:
    changes, truth = [], {}
    for name in ("one", "two"):
        source = OneOfTwo(drawn(data), **knobs)
        source.snapshot()
        source.run(data.draw(st.integers(0, 20)))
        changes += [of_table(name, change) for change in source.changes]
        truth |= {f"{name} {key}": row for key, row in source.truth.items()}
    return changes, truth


@settings(max_examples=cases(300, nightly=10_000), deadline=None)
@given(st.data())
def test_each_table_has_its_own_rows_in_any_order_split_and_twice(data):
    changes, truth = two_tables(data, partitions=data.draw(st.sampled_from([1, 2])))
    joined, table = Joined(), Table(COLUMNS, misfit)
    for batch in delivered(drawn(data), changes):
        counts = table.apply(joined.batch(batch))
        assert counts.came + counts.second == counts.out + counts.superseded + counts.refused
    assert table.live() == truth


@settings(max_examples=cases(100, nightly=2_000), deadline=None)
@given(st.data())
def test_statements_without_ids_take_what_was_before_them(data):
    changes, truth = two_tables(data, unnumbered=True, partitions=1)
    joined, table = Joined(), Table(COLUMNS, misfit)
    for batch in delivered(drawn(data), changes, twice=False):
        table.apply(joined.batch(batch))
    assert table.live() == truth
