"""Milliseconds since 1970 and ISO 8601, both ways and exact."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache

from waybill.types import FIRST_SECOND, LAST_SECOND

EPOCH_DAY = date(1970, 1, 1)
FIRST_MS = FIRST_SECOND * 1000
"""0001-01-01T00:00:00.000Z, the first instant that ISO 8601 text of four digits can tell."""
LAST_MS = LAST_SECOND * 1000 + 999
"""9999-12-31T23:59:59.999Z."""

MAX_CACHED = 100_000

_INSTANT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,3})(0*))?(Z?)"
)
_MILLIS = tuple(f".{milli:03d}Z" for milli in range(1000))
_DAY_MS: dict[str, int] = {}
_CLOCK_MS: dict[str, int] = {}
_MILLI_MS = {text[1:]: milli for milli, text in enumerate(_MILLIS)}


@lru_cache(maxsize=MAX_CACHED)
def _day_text(day: int) -> str:
    return f"{(EPOCH_DAY + timedelta(days=day)).isoformat()}T"


@lru_cache(maxsize=86_400)
def _clock_text(second: int) -> str:
    return f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


@lru_cache(maxsize=MAX_CACHED)
def _day_number(text: str) -> int:
    return (date.fromisoformat(text) - EPOCH_DAY).days


def instant_text(ms: int) -> str:
    """ISO 8601 in UTC of milliseconds since 1970, always with three digits of the second.

    Raises:
        OverflowError: the year is not one of 1 to 9999.
    """
    day, rest = divmod(ms, 86_400_000)
    second, milli = divmod(rest, 1000)
    return f"{_day_text(day)}{_clock_text(second)}{_MILLIS[milli]}"


def instant_ms(text: str) -> int | None:
    """Milliseconds since 1970 of ISO 8601 text that ends in Z.

    None where the text is anything else, or finer than a millisecond.
    """
    try:
        return _DAY_MS[text[:11]] + _CLOCK_MS[text[11:20]] + _MILLI_MS[text[20:]]
    except KeyError:
        pass
    ms = _milliseconds(text) if text[-1:] == "Z" else None
    if ms is not None and len(text) == 24:
        # The next instant of this day and of this second is three look-ups.
        if len(_DAY_MS) > MAX_CACHED:
            _DAY_MS.clear()
        day = ms // 86_400_000 * 86_400_000
        _DAY_MS[text[:11]] = day
        _CLOCK_MS[text[11:20]] = (ms - day) // 1000 * 1000
    return ms


def _milliseconds(text: str) -> int | None:
    match = _INSTANT.fullmatch(text)
    if match is None:
        return None
    day, hours, minutes, seconds, fraction, _zeros, _z = match.groups(default="")
    if hours > "23" or minutes > "59" or seconds > "59":
        return None
    try:
        number = _day_number(day)
    except ValueError:
        return None
    second = int(hours) * 3600 + int(minutes) * 60 + int(seconds)
    return number * 86_400_000 + second * 1000 + int(fraction.ljust(3, "0"))


class Zone:
    """Turns instants into wall clocks of a time zone and back, where that is exact.

    Args:
        name: a name of the time zone database, or an offset such as `+08:00`.

    Raises:
        ValueError: there is no such zone.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.zone = zone_of(name)

    def wall_text(self, ms: int) -> str | None:
        """Wall clock of an instant; None in an hour that the clocks show twice, or out of range."""
        try:
            shift = self._offset_ms(datetime.fromtimestamp(ms // 1000, UTC).astimezone(self.zone))
            text = instant_text(ms + shift)[:-1]
        except (OverflowError, ValueError, OSError):
            return None
        return text if self.wall_ms(text) == ms else None

    def wall_ms(self, text: str) -> int | None:
        """Instant of a wall clock; None where the text is none, or the clocks never showed it."""
        naive = _milliseconds(text) if text[-1:] != "Z" else None
        if naive is None:
            return None
        try:
            wall = datetime.fromisoformat(text[:19])
            ms = naive - self._offset_ms(wall.replace(tzinfo=self.zone))
            shown = datetime.fromtimestamp(ms // 1000, UTC).astimezone(self.zone)
        except (OverflowError, ValueError, OSError):
            return None
        return ms if shown.replace(tzinfo=None) == wall else None

    @staticmethod
    def _offset_ms(moment: datetime) -> int:
        offset = moment.utcoffset() or timedelta()
        return offset // timedelta(milliseconds=1)


def zone_of(name: str) -> tzinfo:
    """The time zone of a name or an offset.

    Raises:
        ValueError: there is no such zone.
    """
    match = re.fullmatch(r"([-+])([0-9]{2}):?([0-9]{2})", name)
    if match is not None:
        minutes = int(match[2]) * 60 + int(match[3])
        if minutes >= 24 * 60:
            raise ValueError(f"{name!r} is no offset from UTC")
        return timezone(timedelta(minutes=minutes if match[1] == "+" else -minutes))
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(
            f"there is no time zone {name!r}; write a name such as Asia/Shanghai or an offset"
            " such as +08:00"
        ) from None
