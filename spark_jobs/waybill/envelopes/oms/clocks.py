"""Times of OMS beyond what `notation.temporal` knows: those before V3.3.0, and sums of two counts.

Source: OceanBase documentation "Data formats": before V3.3.0-CE a TIMESTAMP is an integer of
seconds, other times are `YYYY-MM-DDTHH:mm[:ss]`; the DataWorks method counts a time as 13 digits of
milliseconds, a point, and 9 digits of nanoseconds. Digits are text all the way, none is rounded.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from waybill.errors import Refusal
from waybill.values.temporal import (
    epoch_from_utc,
    is_wall_clock,
    iso_from_blank,
    utc_from_epoch,
    utc_from_wall,
    utc_from_zoned,
    wall_from_utc,
    zoned,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from zoneinfo import ZoneInfo

_SHORT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}")
_SHORT_TIME = re.compile(r"[0-9]{2}:[0-9]{2}")
_MIDNIGHT = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})T00:00(?::00(?:\.0{1,9})?)?")
_OFFSET = re.compile(
    r"(.{18,28}[0-9]) ?(?:Z|UT|(?:UTC|GMT|UT)?([-+])([0-9]{2}):([0-9]{2})(?::([0-9]{2}))?)"
)
"""A time with an offset as Java's `ZoneId` names it; other zones have names of their own."""
_SUM = re.compile(r"(-?[0-9]{1,15})(?:\.([0-9]{1,9}))?")
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock, compared with wall clocks only
_SECONDS = re.compile(r"-?[0-9]+(\.0+)?")
_FINEST = 9
_MAX_TEXTS = 10_000


def instant_of(text: str) -> str:
    """A TIMESTAMP, or a time that names its zone or offset, in UTC; what is neither stays."""
    found = utc_from_epoch(text)
    if found is text:
        found = utc_from_zoned(text)
    return _from_offset(text) if found is text else found


def names_zone(text: str) -> bool:
    """Whether a text is a date and a time of day with a zone or an offset behind it."""
    return zoned(text) is not None or _from_offset(text) is not text


def _from_offset(text: str) -> str:
    """`2020-11-25 00:01:02.5 +08:00` in UTC; anything else stays as it is."""
    match = _OFFSET.fullmatch(text)
    if match is None:
        return text
    wall = iso_from_blank(match[1])
    hours, minutes, seconds = (int(part or 0) for part in match.groups()[2:])
    shift = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    if not is_wall_clock(wall) or shift >= timedelta(days=1):
        return text
    try:
        moment = datetime.fromisoformat(wall[:19])
        moment = moment + shift if match[2] == "-" else moment - shift
    except OverflowError:
        return text
    return f"{moment.isoformat()}{wall[19:]}Z"


# Before V3.3.0


def wall_of(text: str) -> str:
    """A DATETIME as it was before V3.3.0, its seconds left out where they are zero, or as now."""
    if _SHORT.fullmatch(text) is not None and is_wall_clock(f"{text}:00"):
        return f"{text}:00"
    return iso_from_blank(text)


def clock_of(text: str) -> str:
    """A time of day, whose seconds may be left out where they are zero."""
    valid = _SHORT_TIME.fullmatch(text) is not None and text < "24" and text[3:] < "60"
    return f"{text}:00" if valid else text


def day_of(text: str) -> str:
    """A DATE, which may be written as its midnight."""
    match = _MIDNIGHT.fullmatch(text)
    return match[1] if match is not None and is_wall_clock(f"{match[1]}T00:00:00") else text


def moment_of(value: Any) -> str:
    """A TIMESTAMP in whole seconds, as a number or a text."""
    return instant_of(str(value))


def whole_seconds(text: str) -> Any:
    """A UTC text as a number of seconds since 1970.

    Raises:
        Refusal: kind `encoding`, for a fraction of a second.
    """
    found = epoch_from_utc(text)
    if found is text:
        return text
    if _SECONDS.fullmatch(found) is None:
        raise Refusal("encoding", f"{text[:60]!r} is no whole second; set version: 3.3.0")
    return Raw(found.partition(".")[0])


# Milliseconds and nanoseconds


