"""Whether a migration is late by its schedule."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from croniter import croniter  # type: ignore[import-untyped]

LATE_AFTER = 2
"""A migration is late when so many of its scheduled times have passed since its last batch."""

_PRESETS = {"@once": None, "@continuous": None, "@quarterly": "0 0 1 */3 *"}
"""Airflow's presets that croniter does not know."""


def is_overdue(schedule: str | None, ended: int, now: datetime) -> bool:
    """Whether more scheduled times have passed since the last batch than may.

    Args:
        schedule: cron text or preset; None where there is none.
        ended: when the last batch ended, in milliseconds since 1970; 0 where that is not known.
        now: with its zone.
    """
    cron = _cron(schedule)
    if cron is None or not ended:
        return False
    return datetime.fromtimestamp(ended / 1000, UTC) < _last_due(cron, now)


@lru_cache(maxsize=256)
def _last_due(cron: str, now: datetime) -> datetime:
    """The scheduled time that is `LATE_AFTER` before now; many migrations share a schedule."""
    times = croniter(cron, now)
    before: datetime = now
    for _ in range(LATE_AFTER):
        before = times.get_prev(datetime)
    return before


def late_from(schedule: str | None, ended: int) -> int | None:
    """When a migration is late whose last batch ended at a time; None without a schedule.

    Args:
        schedule: see `is_overdue`.
        ended: see there; the answer is in milliseconds since 1970, too.
    """
    cron = _cron(schedule)
    if cron is None:
        return None
    times = croniter(cron, datetime.fromtimestamp(ended / 1000, UTC))
    due = 0.0
    for _ in range(LATE_AFTER):
        due = times.get_next(float)
    return int(due * 1000)


def _cron(schedule: str | None) -> str | None:
    return None if schedule is None else _PRESETS.get(schedule, schedule)
