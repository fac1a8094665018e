"""Which moves look behind a DELETE, where the log may not be whole any more."""

from __future__ import annotations

from waybill.merge.key_changes import behind_delete
from waybill.merge.rules import Change, fold
from waybill.order import order_key

COLUMNS = ("n", "late")


def at(number: int, operation: str, key: str = "a", old_key: str | None = None, **image: str):
    order = order_key((number,), 1, 0, number, 0)
    values = None if operation == "delete" else image
    return Change(order, operation, key, values, old_key, ("t", 0, number, 0))


LATE = at(12, "update", n="1", late="x")
GONE = at(14, "insert", n="2")
DELETE = at(16, "delete")
CUT = DELETE.order


def test_of_what_is_gone_a_row_would_show_too_much():
    """The reason for all of it: the INSERT had hidden the older value, and the DELETE does not."""
    for number in (15, 21):
        left = [at(10, "insert", n="0"), LATE, DELETE, at(number, "update", "b", "a", n="2")]
        shown, wanted = (fold({}, rows, COLUMNS)["b"].image for rows in (left, [*left, GONE]))
        assert shown == {"n": "2", "late": "x"}
        assert wanted == {"n": "2"}
        assert behind_delete(left, {"a"}, COLUMNS, CUT) == left[-1]


def test_moves_that_take_nothing_from_behind_a_delete_are_let_pass():
    move = at(21, "update", "b", "a", n="2")
    passed = [
        # It says all of its row.
        [LATE, DELETE, at(21, "update", "b", "a", n="2", late="y")],
        # The row was there, so all that may have hidden something is, too.
        [LATE, move],
        [LATE, DELETE, at(17, "insert", n="3"), move],
        [LATE, DELETE, at(17, "update", n="3"), move],
        # The same move once more, and others' rows.
        [LATE, move, at(22, "update", "b", "a", n="2")],
        [LATE, at(16, "delete", "c"), move],
        [LATE, DELETE],
    ]
    for changes in passed:
        assert behind_delete(changes, {"a"}, COLUMNS, CUT) is None
    # Nothing has been deleted yet of what is newer.
    later = at(18, "delete")
    assert behind_delete([LATE, later, move], {"a"}, COLUMNS, CUT) is None
    assert behind_delete([LATE, later, move], {"a"}, COLUMNS, later.order) == move
    assert behind_delete([LATE, DELETE, later, move], {"a"}, COLUMNS, CUT) == move
    # An UPDATE between two moves, where a row that is gone takes it for a new one.
    assert behind_delete([LATE, at(13, "update", "c", "a", n="2"), move], {"a"}, COLUMNS, CUT)
    # No row rests on it any more.
    assert behind_delete([LATE, later, move], {"b"}, COLUMNS, later.order) is None
