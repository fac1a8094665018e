"""Memory of what was worked out once, with an end to it."""

from __future__ import annotations

from itertools import count
from typing import Generic, TypeVar

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


class Numbers(Generic[K]):
    """Small numbers for keys: the same for the same, as long as it is remembered.

    Two keys never have one number, even where the memory was full and is new.

    Args:
        first: the first number.
    """

    def __init__(self, first: int = 0) -> None:
        self._known: Bounded[K, int] = Bounded()
        self._next = count(first)

    def of(self, key: K) -> int:
        """The number of a key."""
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = next(self._next)
        return number
