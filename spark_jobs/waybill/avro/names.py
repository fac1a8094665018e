"""Names of tables and columns as names that Avro allows (Avro 1.12 specification, "Names")."""

from __future__ import annotations

import re
from collections.abc import Iterable

_LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ILLEGAL = re.compile(r"[^A-Za-z0-9_]")


def legal(name: str) -> str:
    """A legal Avro name for any name."""
    if _LEGAL.fullmatch(name):
        return name
    plain = _ILLEGAL.sub("_", name)
    return plain if _LEGAL.fullmatch(plain) else f"_{plain}"


def legal_fields(names: Iterable[str]) -> list[str]:
    """Legal names for the fields of a record, no two of them the same."""
    names = list(names)
    taken = {name for name in names if _LEGAL.fullmatch(name)}
    found = []
    for name in names:
        made = legal(name)
        if made != name:
            number, base = 1, made
            while made in taken:
                number += 1
                made = f"{base}_{number}"
            taken.add(made)
        found.append(made)
    return found
