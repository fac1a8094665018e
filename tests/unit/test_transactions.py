"""Which transactions wait, and what becomes of those that did."""

from __future__ import annotations

import pytest

from waybill.durations import seconds_of
from waybill.errors import WaitingError
from waybill.merge.transactions import Event, Open, check_wait, judge

X, Y = Open("x", 7, 100, "0", 5), Open("y", 8, 200)


def told(*events):
    return [Event(str(n), operation, id_, 5 + n) for n, (operation, id_) in enumerate(events)]


def test_begun_and_not_ended_waits():
    verdict = judge((), told(("begin", "x"), ("begin", "y"), ("commit", "y")), 7, 100)
    assert verdict.open == (X,)
    assert verdict.hidden == {"x"}


def test_an_end_in_a_later_batch_lets_go_or_drops():
    verdict = judge((X, Y), told(("commit", "x"), ("rollback", "y")), 9, 300)
    assert (verdict.open, verdict.released, verdict.dropped) == ((), (X,), (Y,))
    assert verdict.hidden == {"y"}


def test_what_stays_open_keeps_its_beginning():
    assert judge((X,), told(("begin", "x")), 9, 300).open == (X,)
    assert judge((X,), [], 9, 300).open == (X,)


def test_a_name_that_is_used_again_waits_again():
    events = told(("begin", "x"), ("commit", "x"), ("begin", "x"))
    assert judge((), events[::-1], 7, 100).open == (Open("x", 7, 100, "2", 7),)


def test_ends_of_transactions_that_nobody_began_change_nothing():
    verdict = judge((), told(("commit", "x")), 7, 100)
    assert (verdict.open, verdict.released, verdict.hidden) == ((), (), set())


def test_the_longest_wait():
    check_wait((X, Y), "1m", 160)
    with pytest.raises(
        WaitingError, match=r"transaction x has been open for 0\.0 hours.*1m.*0 oth"
    ):
        check_wait((X, Y), "1m", 161)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("15m", 900), ("7d", 604_800)])
def test_lengths_of_time(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "7", "1.5h", "-1h", "1w", "１h"])
def test_other_lengths_are_refused(text):
    with pytest.raises(ValueError, match="write a length of time"):
        seconds_of(text)