def utc_from_sum(text: str) -> str:
    """UTC text of milliseconds since 1970 with, after a point, the nanoseconds of its second.

    The nanoseconds are those of the second and not of the millisecond, as a Java timestamp tells
    both: in the document's 1590315269000.123456789 the milliseconds of the second are left out, in
    1590315269123.123456789 they are stated twice.

    Raises:
        Refusal: kind `value`, when the text is no such number, both parts disagree, or the year is
            not one of 1 to 9999.
    """
    match = _SUM.fullmatch(text)
    if match is None:
        raise Refusal("value", f"{text[:60]!r} is no milliseconds with nanoseconds after a point")
    seconds, millis = divmod(int(match[1]), 1000)
    digits = f"{millis:03d}" if millis else ""
    nanos = match[2]
    if nanos is not None:
        if nanos[:3].ljust(3, "0") != f"{millis:03d}" and (millis or len(nanos) < _FINEST):
            sentence = "tells the milliseconds of its second in two ways, or not all 9 digits"
            raise Refusal("value", f"{text[:60]!r} {sentence}")
        digits = nanos
    try:
        moment = (_EPOCH + timedelta(seconds=seconds)).isoformat()
    except OverflowError:
        raise Refusal("value", f"{text[:60]!r} is not in the years 1 to 9999") from None
    return f"{moment}.{digits}Z" if digits else f"{moment}Z"


def sum_from_utc(text: str) -> str | None:
    """The number that `utc_from_sum` reads as a UTC text; None where there is none.

    Beside nanoseconds the milliseconds of the second are left out, as in the document, so that a
    reader who adds up both parts is right too.
    """
    if text[-1:] != "Z" or not is_wall_clock(text[:-1]):
        return None
    seconds = (datetime.fromisoformat(text[:19]) - _EPOCH) // timedelta(seconds=1)
    digits = text[20:-1].rstrip("0")
    if len(digits) > _FINEST:
        return None
    if len(digits) <= 3:
        return str(seconds * 1000 + int(digits.ljust(3, "0")))
    return f"{seconds * 1000}.{digits.ljust(_FINEST, '0')}" if seconds >= 0 else None


# Times of changes


class Micros(dict[str, int]):
    """Microseconds by the text of a time: many changes share one.

    Args:
        utc: from a wall clock text to UTC.
        field: the name of the field, for errors.
    """

    def __init__(self, utc: Callable[[str], str], field: str) -> None:
        super().__init__()
        self.utc = utc
        self.field = field

    def __missing__(self, text: str) -> int:
        instant = self.utc(iso_from_blank(text))
        if instant[-1:] != "Z" or not is_wall_clock(instant[:-1]):
            message = f"{self.field} is {text[:60]!r} and not a date and a time of day"
            raise Refusal("shape", message)
        moment = datetime.fromisoformat(instant[:19])
        fraction = instant[20:-1][:6].ljust(6, "0")
        if len(self) >= 1_000:
            self.clear()
        micros = (moment - _EPOCH) // timedelta(microseconds=1) + int(fraction)
        self[text] = micros
        return micros


class SecondTexts(dict[int, tuple[str, bool]]):
    """`YYYY-MM-DDTHH:mm:ss` by seconds since 1970: many changes share one.

    Beside it stands whether readers find the same second: of an hour that clocks showed twice they
    take the first.

    Args:
        zone: whose clocks show it.

    Raises:
        Refusal: kind `encoding`, when the year is not one of 1 to 9999.
    """

    def __init__(self, zone: ZoneInfo) -> None:
        super().__init__()
        self._wall, self._utc = wall_from_utc(zone), utc_from_wall(zone)

    def __missing__(self, second: int) -> tuple[str, bool]:
        try:
            utc = f"{(_EPOCH + timedelta(seconds=second)).isoformat()}Z"
        except OverflowError:
            utc = ""
        wall = self._wall(utc)
        if wall == utc:
            raise Refusal("encoding", "a source time outside of the years 1 to 9999")
        if len(self) >= _MAX_TEXTS:
            self.clear()
        found = self[second] = wall.replace(" ", "T"), self._utc(wall) == utc
        return found
