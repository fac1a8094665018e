"""How fast a session reads, so that the database has time for others.

A server is ahead of its reader by what the sockets between them hold, some megabytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable

STEPS_A_SECOND = 20
"""A second's rows are read in so many parts, with pauses between."""


class Pace:
    """Keeps one session to so many rows a second, in every second and not only on average.

    Args:
        rows_per_second: the most.
        clock: seconds that never run backwards.
        sleep: waits so many seconds.
    """

    def __init__(
        self,
        rows_per_second: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._step = max(1, int(rows_per_second / STEPS_A_SECOND))
        self._seconds = self._step / rows_per_second
        self._clock, self._sleep = clock, sleep
        self._left = self._step
        self._next = clock() + self._seconds

    def row(self) -> None:
        """One more row was read; returns when another one may be."""
        self._left -= 1
        if self._left:
            return
        self._left = self._step
        now = self._clock()
        if now < self._next:
            self._sleep(self._next - now)
            now = self._next
        # What was slower than allowed is not made up for later.
        self._next = now + self._seconds
