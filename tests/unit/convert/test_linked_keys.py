"""Keys that changes of the key link, and what such a change leads to that nobody expects."""

from __future__ import annotations

from waybill.convert.linked_keys import crossed, groups


def test_keys_that_nothing_links_stand_alone():
    assert groups(["b", "a"], []) == [{"a"}, {"b"}]
    assert groups([], []) == []


def test_moves_link_over_any_number_of_steps_and_in_circles():
    moves = [("b", "a"), ("c", "b"), ("a", "c"), ("x", "y"), ("z", "z")]
    assert groups(["c", "q"], moves) == [{"a", "b", "c"}, {"q"}, {"x", "y"}, {"z"}]


def test_groups_that_a_move_leads_out_of():
    numbers = {"a": 0, "b": 0, "c": 1, "d": 2}
    assert crossed(numbers, [("a", "b"), ("q", "r")]) == frozenset()
    assert crossed(numbers, [("a", "c"), ("q", "d")]) == {0, 1, 2}
