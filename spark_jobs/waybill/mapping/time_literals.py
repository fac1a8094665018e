"""Times as conditions state them, in the one form that values have."""

from __future__ import annotations

import re
from datetime import date

_CLOCK = re.compile(r"(.*?[T ]?\d\d:\d\d:\d\d)(?:\.(\d+))?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_WALL_CLOCK = re.compile(
    rf"({_DATE.pattern})"
    r"(?:[T ]((?:[01][0-9]|2[0-3]):[0-5][0-9])(:[0-5][0-9](?:\.[0-9]+)?)?)?"
)
_OF_DAY = re.compile(r"(-?)([0-9]{2,}):([0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?)")
_FORMS = {
    "date": "2026-11-01",
    "time": "12:30:00",
    "timestamp": "2026-11-01 12:30:00",
    "timestamptz": "2026-11-01T12:30:00Z",
}
"""How each kind is written."""


def clock(text: str) -> str:
    """A time whose texts stand in the order of the times: no zeros end its fraction."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        return text
    fraction = (match[2] or "").rstrip("0")
    return f"{match[1]}.{fraction}" if fraction else match[1]


def stated_time(text: str, kind: str) -> str:
    """A literal as values have it; instants lose their Z, as those of values do.

    A time of day may be left out, which is midnight, and so may its seconds. Other forms of ISO
    8601 (`20261101`, weeks, offsets) are refused: a text that nobody reads would compare wrong.

    Args:
        text: the literal.
        kind: `date`, `time`, `timestamp` or `timestamptz`.

    Raises:
        ValueError: it is no such time; the sentence says how one is written.
    """
    if kind == "timestamptz" and not text.endswith("Z"):
        raise ValueError(f"{text!r} needs a Z behind it, as the column holds instants")
    if kind == "timestamp" and text.endswith("Z"):
        raise ValueError(f"{text!r} has a Z, and the column holds wall clocks")
    reads = {"date": _day, "time": _time_of_day}
    try:
        made = reads.get(kind, _wall_clock)(text.removesuffix("Z") if kind[-2:] == "tz" else text)
    except ValueError:
        made = None
    if made is None:
        raise ValueError(f"{text!r} is not a {kind}: write it as {_FORMS[kind]}")
    return made


def _day(text: str) -> str | None:
    return date.fromisoformat(text).isoformat() if _DATE.fullmatch(text) else None


def _wall_clock(text: str) -> str | None:
    match = _WALL_CLOCK.fullmatch(text)
    if match is None:
        return None
    day, minutes, seconds = match.groups()
    return clock(f"{_day(day)}T{minutes or '00:00'}{seconds or ':00'}")


def _time_of_day(text: str) -> str | None:
    """MySQL's may be longer than a day, or negative."""
    match = _OF_DAY.fullmatch(text)
    if match is None:
        return None
    sign, hours, rest = match.groups()
    negative = sign if re.search("[1-9]", text) else ""
    return clock(f"{negative}{int(hours):02}:{rest}")
