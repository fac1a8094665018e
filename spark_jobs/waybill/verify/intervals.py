"""Intervals as three numbers: months, days and microseconds, which do not convert exactly."""

from __future__ import annotations

import re
from decimal import Decimal

_ISO = re.compile(
    r"P(?:(?P<years>-?\d+)Y)?(?:(?P<months>-?\d+)M)?(?:(?P<weeks>-?\d+)W)?(?:(?P<days>-?\d+)D)?"
    r"(?:T(?:(?P<hours>-?\d+)H)?(?:(?P<minutes>-?\d+)M)?(?:(?P<seconds>-?\d+(?:\.\d+)?)S)?)?"
)
_WORDS = re.compile(
    r"(?:(?P<years>[+-]?\d+) years?)? ?(?:(?P<months>[+-]?\d+) mons?)? ?"
    r"(?:(?P<days>[+-]?\d+) days?)? ?"
    r"(?:(?P<sign>[+-])?(?P<hours>\d+):(?P<minutes>\d\d):(?P<seconds>\d\d(?:\.\d+)?))?"
)


def interval_text(text: str) -> str:
    """An interval in ISO 8601, or in PostgreSQL's own words, as `months days seconds`.

    Anything else stays as it is.
    """
    match = _ISO.fullmatch(text) or (_WORDS.fullmatch(text) if text else None)
    if match is None:
        return text
    groups = match.groupdict(default="0")
    part = {name: Decimal(value) for name, value in groups.items() if value not in ("+", "-")}
    seconds = part["hours"] * 3600 + part["minutes"] * 60 + part["seconds"]
    if match.groupdict().get("sign") == "-":
        seconds = -seconds
    months = part["years"] * 12 + part["months"]
    days = part["days"] + 7 * part.get("weeks", Decimal(0))
    return f"{months:f} {days:f} {_plain(seconds)}"


def _plain(number: Decimal) -> str:
    text = f"{number:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text
