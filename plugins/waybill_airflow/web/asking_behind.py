"""Asks lakes while nobody waits: a few at a time, none twice at once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Lock, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waybill.spec.migration import Migration

AT_ONCE = 4
"""Lakes that are asked at a time: pages are made meanwhile, by the same interpreter."""

_log = logging.getLogger("waybill")


class AskingBehind:
    """Asks lakes in threads of its own, which end when there is nothing left to ask.

    The threads do not keep the web server from ending, however long a lake does not answer.

    Args:
        ask: asks one, and keeps what it says.
        pause: seconds before a thread asks the first: what a page loads besides comes before that.
    """

    def __init__(self, ask: Callable[[Migration], object], pause: float = 0.0) -> None:
        self._ask, self._pause = ask, pause
        self._lock = Lock()
        self._waiting: dict[str, Migration] = {}
        self._asked: set[str] = set()
        self._threads = 0

    @property
    def is_idle(self) -> bool:
        """Whether no lake is being asked, or waits for that."""
        with self._lock:
            return self._threads == 0

    def add(self, specs: Sequence[Migration]) -> None:
        """Ask the lakes of some migrations, in this order, after those that wait already."""
        with self._lock:
            for spec in specs:
                if spec.reports not in self._asked:
                    self._waiting.setdefault(spec.reports, spec)
            more = min(AT_ONCE - self._threads, len(self._waiting))
            self._threads += more
        for _ in range(more):
            Thread(target=self._work, name="waybill-outlines", daemon=True).start()

    def _work(self) -> None:
        time.sleep(self._pause)
        while True:
            with self._lock:
                folder = next(iter(self._waiting), None)
                if folder is None:
                    self._threads -= 1
                    return
                spec = self._waiting.pop(folder)
                self._asked.add(folder)
            try:
                self._ask(spec)
            except Exception:  # noqa: BLE001 - it is logged, and the next lake is asked
                # What it said before stays, and grows old on the page, which says so.
                _log.exception("the lake of %s was asked for the list of migrations", spec.name)
            finally:
                with self._lock:
                    self._asked.discard(folder)
