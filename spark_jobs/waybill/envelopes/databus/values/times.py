"""Texts of dates and times as the integers that Avro's logical types are: exactly, or a refusal."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta

from waybill.values.instants import EPOCH_DAY

Number = Callable[[str], int]
"""The integer that a text stands for.

Raises:
    ValueError: it stands for none.
"""

_CLOCK = re.compile(r"(-?)([0-9]{2,}):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]+))?", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_MOMENT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]+))?(Z?)", re.ASCII
)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock, or an instant without its Z
_SECOND = timedelta(seconds=1)


def number_for(logical: str) -> Number | None:
    """What makes integers for a logical type of Avro; None where it is no date or time."""
    return _NUMBERS.get(logical)


def _days(text: str) -> int:
    if _DATE.fullmatch(text) is None:
        raise ValueError(text)
    return (date.fromisoformat(text) - EPOCH_DAY).days


def _units(fraction: str | None, digits: int) -> int:
    """Digits of a fraction as units; those that a unit does not hold have to be zeros."""
    padded = (fraction or "").ljust(digits, "0")
    if padded[digits:].strip("0"):
        raise ValueError(padded)
    return int(padded[:digits])


def _clock(digits: int) -> Number:
    per_second: int = 10**digits

    def number(text: str) -> int:
        match = _CLOCK.fullmatch(text)
        if match is None:
            raise ValueError(text)
        sign, hours, minutes, seconds, fraction = match.groups()
        whole = int(hours) * 3600 + int(minutes) * 60 + int(seconds)
        found = whole * per_second + _units(fraction, digits)
        if sign and not found:
            raise ValueError(text)
        return -found if sign else found

    return number


def _moment(digits: int, zone: str) -> Number:
    per_second: int = 10**digits

    def number(text: str) -> int:
        match = _MOMENT.fullmatch(text)
        if match is None or match[3] != zone:
            raise ValueError(text)
        whole = (datetime.fromisoformat(match[1]) - _EPOCH) // _SECOND
        return whole * per_second + _units(match[2], digits)

    return number


_NUMBERS: dict[str, Number] = {
    "date": _days,
    "time-millis": _clock(3),
    "time-micros": _clock(6),
    "timestamp-micros": _moment(6, "Z"),
    "timestamp-nanos": _moment(9, "Z"),
    "local-timestamp-micros": _moment(6, ""),
    "local-timestamp-nanos": _moment(9, ""),
}
