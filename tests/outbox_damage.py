"""Kinds of damage to rows of the outbox, one row at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Rows = list[dict[str, Any]]
Damage = Callable[[Rows, int], set[int]]
"""Damages the row at a place, which its offset is too; returns the offsets that are wrong then."""


def _replaced(old: bytes, new: bytes) -> Damage:
    def damage(rows: Rows, at: int) -> set[int]:
        value = bytes(rows[at]["value"])
        assert old in value
        rows[at]["value"] = value.replace(old, new, 1)
        return {at}

    return damage


def _swapped(*names: str) -> Damage:
    def damage(rows: Rows, at: int) -> set[int]:
        for name in names:
            rows[at][name], rows[at + 1][name] = rows[at + 1][name], rows[at][name]
        return {at, at + 1}

    return damage


def _of_nothing(rows: Rows, at: int) -> set[int]:
    rows[at]["offset"] = 10_000 + at
    return {10_000 + at}


def _of_another(rows: Rows, at: int) -> set[int]:
    rows[at] = rows[at + 1].copy()
    return {at + 1}


DAMAGES: dict[str, Damage] = {
    "a changed byte": _replaced(b"0.10000", b"0.10001"),
    "messages of two rows swapped": _swapped("key", "value"),
    "values of two rows swapped": _swapped("value"),
    "a wrong table": _replaced(b'"table":"orders"', b'"table":"others"'),
    "a message of no change": _of_nothing,
    "a cut message": _replaced(b'"orders"', b'"ord'),
    "one lost, another doubled": _of_another,
}
"""For messages of `tests.unit.inprocess.test_converter.canal` in Canal or Debezium JSON."""
