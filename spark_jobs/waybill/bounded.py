"""Memory of what was worked out once, with an end to it."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

LIMIT = 10_000


class Bounded(dict[K, V]):
    """A dictionary that starts anew when it is full, for what can be worked out again.

    Messages decide how many schemas and tables there are, and hostile ones bring ever new names.
    Only storing costs more than in a plain dictionary.
    """

    def __setitem__(self, key: K, value: V) -> None:
        if len(self) >= LIMIT:
            self.clear()
        super().__setitem__(key, value)
