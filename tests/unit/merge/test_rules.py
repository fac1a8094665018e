"""The rules of the merge, one small example each."""

from __future__ import annotations

import pytest

from waybill.merge.rules import Change, Counts, Row, Table, bag, fold
from waybill.order import order_key


def at(sequence: int | None, offset: int = 0, full_row: bool = False) -> str:
    parts = None if sequence is None else (sequence,)
    return order_key(parts, 1, 0, offset, 0, full_row)


def write(sequence, key, operation="update", old=None, offset=0, full_row=False, **values):
    image = {"id": key, **values}
    return Change(at(sequence, offset, full_row), operation, key, image, old)


def delete(sequence, key):
    return Change(at(sequence), "delete", key)


def truncate(sequence):
    return Change(at(sequence), "truncate")


def rows_after(*batches):
    table = Table(("id", "a", "b"))
    for batch in batches:
        table.apply(batch)
    return {key: {k: v for k, v in row.items() if k != "id"} for key, row in table.live().items()}


def test_999_is_before_1000():
    """Sequence ids are numbers: as text 999 would win."""
    assert rows_after([write(1000, "k", a="new"), write(999, "k", a="old")]) == {"k": {"a": "new"}}
    big = 9007199254740992
    assert rows_after([write(big + 1, "k", a="new")], [write(big, "k", a="old")]) == {
        "k": {"a": "new"}
    }


def test_a_late_change_loses_to_a_newer_row():
    assert rows_after([write(5, "k", a="5", b="5")], [write(4, "k", a="4", b="4")]) == {
        "k": {"a": "5", "b": "5"}
    }


def test_a_late_change_does_not_bring_a_deleted_row_back():
    assert rows_after([write(1, "k")], [delete(3, "k")], [write(2, "k", a="2")]) == {}


def test_a_newer_insert_brings_it_back():
    assert rows_after([delete(3, "k")], [write(4, "k", "insert", a="4")]) == {"k": {"a": "4"}}


def test_a_full_row_never_overwrites_a_change():
    full = write(None, "k", "read", a="dump", full_row=True, offset=99)
    assert rows_after([write(1, "k", a="1", b="1")], [full]) == {"k": {"a": "1", "b": "1"}}
    assert rows_after([full], [write(1, "k", a="1")]) == {"k": {"a": "1"}}
    assert rows_after([delete(1, "k")], [full]) == {}


def test_a_full_row_alone_stands():
    full = write(None, "k", "read", a="dump", full_row=True)
    assert rows_after([full]) == {"k": {"a": "dump"}}


def test_a_key_change_takes_the_old_key_away():
    moved = write(2, "new", old="old", a="1")
    assert rows_after([write(1, "old", a="1"), moved]) == {"new": {"a": "1"}}
    assert rows_after([moved], [write(1, "old", a="1")]) == {"new": {"a": "1"}}
    assert rows_after([moved], [write(3, "old", "insert", a="3")]) == {
        "new": {"a": "1"},
        "old": {"a": "3"},
    }


def test_a_chain_of_key_changes():
    chain = [write(1, "a", a="1"), write(2, "b", old="a"), write(3, "c", old="b")]
    assert rows_after(chain) == {"c": {"a": "1"}}
    assert rows_after(*[[change] for change in reversed(chain)]) == {"c": {"a": "1"}}


def test_truncate_reaches_rows_that_arrive_later():
    assert rows_after([truncate(3)], [write(2, "k"), write(4, "m", "insert")]) == {"m": {}}
    assert rows_after([write(1, "k"), write(4, "m", "insert")], [truncate(3)]) == {"m": {}}


def test_an_absent_column_keeps_its_value_and_null_does_not():
    first = write(1, "k", "insert", a="1", b="1")
    assert rows_after([first], [write(2, "k", a="2")]) == {"k": {"a": "2", "b": "1"}}
    assert rows_after([first], [write(2, "k", a=None)]) == {"k": {"a": None, "b": "1"}}


def test_a_late_partial_change_fills_only_what_newer_ones_left_out():
    first, second, third = write(1, "k", a="1", b="1"), write(2, "k", b="2"), write(3, "k", a="3")
    for batches in ([[first], [third], [second]], [[third], [second], [first]]):
        assert rows_after(*batches) == {"k": {"a": "3", "b": "2"}}


def test_a_column_that_nobody_knew_comes_with_an_older_change():
    table = Table(("id",))
    table.apply([write(5, "k"), write(6, "m", old="l"), write(7, "n", "insert")])
    counts = table.apply([write(n, key, c="1") for n, key in ((1, "k"), (2, "l"), (3, "n"))])
    assert counts == Counts(came=3, superseded=3)
    assert {key: row.get("c") for key, row in table.live().items()} == {
        "k": "1",
        "m": "1",
        "n": None,
    }
    assert table.rows["k"].sources == frozenset()
    assert table.rows["m"].sources == frozenset({"l"})


def test_an_insert_after_a_delete_shows_nothing_of_before():
    before = [write(1, "k", a="1", b="1"), delete(2, "k")]
    assert rows_after(before, [write(3, "k", "insert", a="3")]) == {"k": {"a": "3"}}


