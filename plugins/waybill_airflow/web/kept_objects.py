"""What a page has loaded stays, and Python's collector need not look at it again.

Airflow's web server holds some hundred thousand objects that live as long as it does: modules,
models of the database, DAGs that it keeps. Python's collector walks through all of them whenever
enough new ones have come, and every answer waits for that: 400 ms where the answer itself takes
100. So, after the first answer of each route, what lives then is counted as permanent
(`gc.freeze`). Such objects are still freed as soon as nothing refers to them; only those in a
circle would stay, of which the collector leaves none just before.
"""

from __future__ import annotations

import gc
from threading import Lock


class Settled:
    """Makes permanent what the first answer of each route has left loaded."""

    def __init__(self) -> None:
        self._routes: set[str] = set()
        self._lock = Lock()

    def lacks(self, route: str) -> bool:
        """Whether no answer of a route was followed by `after` yet."""
        return route not in self._routes

    def after(self, route: str) -> None:
        """To be called after the first answer of a route; another call changes nothing.

        Args:
            route: whose answer it was, as its path is declared.
        """
        with self._lock:
            if not self.lacks(route):
                return
            self._routes.add(route)
            gc.collect()
            gc.freeze()
