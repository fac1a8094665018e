"""Times of any year in their order: what conditions compare.

Texts of times stand in the order of the times only from year 0 to 9999. Databases have others:
`+10000-01-01` and `10000-01-01`, `-0043-03-15` and `0044-03-15 BC`, `infinity`.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

Moment = tuple[int, int, str]
"""Minus or plus one for times without beginning or end, else zero; the year, as astronomers count
it; and the rest, which stands in the order of the times."""

NO_TIME = 2
"""The first part of what is not a time: equal to itself, and neither before nor after a time."""

_USUAL = re.compile(r"([0-9]{4})(-[0-9]{2}-[0-9]{2}(?:T[0-9]{2}:[0-9]{2}:[0-9]{2})?)Z?")
_ANY = re.compile(
    r"([-+]?[0-9]{4,})-([0-9]{2})-([0-9]{2})"
    r"(?:[T ]([0-9]{2}:[0-9]{2})(:[0-9]{2})?(?:\.([0-9]+))?)?"
    r" ?(Z|UTC|[-+][0-9]{2}(?::?[0-9]{2}){0,2})?( BC)?"
)
_ENDLESS: dict[str, Moment] = {
    "infinity": (1, 0, ""),
    "+infinity": (1, 0, ""),
    "-infinity": (-1, 0, ""),
}
_CYCLE = 400
"""Years after which the calendar is the same again."""


def moment(text: str) -> Moment:
    """A date, a wall clock or an instant so that moments stand in the order of the times.

    Args:
        text: as values have it, or the literals of conditions.
    """
    usual = _USUAL.fullmatch(text)
    if usual is not None:
        return 0, int(usual[1]), usual[2]
    match = _ANY.fullmatch(text)
    if match is None:
        return _ENDLESS.get(text) or (NO_TIME, 0, text)
    number, month, day, minutes, seconds, fraction, zone, before_christ = match.groups()
    year = 1 - int(number) if before_christ else int(number)
    rest = f"-{month}-{day}"
    if minutes is not None:
        rest += f"T{minutes}{seconds or ':00'}"
        if zone is not None and zone.strip("+-0:ZUTC"):
            try:
                year, rest = _in_utc(year, rest, zone)
            except ValueError:
                # No calendar has the day, so nobody knows which one it is elsewhere.
                return NO_TIME, 0, text
        if fraction is not None and fraction.strip("0"):
            rest += f".{fraction.rstrip('0')}"
    return 0, year, rest


def _in_utc(year: int, rest: str, zone: str) -> tuple[int, str]:
    """Year and rest of an instant in UTC.

    Raises:
        ValueError: its date or its time of day is none.
    """
    # A year of the same calendar that Python knows, and its neighbours.
    same = year % _CYCLE + _CYCLE
    hours, mins, secs = [*re.findall("[0-9]{2}", zone), "00", "00"][:3]
    offset = timedelta(hours=int(hours), minutes=int(mins), seconds=int(secs))
    wall = datetime.fromisoformat(f"{same:04}{rest}")
    utc = wall + offset if zone[0] == "-" else wall - offset
    return year + utc.year - same, utc.strftime("-%m-%dT%H:%M:%S")
