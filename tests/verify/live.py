"""A database that is written to, and a migration that follows it, while something else looks."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from typing import Any, Self

from waybill import jobs
from waybill.lake import Lake

CHANCE = random.Random(7)


def run(spark: Any, spec: Any, feed: Any) -> Lake:
    """One batch of what the feed has said by now."""
    feed.flush()
    jobs.run_migration(spec, spark=spark)
    return Lake.open(spark, spec)


class Live:
    """Writes rows, and runs batch after batch, in a `with` block.

    Args:
        spark: the session.
        spec: the migration.
        feed: the database.
        busy: rows that are updated, deleted and inserted again all the time.
        first: number of the first new row.

    Attributes:
        written: the rows that were written.
    """

    def __init__(self, spark: Any, spec: Any, feed: Any, busy: Sequence[int], first: int) -> None:
        self._spark, self._spec, self._feed = spark, spec, feed
        self._busy, self._next = busy, first
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        self.written: set[int] = set()
        self._threads = [
            threading.Thread(target=self._guarded, args=(work, pause))
            for work, pause in ((self._write, 0.02), (self._follow, 0.5))
        ]

    def _guarded(self, work: Callable[[], None], pause: float) -> None:
        try:
            while not self._stop.wait(pause):
                work()
        except BaseException as error:
            self._errors.append(error)
            raise

    def _write(self) -> None:
        one = CHANCE.choice(self._busy)
        self.written.add(one)
        with self._feed.lock:
            if CHANCE.random() < 0.2:
                self._feed.delete(one)
                self._feed.insert(one)
            else:
                self._feed.update(one, **{self._feed.text: f"'t{CHANCE.random()}'"})
        if CHANCE.random() < 0.3:
            self.written.add(self._next)
            self._feed.insert(self._next)
            self._next += 1

    def _follow(self) -> None:
        run(self._spark, self._spec, self._feed)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        assert not self._errors, self._errors
