"""Why a row is what it is."""

from __future__ import annotations

from waybill.merge.explain import LEFT, NOT_MERGED, Merged, explain
from waybill.merge.rules import Change
from waybill.order import order_key

KEY = '{"id":"1"}'
MERGED = Merged(names=frozenset({"id", "n", "t"}))


def change(sequence, operation, image=None, key=KEY, old_key=None, offset=None):
    offset = sequence if offset is None else offset
    order = order_key((sequence,), 1, 0, offset, 0)
    return Change(order, operation, key, image, old_key, ("t", 0, offset, 0))


def explained(*changes, merged=MERGED):
    found = explain(KEY, changes, merged)
    return [found[c.place] for c in changes]


def test_the_newest_wins_and_older_ones_say_by_whom():
    old, new = change(1, "insert", {"id": "1"}), change(2, "delete")
    assert explained(new, old) == [
        "won, it is the newest: the row is deleted",
        "superseded: t/0/2/0 is newer",
    ]


def test_columns_that_older_changes_gave():
    first = change(1, "insert", {"id": "1", "n": "1", "t": "x"})
    second = change(2, "update", {"id": "1", "t": "y"})
    third = change(3, "update", {"id": "1"})
    assert explained(first, second, third) == [
        "superseded by t/0/3/0, but for n, which newer changes leave out",
        "superseded by t/0/3/0, but for t, which newer changes leave out",
        "won, it is the newest; it leaves out n, t, which older changes gave",
    ]


def test_nothing_shines_through_a_delete():
    first = change(1, "insert", {"id": "1", "n": "1", "t": "x"})
    assert explained(first, change(2, "delete"), change(3, "update", {"id": "1"}))[:2] == [
        "superseded: t/0/3/0 is newer",
        "superseded: t/0/3/0 is newer",
    ]


def test_a_row_that_moved_away_and_a_redelivery():
    image = {"id": "1", "n": "1", "t": "x"}
    moved = change(5, "update", {"id": "2"}, key='{"id":"2"}', old_key=KEY)
    assert explained(moved) == ['won, it is the newest: the row is now {"id":"2"}']
    once, again = change(1, "insert", image), change(1, "insert", image, offset=9)
    assert explained(once, again) == [
        "the same change as t/0/9/0, once more",
        "won, it is the newest: this is the row",
    ]


def test_what_did_not_count():
    rows = [change(n, "insert", {"id": "1"}) for n in (1, 2, 3, 4)]
    merged = MERGED._replace(
        truncated=order_key((2,), 1, 0, 0, 0),
        refused={rows[1].place: "column n is int"},
        waiting={rows[2].place: "waits for the end of transaction x"},
        unmerged={rows[3].place},
    )
    assert explained(*rows, merged=merged) == [
        "void: older than a statement that emptied or dropped the table",
        "refused: column n is int",
        "waits for the end of transaction x",
        "not merged yet",
    ]


def truncate(sequence, topic="t", offset=None):
    offset = sequence if offset is None else offset
    order = order_key((sequence,), 0, 0, offset, 0)
    return Change(order, "truncate", place=(topic, 0, offset, 0))


def test_a_reload_says_which_rows_it_took_away():
    reload = truncate(5, "full:shop.t@5", 0)
    merged = MERGED._replace(truncated=reload.order)
    assert explained(change(1, "insert", {"id": "1"}), reload, merged=merged) == [
        "void: older than the full reload full:shop.t@5/0/0/0",
        "took the row away: the full reload does not have it",
    ]
    again = change(5, "read", {"id": "1", "n": "1", "t": "x"}, offset=7)
    again = again._replace(place=(reload.place[0], 0, 7, 0))
    assert explained(change(1, "insert", {"id": "1"}), reload, again, merged=merged) == [
        "void: older than the full reload full:shop.t@5/0/0/0",
        "the row was replaced by the full reload's",
        "won, it is the newest: this is the row",
    ]


def test_where_changes_are_gone_only_what_is_sure_is_said():
    first, newest = change(1, "insert", {"id": "1", "n": "1", "t": "x"}), change(5, "delete")
    end = change(3, "truncate", key="")
    cut = MERGED._replace(whole=False)
    assert explained(first, newest, merged=cut) == [
        "superseded: t/0/5/0 is newer",
        "won, it is the newest: the row is deleted",
    ]
    # Before the last one came another one may have been the newest.
    later = cut._replace(unmerged=frozenset({newest.place}))
    assert explained(first, newest, merged=later) == [LEFT, NOT_MERGED]
    # It may have been deleted before.
    found = explain(KEY, [first, end, newest], cut._replace(truncated=end.order))
    assert found[end.place] == "emptied the table"


def test_a_truncate_that_took_no_row_of_the_key_away_is_not_reported():
    first, second = truncate(3), truncate(6)
    merged = MERGED._replace(truncated=second.order)
    changes = [change(1, "insert", {"id": "1"}), change(2, "delete"), change(4, "insert", {})]
    assert explain(KEY, [*changes, first, second], merged) == {
        changes[0].place: "void: older than the TRUNCATE t/0/3/0",
        changes[1].place: "void: older than the TRUNCATE t/0/3/0",
        changes[2].place: "void: older than the TRUNCATE t/0/6/0",
        second.place: "took the row away",
    }
