"""Columns that could be the key of a table that states none, by the rows of a sample."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

MOST_COLUMNS = 40
"""Columns that are tried: a key stands at the beginning of its table."""

IN_PAIRS = 8
"""Columns that are tried two by two."""

Row = Mapping[str, str | None]


class KeyGuess(NamedTuple):
    """Columns whose values no two new rows of the sample share.

    Attributes:
        columns: their names.
        rows: how many new rows there were.
    """

    columns: tuple[str, ...]
    rows: int

    @property
    def sentence(self) -> str:
        """The evidence."""
        names = " and ".join(self.columns)
        if self.rows == 1:
            return f"{names} has a value in the only new row of the sample"
        kind = "different values" if len(self.columns) == 1 else "different pairs of values"
        have = "has" if len(self.columns) == 1 else "have"
        return f"{names} {have} {self.rows} {kind} in {self.rows} new rows, and no null"


def key_guesses(new_rows: Sequence[Row], all_rows: Sequence[Row]) -> list[KeyGuess]:
    """What could be the key, the likeliest first.

    Args:
        new_rows: rows that were inserted or read: in a table with a key no two are equal.
        all_rows: these and every other row; a key is in each of them, and never null.
    """
    if not new_rows:
        return []
    names = [
        name
        for name in dict.fromkeys(name for row in new_rows for name in row)
        if all(row.get(name) is not None for row in all_rows)
    ][:MOST_COLUMNS]
    found = list(_apart([(name,) for name in names], new_rows))
    if not found:
        found = list(_apart(list(combinations(names[:IN_PAIRS], 2)), new_rows))
    places = {name: place for place, name in enumerate(names)}
    found.sort(key=lambda guess: [(_is_unlike(n), places[n]) for n in guess.columns])
    return found


def _apart(choices: Sequence[tuple[str, ...]], rows: Sequence[Row]) -> Iterator[KeyGuess]:
    for columns in choices:
        values = {tuple(row[name] for name in columns) for row in rows}
        if len(values) == len(rows):
            yield KeyGuess(columns, len(rows))


_LIKE = re.compile(r"(.*_)?(id|no|key|code|uuid|guid|pk)|.*Id", re.IGNORECASE)


def _is_unlike(name: str) -> bool:
    """Whether a column is not called as keys are."""
    return _LIKE.fullmatch(name) is None
