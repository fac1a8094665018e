"""Names of tables and columns against names and patterns of a migration's file.

A pattern has one sign, `*`, for any characters, also none. Every other character is itself: names
may hold `?`, `[` and `]`. A name is always one of itself, even if it holds a `*`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

ANY = "*"
"""What stands for any characters."""


def is_pattern(text: str) -> bool:
    """Whether a text may be of several names."""
    return ANY in text


def matches(name: str, pattern: str) -> bool:
    """Whether a name is the one that is given, or one of those of a pattern."""
    if name == pattern:
        return True
    if ANY not in pattern:
        return False
    first, *between, last = pattern.split(ANY)
    at, end = len(first), len(name) - len(last)
    if end < at or not name.startswith(first) or not name.endswith(last):
        return False
    for part in between:
        # The first place leaves the most for the other parts.
        found = name.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name is one of some names or patterns."""
    return any(matches(name, pattern) for pattern in patterns)