def test_a_row_that_moved_takes_large_values_from_its_old_key():
    """PostgreSQL: delete of the old key, then the new row without its unchanged large values."""
    gone = Change(at(2, 1), "delete", "old")
    came = write(2, "new", "insert", old="old", offset=2, a="2")
    assert rows_after([write(1, "old", a="1", b="large"), gone, came]) == {
        "new": {"a": "2", "b": "large"}
    }
    again = write(3, "old", "insert", a="3", b="other")
    assert rows_after([again, came], [gone], [write(1, "old", b="large")]) == {
        "new": {"a": "2", "b": "large"},
        "old": {"a": "3", "b": "other"},
    }


def test_a_new_column_s_default_goes_to_rows_of_before():
    added = Change(at(3), "column", image={"b": "basic"})
    old, new = write(1, "k", "insert", a="1"), write(4, "m", "insert", a="4")
    touched = write(2, "n", "insert", a="2", b=None)
    for batches in ([[old, touched, added, new]], [[new], [added], [old, touched]]):
        assert rows_after(*batches) == {
            "k": {"a": "1", "b": "basic"},
            "m": {"a": "4"},
            "n": {"a": "2", "b": None},
        }


def test_what_does_not_fit_is_as_if_it_had_not_come():
    table = Table(("id", "a"), lambda image: "no" if image.get("a") == "x" else None)
    table.apply([write(1, "k", "insert", a="1")])
    counts = table.apply([write(2, "k", a="x"), write(3, "m", old="k", a="x")])
    assert counts == Counts(came=2, second=0, out=0, superseded=0, refused=2)
    assert table.live() == {"k": {"id": "k", "a": "1"}}


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        ([write(1, "k"), write(2, "k"), write(2, "k")], Counts(3, 0, 1, 2, 0)),
        ([write(1, "k"), write(2, "m", old="k")], Counts(2, 1, 2, 1, 0)),
        ([write(1, "k"), truncate(2), truncate(3)], Counts(3, 0, 1, 2, 0)),
        ([delete(1, "k")], Counts(1, 0, 1, 0, 0)),
        ([Change(at(1), "column", image={"b": "x"})], Counts()),
    ],
)
def test_counts(batch, expected):
    assert Table(("id",)).apply(batch) == expected


def test_a_row_put_together_says_so():
    table = Table(("id", "a", "b"))
    table.apply([write(1, "old", a="1", b="1"), write(2, "new", old="old", a="2")])
    assert table.rows["old"] == Row(at(2), {"id": "old", "a": "1", "b": "1"}, live=False)
    assert table.rows["new"].sources == frozenset({"old"})
    table.apply([write(3, "new", a="3", b="3")])
    assert table.rows["new"].sources is None


def swap(first: int, second: int) -> list[Change]:
    """Two rows that exchange their keys in one transaction, as two key changes."""
    a, b = {"id": "1", "n": "a"}, {"id": "2", "n": "b"}
    inserts = [
        Change(order_key((1,), 1, 0, 1, 0), "insert", "1", a),
        Change(order_key((2,), 1, 0, 2, 0), "insert", "2", b),
    ]
    moves = [
        Change(
            order_key((first,), 1, 0, 3, 0),
            "update",
            "2",
            {**a, "id": "2"},
            "1",
            ("t", 0, 3, 0),
            a,
            "x",
        ),
        Change(
            order_key((second,), 1, 0, 4, 0),
            "update",
            "1",
            {**b, "id": "1"},
            "2",
            ("t", 0, 4, 0),
            b,
            "x",
        ),
    ]
    return [*inserts, *moves]


@pytest.mark.parametrize(("first", "second"), [(5, 6), (6, 5)])
def test_two_rows_that_swap_their_keys_in_one_transaction(first, second):
    rows = fold({}, swap(first, second))
    assert {key: row.image["n"] for key, row in rows.items() if row.live} == {"1": "b", "2": "a"}


def test_a_row_that_moves_on_in_its_transaction_leaves_nothing_behind():
    changes = swap(5, 6)[:1]
    a = changes[0].image
    there, back = {**a, "id": "2"}, a
    changes += [
        Change(order_key((5,), 1, 0, 3, 0), "update", "2", there, "1", ("t", 0, 3, 0), a, "x"),
        Change(order_key((6,), 1, 0, 4, 0), "update", "1", back, "2", ("t", 0, 4, 0), there, "x"),
    ]
    rows = fold({}, changes)
    assert {key for key, row in rows.items() if row.live} == {"1"}


def test_of_two_defaults_of_a_column_each_goes_to_the_rows_that_lack_it():
    """A column that was dropped and added again; a table without key has them the same way."""
    changes = [
        write(1, "a", "insert"),
        Change(at(2), "column", image={"tier": "basic"}),
        write(3, "b", "insert"),
        Change(at(4), "column", image={"tier": "gold"}),
        write(5, "c", "insert"),
    ]
    for arrived in (changes, changes[::-1]):
        assert rows_after(arrived) == {"a": {"tier": "basic"}, "b": {"tier": "gold"}, "c": {}}
        placed = [c._replace(place=("t", 0, i, 0)) for i, c in enumerate(arrived)]
        assert sorted(sorted(row) for row in bag(placed)) == [
            [("id", "a"), ("tier", "basic")],
            [("id", "b"), ("tier", "gold")],
            [("id", "c")],
        ]
