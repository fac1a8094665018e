"""A session reads no faster than it may, whatever happened before."""

from __future__ import annotations

import pytest

from waybill.verify.pace import Pace


class Clock:
    """Time that passes only when somebody waits or works."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


def read(pace: Pace, clock: Clock, rows: int, each: float = 0.0) -> list[float]:
    """When each of so many rows was read."""
    times = []
    for _ in range(rows):
        clock.now += each
        times.append(clock.now)
        pace.row()
    return times


def most_in_a_second(times: list[float]) -> int:
    return max(sum(start <= t < start + 1 for t in times) for start in times)


@pytest.mark.parametrize("limit", [1, 3, 19, 20, 21, 1000, 2500.0])
def test_no_second_has_more_rows(limit):
    clock = Clock()
    times = read(Pace(limit, clock, clock.wait), clock, int(limit * 3))
    step = max(1, int(limit / 20))
    assert most_in_a_second(times) <= limit + step
    assert times[-1] - times[0] == pytest.approx(3, abs=1.1)


def test_a_slow_part_is_not_made_up_for():
    clock = Clock()
    pace = Pace(100, clock, clock.wait)
    read(pace, clock, 100, each=1.0)
    assert most_in_a_second(read(pace, clock, 500)) <= 105


def test_nobody_waits_below_the_limit():
    clock = Clock()
    times = read(Pace(1000, clock, clock.wait), clock, 5000, each=0.01)
    assert times[-1] == pytest.approx(150.0)
