"""Ids of the DAGs that a migration has beside its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waybill.spec.migration import Migration

UPKEEP, VERIFY, WATCH = "_upkeep", "_verify", "_watch"
"""What their ids end in, behind the migration's name."""


def dags_beside(spec: Migration) -> list[str]:
    """The ids of those that there are."""
    there = {
        UPKEEP: spec.upkeep is not None,
        VERIFY: spec.verify is not None,
        WATCH: spec.watched is not None,
    }
    return [f"{spec.name}{suffix}" for suffix, is_there in there.items() if is_there]
