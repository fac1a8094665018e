"""Shadow tables of online schema changes: copies that gh-ost and pt-online-schema-change work on.

Both copy a table into another one, which takes the name of the first in the end. Every change of a
row comes a second time as one of the copy, and the copy of all rows comes once more.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from waybill.counting import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

SHADOW = "shadow table of an online schema change"
"""Why a change of such a table is skipped."""

_SHADOW = re.compile(r"_+(?P<of>.+?)(?:_\d{14})?_(?:gho|ghc|del|new|old)", re.DOTALL)
_DIALECTS = ("", "mysql")
"""Both tools work on MySQL and MariaDB; some messages do not say whose they are."""


def shadow_of(table: str) -> str | None:
    """The table that a shadow table belongs to, None if it is not a shadow table.

    Source: gh-ost, "Cheatsheet" (`_t_gho`, `_t_ghc`, `_t_del`, the last with a timestamp before it
    where asked for); pt-online-schema-change, "Description" (`_t_new`, `_t_old`, with more
    underscores in front where such a table was there).
    """
    found = _SHADOW.fullmatch(table)
    return None if found is None else found["of"]


def is_shadow(table: str, dialect: str) -> bool:
    """Whether a table of a source is a shadow table.

    Args:
        table: its name.
        dialect: the source's SQL, empty where it is not known.
    """
    return dialect in _DIALECTS and shadow_of(table) is not None


def shadows_sentence(changes: int) -> str:
    """The sentence about changes that were left out."""
    return (
        f"{counted(changes, 'change')} of shadow tables of gh-ost or pt-online-schema-change (such "
        "as _t_gho, _t_new) left out, as all of it comes to the table itself: set `shadow_tables: "
        "take`, or name a table under select.include, if it is none"
    )


def swapped(pairs: Iterable[tuple[tuple[str, ...], tuple[str, ...]]]) -> set[tuple[str, ...]]:
    """The tables that renames give their shadow table's rows: its name goes there and back.

    Args:
        pairs: name parts of each old and new name, of one statement.
    """
    listed = list(pairs)
    given = {new for old, new in listed if shadow_of(old[-1]) == new[-1]}
    return {old for old, new in listed if old in given and shadow_of(new[-1]) == old[-1]}
