"""Memory of what was worked out once, with an end to it."""

from __future__ import annotations

from collections.abc import Sized
from itertools import count
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

LIMIT = 10_000
"""How many things are remembered in one place."""

MOST_COLUMNS = 200_000
"""How many columns they may have, all together: what is made for a table costs one to four KB a
column, and messages may bring ever new tables of as many columns as they like."""


class Bounded(dict[K, V]):
    """A dictionary that starts over when it is full, for what can be worked out again.

    Messages decide how many schemas and tables there are and how wide they are, and hostile ones
    bring ever new names. Only storing costs more than in a plain dictionary.
    """

    _columns = 0

    @property
    def roomy(self) -> bool:
        """Whether it is far from full."""
        return len(self) < LIMIT // 2 and self._columns < MOST_COLUMNS // 2

    def starts_over_with(self, key: K, value: V) -> bool:
        """Whether storing a value forgets all others."""
        return self._is_full_with(_columns(key, value))

    def _is_full_with(self, columns: int) -> bool:
        return len(self) >= LIMIT or self._columns + columns > MOST_COLUMNS

    def __setitem__(self, key: K, value: V) -> None:
        if key in self:
            self._columns -= _columns(key, self[key])
        columns = _columns(key, value)
        if self._is_full_with(columns):
            self.clear()
        self._columns += columns
        super().__setitem__(key, value)

    def __delitem__(self, key: K) -> None:
        self._columns -= _columns(key, self[key])
        super().__delitem__(key)

    def clear(self) -> None:
        """Forget everything."""
        self._columns = 0
        super().clear()


_FEW = 16
# To make the union of two types again takes longer than to ask whether something is of one.
_TEXTS = (str, bytes)
_GROUPS = (tuple, frozenset)


def _columns(key: Any, value: Any) -> int:
    """For how many columns a value was made, as far as it or its key shows."""
    return max(1, _width(key), _width(value))


def _width(part: Any) -> int:
    if part is None or isinstance(part, int):
        return 0
    if isinstance(part, _TEXTS):
        return len(part) >> 5  # names, or a source of code, of about so many columns
    if isinstance(part, _GROUPS):
        # A long one is of columns or of their names; a short one is of several things.
        return len(part) if len(part) > _FEW else max(len(part), sum(map(_width, part)))
    types = getattr(getattr(part, "node", part), "types", None)
    if isinstance(types, int):
        return types  # of an Avro schema, or of what was made of it
    columns = getattr(part, "columns", None)
    if columns is None:
        columns = getattr(getattr(part, "schema", None), "columns", None)
    return len(columns) if isinstance(columns, Sized) else 0


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
