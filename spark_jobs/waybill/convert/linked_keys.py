"""Keys that belong together, because changes gave rows of one the other.

Such a change has an effect on both keys, and the row of the new one may have values from the row of
the old one. Keys that no chain of them joins have nothing to do with each other: what the changes
of a table make of one group does not depend on the changes of another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def groups(keys: Iterable[str], moves: Iterable[tuple[str, str]]) -> list[frozenset[str]]:
    """Keys as groups that no move crosses, sorted.

    Args:
        keys: the keys.
        moves: pairs of keys that a change has an effect on; their keys are grouped as well.
    """
    above: dict[str, str] = {key: key for key in keys}

    def top(key: str) -> str:
        above.setdefault(key, key)
        while above[key] != key:
            above[key] = above[above[key]]
            key = above[key]
        return key

    for one, other in moves:
        above[top(one)] = top(other)
    found: dict[str, set[str]] = {}
    for key in above:
        found.setdefault(top(key), set()).add(key)
    return sorted(map(frozenset, found.values()), key=min)


def crossed(groups_by_key: dict[str, int], moves: Iterable[tuple[str, str]]) -> frozenset[int]:
    """The groups that moves lead out of or into.

    Args:
        groups_by_key: the number of each key's group; other keys are outside.
        moves: pairs of keys that a change has an effect on.
    """
    found: set[int] = set()
    for move in moves:
        sides = {groups_by_key.get(key) for key in move}
        if len(sides) > 1:
            found |= {side for side in sides if side is not None}
    return frozenset(found)
