"""Figures and times as the pages write them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from waybill.counting import counted

NOTHING = "\N{EN DASH}"
"""Stands where there is no figure."""

_UNITS = ((86400, "day"), (3600, "h"), (60, "min"), (1, "s"))


def number(value: int | float | None) -> str:
    """A number with its thousands apart; a dash for none."""
    if value is None:
        return NOTHING
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def moment(milliseconds: int | None) -> datetime | None:
    """A time of the overview's files."""
    if not milliseconds:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def clock(time: datetime | None) -> str:
    """A time for people, in UTC."""
    return NOTHING if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def time_of_day(time: datetime, now: datetime) -> str:
    """A time for people, in UTC, with its day only where that is another one."""
    there = time.astimezone(UTC)
    return (
        f"{there:%H:%M}"
        if there.date() == now.astimezone(UTC).date()
        else f"{there:%Y-%m-%d %H:%M}"
    )


def age(milliseconds: int | None, now: datetime) -> str:
    """How long ago that is, in one unit."""
    then = moment(milliseconds)
    return NOTHING if then is None else length((now - then).total_seconds())


def away(time: datetime, now: datetime) -> str:
    """How far off a time is that was planned."""
    seconds = (time - now).total_seconds()
    return f"in {length(seconds)}" if seconds >= 0 else f"due {length(-seconds)} ago"


def length(seconds: float) -> str:
    """A length of time in one unit, rounded down."""
    whole = max(0, int(seconds))
    for size, unit in _UNITS:
        if whole >= size:
            if unit == "day":
                return counted(whole // size, unit)
            return f"{whole // size} {unit}"
    return "0 s"


def counts(values: Mapping[str, int]) -> str:
    """Counts by name, e.g. `3 json, 1 value`."""
    return ", ".join(f"{number(count)} {name}" for name, count in values.items() if count)
