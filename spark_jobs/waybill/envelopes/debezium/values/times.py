"""Dates and times of Debezium: counts since 1970 on one side, ISO 8601 text on the other.

Counts may stand for any year. Years after 9999 get a plus sign, years before 1 the astronomical
number (year 0 is 1 BC), so no count is ever without a text that reads back to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date

POSITIVE_INFINITY, NEGATIVE_INFINITY = 9223372036825200000, -9223372036832400000
"""Microseconds that Debezium writes for PostgreSQL's `infinity` timestamps (real captures)."""

_INFINITE = {POSITIVE_INFINITY: "infinity", NEGATIVE_INFINITY: "-infinity"}
_INFINITE_MILLIS = {count // 1000: text for count, text in _INFINITE.items()}
_UNITS = {text: count for count, text in _INFINITE.items()}

_POWERS: tuple[int, ...] = tuple(10**n for n in range(13))
_FAR = 100_000_000
"""Days from 1970 beyond which a timestamp may stand for infinity."""
_EPOCH = 719_163
_LAST_ORDINAL = date.max.toordinal()
_DAY_SECONDS = 86_400
_LIMIT = 200_000


class _Days(dict[int, str]):
    """ISO dates by days since 1970, each made once."""

    def __missing__(self, days: int) -> str:
        if len(self) >= _LIMIT:
            self.clear()
        text = self[days] = _date_text(days)
        return text


class _Clock(dict[int, str]):
    """`HH:MM:SS` by second of the day, each made once."""

    def __missing__(self, second: int) -> str:
        text = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
        self[second] = text
        return text


class _Instants(dict[int, str]):
    """`YYYY-MM-DDTHH:MM:SS` by seconds since 1970; empty where a count may stand for infinity.

    A stream's times are near each other, so most are made once.
    """

    def __missing__(self, seconds: int) -> str:
        days, second = divmod(seconds, _DAY_SECONDS)
        if not -_FAR < days < _FAR:
            return ""
        if len(self) >= _LIMIT:
            self.clear()
        text = self[seconds] = f"{_DAYS[days]}T{_CLOCK_TEXTS[second]}"
        return text


class _InstantSeconds(dict[str, int]):
    """Seconds since 1970 by `YYYY-MM-DDTHH:MM:SS`, each read once."""

    def __missing__(self, text: str) -> int:
        if len(self) >= _LIMIT:
            self.clear()
        if text[10:11] != "T":
            raise ValueError(f"{text!r} is not a timestamp")
        seconds = _DAY_NUMBERS[text[:10]] * _DAY_SECONDS + _SECONDS[text[11:]]
        self[text] = seconds
        return seconds


class _DayNumbers(dict[str, int]):
    """Days since 1970 by ISO date, each read once."""

    def __missing__(self, text: str) -> int:
        if len(self) >= _LIMIT:
            self.clear()
        days = self[text] = date_value(text)
        return days


class _Seconds(dict[str, int]):
    """Seconds of the day by `HH:MM:SS`, each read once."""

    def __missing__(self, text: str) -> int:
        match = _CLOCK.fullmatch(text)
        if match is None or int(match[1]) > 23:
            raise ValueError(f"{text!r} is not a time of day")
        second = (int(match[1]) * 60 + int(match[2])) * 60 + int(match[3])
        self[text] = second
        return second


_CLOCK = re.compile(r"([0-9]{2}):([0-5][0-9]):([0-5][0-9])")
# Only what `date_text` and `time_text` write, so that no text comes back as another one.
_YEAR = r"(?!-0000)-?[0-9]{4}|[-+][1-9][0-9]{4,}"
_DATE = re.compile(rf"({_YEAR})-([0-9]{{2}})-([0-9]{{2}})")
_TIMESTAMP = re.compile(
    rf"((?:{_YEAR})-[0-9]{{2}}-[0-9]{{2}})T([0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}})(\.[0-9]+)?"
)
_TIME = re.compile(r"(-?)([0-9]{2}|[1-9][0-9]{2,}):([0-5][0-9]):([0-5][0-9])(\.[0-9]+)?")
_ZONED = re.compile(r"(.*[0-9])([-+])([0-9]{2})(?::?([0-9]{2}))?(?::?([0-9]{2}))?", re.S)
_DURATION = re.compile(r"PT(-?)([0-9]+)(\.[0-9]+)?S")

_DAYS = _Days()
_CLOCK_TEXTS = _Clock()
_DAY_NUMBERS = _DayNumbers()
_SECONDS = _Seconds()
_INSTANTS = _Instants()
_INSTANT_SECONDS = _InstantSeconds()


# Dates


def date_text(days: int) -> str:
    """ISO date of a number of days since 1970 (`io.debezium.time.Date`)."""
    return _DAYS[days]


def _date_text(days: int) -> str:
    ordinal = days + _EPOCH
    if 1 <= ordinal <= _LAST_ORDINAL:
        return date.fromordinal(ordinal).isoformat()
    # 146097 days make 400 years in any era; the month is counted from March on.
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = era * 400 + year_of_era + (month <= 2)
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def date_value(text: str) -> int:
    """Days since 1970 of an ISO date of any year.

    Raises:
        ValueError: there is no such day, or it is written another way.
    """
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a date")
    year, month, day = (int(part) for part in match.groups())
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    lengths = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    if not (1 <= month <= 12 and 1 <= day <= lengths[month - 1]):
        raise ValueError(f"there is no {text[:40]}")
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return (
        era * 146_097
        + year_of_era * 365
        + year_of_era // 4
        - year_of_era // 100
        + (day_of_year - 719_468)
    )


# Times of day; MySQL's TIME may be negative and longer than a day


def _groups(count: int, digits: int) -> str:
    """The fraction in groups of three digits, as few groups as hold it; empty for zero."""
    if count == 0:
        return ""
    while count % 1000 == 0:
        count //= 1000
        digits -= 3
    return f".{count:0{digits}d}"


def time_text(count: int, digits: int) -> str:
    """Time of day of a count of 10^-digits seconds; may be negative or beyond 24 h."""
    sign, count = ("-", -count) if count < 0 else ("", count)
    seconds, fraction = divmod(count, _POWERS[digits])
    if seconds < _DAY_SECONDS:
        return f"{sign}{_CLOCK_TEXTS[seconds]}{_groups(fraction, digits)}"
    hours, rest = divmod(seconds, 3600)
    return f"{sign}{hours:02}:{rest // 60:02}:{rest % 60:02}{_groups(fraction, digits)}"


def millis_time_text(count: int) -> str:
    """Text of `io.debezium.time.Time`."""
    return time_text(count, 3)


def micros_time_text(count: int) -> str:
    """Text of `io.debezium.time.MicroTime`."""
    if not 0 <= count < _DAY_SECONDS * 1_000_000:
        return time_text(count, 6)
    second, fraction = divmod(count, 1_000_000)
    if fraction == 0:
        return _CLOCK_TEXTS[second]
    if fraction % 1000:
        return f"{_CLOCK_TEXTS[second]}.{fraction:06}"
    return f"{_CLOCK_TEXTS[second]}.{fraction // 1000:03}"


def nanos_time_text(count: int) -> str:
    """Text of `io.debezium.time.NanoTime`."""
    return time_text(count, 9)


def time_value(text: str, digits: int) -> int:
    """Count of 10^-digits seconds of a time of day.

    Raises:
        ValueError: it is none, or has more digits than the unit.
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a time")
    seconds = (int(match[2]) * 60 + int(match[3])) * 60 + int(match[4])
    count = seconds * _POWERS[digits] + _fraction(match[5] or "", digits)
    if match[1] and count == 0:
        raise ValueError("there is no negative midnight")
    return -count if match[1] else count


def _fraction(text: str, digits: int) -> int:
    """Count of 10^-digits seconds of a fraction with its point.

    Raises:
        ValueError: the unit is too coarse for it.
    """
    figures = text[1:]
    if len(figures) > digits:
        if figures[digits:].strip("0"):
            raise ValueError(f"a fraction of {len(figures)} digits does not fit {digits} digits")
        figures = figures[:digits]
    return int(figures.ljust(digits, "0")) if figures else 0


# Timestamps without zone


def millis_text(count: int) -> str:
    """Text of `io.debezium.time.Timestamp`: no fraction where the milliseconds are zero.

    The unit stands for columns of 0 to 3 digits, and whole seconds are what columns of 0 digits
    (MySQL's DATETIME) hold.
    """
    seconds, fraction = divmod(count, 1000)
    text = _INSTANTS[seconds] or _far_text(seconds, count, _INFINITE_MILLIS)
    return text if fraction == 0 or text in _UNITS else f"{text}.{fraction:03}"


def micros_text(count: int) -> str:
    """Text of `io.debezium.time.MicroTimestamp`, six digits of fraction."""
    seconds = count // 1_000_000
    text = _INSTANTS[seconds]
    if text:
        return f"{text}.{count % 1_000_000:06}"
    text = _far_text(seconds, count, _INFINITE)
    return text if text in _UNITS else f"{text}.{count % 1_000_000:06}"


def _far_text(seconds: int, count: int, infinite: dict[int, str]) -> str:
    """The second of a count that may stand for infinity, or that."""
    days, second = divmod(seconds, _DAY_SECONDS)
    return infinite.get(count) or f"{_DAYS[days]}T{_CLOCK_TEXTS[second]}"


def nanos_text(count: int) -> str:
    """Text of `io.debezium.time.NanoTimestamp`, nine digits of fraction."""
    seconds, fraction = divmod(count, 1_000_000_000)
    return f"{_INSTANTS[seconds] or _far_text(seconds, count, {})}.{fraction:09}"


def timestamp_value(text: str, digits: int) -> int:
    """Count of 10^-digits seconds since 1970 of a timestamp without zone.

    Raises:
        ValueError: it is none, there is no such day, or the unit is too coarse for its fraction.
    """
    fraction = text[20:]
    if text[19:20] == "." and fraction.isdecimal() and fraction.isascii():
        seconds = _INSTANT_SECONDS[text[:19]]
        if len(fraction) == digits:
            return seconds * _POWERS[digits] + int(fraction)
        return seconds * _POWERS[digits] + _fraction(text[19:], digits)
    if len(text) == 19 and text[10] == "T":
        return _INSTANT_SECONDS[text] * _POWERS[digits]
    if text in _UNITS and digits in (3, 6):
        return _UNITS[text] // (1000 if digits == 3 else 1)
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a timestamp")
    seconds = _DAY_NUMBERS[match[1]] * _DAY_SECONDS + _SECONDS[match[2]]
    return seconds * _POWERS[digits] + _fraction(match[3] or "", digits)


def micros_writer(exact: Callable[[str], int]) -> Callable[[str], int]:
    """What `timestamp_value` does with six digits, for nearly all texts without another call.

    Args:
        exact: what counts all others.
    """

    def write(text: str) -> int:
        fraction = text[20:]
        if len(fraction) == 6 and text[19] == "." and fraction.isdecimal() and fraction.isascii():
            # A year of four digits: 64 bits hold the count.
            return _INSTANT_SECONDS[text[:19]] * 1_000_000 + int(fraction)
        return exact(text)

    return write


# Texts with a zone


def zoned_text(text: str) -> str:
    """An instant in UTC, ending in Z; what is no timestamp (`infinity`) stays as it is.

    `io.debezium.time.ZonedTimestamp` is in UTC already unless the connector was set otherwise.
    """
    if text.endswith("Z"):
        return text
    match = _ZONED.fullmatch(text)
    if match is None:
        return text
    local, sign, hours, minutes, seconds = match.groups()
    fraction = local[local.index(".") :] if "." in local else ""
    try:
        count = timestamp_value(local.removesuffix(fraction).replace(" ", "T"), 0)
    except ValueError:
        return text
    shift = (int(hours) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)
    days, second = divmod(count + (shift if sign == "-" else -shift), _DAY_SECONDS)
    return f"{_DAYS[days]}T{_CLOCK_TEXTS[second]}{fraction}Z"


def local_text(text: str) -> str:
    """A wall-clock text of the mode `isostring`, which adds a Z that no column without zone has."""
    return text[:-1] if text.endswith("Z") else text


# Durations


def duration_text(count: int, digits: int) -> str:
    """ISO 8601 duration in seconds of a count of 10^-digits seconds; loses nothing."""
    sign, count = ("-", -count) if count < 0 else ("", count)
    seconds, fraction = divmod(count, _POWERS[digits])
    return f"PT{sign}{seconds}{_groups(fraction, digits)}S"


def duration_value(text: str, digits: int) -> int:
    """Count of 10^-digits seconds of what `duration_text` wrote.

    Raises:
        ValueError: the text is another duration; months and days have no number of seconds.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a duration in seconds")
    count = int(match[2]) * _POWERS[digits] + _fraction(match[3] or "", digits)
    count = -count if match[1] else count
    if duration_text(count, digits) != text:
        raise ValueError(f"{text[:40]!r} would be written another way")
    return count
