"""The choice of tests that run by day reaches what all tests reach, as cheaply as it can."""

from __future__ import annotations

from itertools import product

from tests.choose_nightly import by_day
from tests.nightly import each_once, sampled

A, B, C = ("a.py", 1, 2), ("a.py", 2, 3), ("b.py", 1, 2)


def test_what_others_reach_for_less_runs_at_night() -> None:
    reached = {
        "t.py::whole": frozenset({A, B, C}),
        "t.py::first": frozenset({A, B}),
        "t.py::second": frozenset({C}),
    }
    cheap = {"t.py::whole": 9.0, "t.py::first": 2.0, "t.py::second": 2.0}
    assert by_day(reached, cheap) == {"t.py::first", "t.py::second"}
    assert by_day(reached, cheap | {"t.py::whole": 3.0}) == {"t.py::whole"}


def test_what_a_later_choice_reaches_too_is_dropped() -> None:
    reached = {
        "t.py::cheap": frozenset({A}),
        "t.py::dear": frozenset({A, B, C}),
    }
    assert by_day(reached, {"t.py::cheap": 0.1, "t.py::dear": 5.0}) == {"t.py::dear"}


def test_of_each_file_one_test_runs_by_day() -> None:
    reached = {
        "t.py::one": frozenset({A, B}),
        "u.py::dear": frozenset({A}),
        "u.py::cheap": frozenset({B}),
        "v.py::nothing": frozenset(),
    }
    cost = {"t.py::one": 1.0, "u.py::dear": 9.0, "u.py::cheap": 8.0, "v.py::nothing": 1.0}
    assert by_day(reached, cost) == {"t.py::one", "u.py::cheap", "v.py::nothing"}


def test_what_is_kept_is_no_reason_to_keep_more() -> None:
    reached = {
        "t.py::kept": frozenset({A}),
        "t.py::same": frozenset({A}),
        "t.py::other": frozenset({B}),
    }
    cost = dict.fromkeys(reached, 5.0)
    assert by_day(reached, cost, {"t.py::kept"}) == {"t.py::kept", "t.py::other"}


def test_the_dearest_for_what_hardly_any_reach_run_at_night() -> None:
    reached = {
        "t.py::most": frozenset(("a.py", n, n + 1) for n in range(98)),
        "t.py::one_more": frozenset({("a.py", 98, 99)}),
        "t.py::dear": frozenset({("a.py", 99, 100)}),
    }
    cost = {"t.py::most": 1.0, "t.py::one_more": 1.0, "t.py::dear": 9.0}
    assert by_day(reached, cost, share=1.0) == {*reached}
    assert by_day(reached, cost, share=0.99) == {"t.py::most", "t.py::one_more"}
    assert by_day(reached, cost, share=0.98) == {"t.py::most"}


def test_of_many_cases_a_few_run_by_day_in_which_every_value_comes() -> None:
    cases = {f"test[{one}-{other}]": (("a", one), ("b", other)) for one, other in pairs(18)}
    taken = sampled(cases)
    assert len(taken) == 18
    assert {value for name in taken for value in cases[name]} == {*sum(cases.values(), ())}
    assert sampled(dict(reversed(cases.items()))) == taken


def test_few_cases_all_run_by_day() -> None:
    assert len(sampled({f"test[{n}]": (("n", n),) for n in range(3)})) == 3
    assert len(sampled({f"test[{n}]": (("n", n),) for n in range(9)})) == 3
    assert len(sampled({f"test[{n}]": (("n", n),) for n in range(36)})) == 6


def pairs(count: int) -> list[tuple[int, int]]:
    return [*product(range(count), repeat=2)]


def test_of_pairs_with_servers_each_side_comes_once() -> None:
    cases = {f"test[{one}-{other}]": (("a", one), ("b", other)) for one, other in pairs(6)}
    taken = each_once(cases, ())
    assert {value for name in taken for value in cases[name]} == {*sum(cases.values(), ())}
    assert len(taken) < 9
    assert each_once({"test": ()}, ()) == {"test"}


def test_what_another_test_of_the_file_brings_is_not_brought_again() -> None:
    cases = {f"test[{number}]": (("a", number),) for number in range(6)}
    assert each_once(cases, [("a", number) for number in range(4)]) == {"test[4]", "test[5]"}
    assert len(each_once(cases, [("a", number) for number in range(6)])) == 1
