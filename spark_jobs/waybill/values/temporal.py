"""Notations of dates and times: the canonical ISO 8601 text and what the envelopes write.

Fraction digits are carried as text, so none is added, dropped or rounded. Wall clock times are
never shifted. A text that is no valid time (`0000-00-00 00:00:00`, February 30) stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator

from waybill.errors import Code, ConfigurationError, Refusal
from waybill.types import FIRST_SECOND, LAST_SECOND

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock, compared with wall clocks only
_parse = datetime.fromisoformat
_SECOND = timedelta(seconds=1)
_EPOCH_SECONDS = re.compile(r"(-?)([0-9]{1,12})(?:\.([0-9]{1,12}))?")
_CLOCK = re.compile(r"-?[0-9]{2,3}:[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?")
_ZONE_ID = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*")


_BLANK = frozenset({"-- ::", "-- ::."})
_ISO = frozenset({"--T::", "--T::."})
"""The separators of a date and a time of day, and the point before a fraction."""
_LONGEST = 32


def is_wall_clock(text: str, separators: frozenset[str] = _ISO) -> bool:
    """Whether a text is a valid date and time of day with seconds, in ISO 8601 with a T."""
    # One slice takes the separators; the parser knows the calendar, and takes more notations than
    # this one: basic and week forms, missing seconds, commas, zones.
    try:
        return text[4:20:3] in separators and _parse(text).tzinfo is None and len(text) <= _LONGEST
    except ValueError:
        return False


def iso_from_blank(text: str) -> str:
    """`2020-01-01 00:00:00.5` as `2020-01-01T00:00:00.5`; anything else stays as it is."""
    # As is_wall_clock, without a call: this runs for every DATETIME of every row.
    try:
        if text[4:20:3] in _BLANK and _parse(text).tzinfo is None and len(text) <= _LONGEST:
            return text.replace(" ", "T")
    except ValueError:
        pass
    return text


def blank_from_iso(text: str) -> str:
    """`2020-01-01T00:00:00.5` as `2020-01-01 00:00:00.5`; anything else stays as it is."""
    try:
        if text[4:20:3] in _ISO and _parse(text).tzinfo is None and len(text) <= _LONGEST:
            return text.replace("T", " ")
    except ValueError:
        pass
    return text


def faithful(write: Callable[[str], str], read: Callable[[str], str]) -> Callable[[str], str]:
    """A writer that refuses what it would write as it is and `read` would take for something else.

    Such a text did not fit its type when it came; written as it is it must stay the text it was.
    """

    def stays(text: str) -> bool:
        try:
            return read(text) == text
        except Refusal:
            return False

    def checked(text: str) -> str:
        written = write(text)
        if written is text and not stays(text):
            raise Refusal("encoding", f"{text[:60]!r} is no value of its column and would be one")
        return written

    return checked


def zone_named(name: str) -> ZoneInfo:
    """The time zone of an IANA name.

    Raises:
        ConfigurationError: there is no such zone.
    """
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        message = f"there is no time zone {name!r}; name one as Asia/Shanghai or UTC"
        raise ConfigurationError(message, code=Code.ENVELOPE_SETTING) from None


def _known_zone(name: str) -> str:
    try:
        zone_named(name)
    except ConfigurationError as error:
        raise ValueError(error.sentence) from None
    return name


ZoneName = Annotated[str, AfterValidator(_known_zone)]
"""A setting that names a time zone; another text is refused when the settings are read."""


def is_utc(zone: ZoneInfo) -> bool:
    """Whether the clocks of a zone always show UTC."""
    return zone.key in ("UTC", "Etc/UTC", "GMT", "Etc/GMT")


def utc_from_wall(zone: ZoneInfo) -> Callable[[str], str]:
    """A function from wall clock texts of a zone to UTC texts that end in Z.

    Of the two instants of an hour that the clocks went through twice, the first is taken.
    Texts that are no valid time stay as they are, and so do those of an hour that was left out.
    """
    if is_utc(zone):
        return _utc_from_utc_wall

    def convert(text: str) -> str:
        if not (is_wall_clock(text, _BLANK) or is_wall_clock(text)):
            return text
        wall = datetime.fromisoformat(text[:19])
        offset, later = zone.utcoffset(wall), zone.utcoffset(wall.replace(fold=1))
        if offset is not None and later is not None and offset < later:
            # The clocks were put forward over it; no instant is shown so.
            return text
        try:
            instant = wall if offset is None else wall - offset
        except OverflowError:
            return text
        return f"{instant.isoformat()}{text[19:]}Z"

    return convert


def _utc_from_utc_wall(text: str) -> str:
    if is_wall_clock(text, _BLANK):
        return text.replace(" ", "T") + "Z"
    return text + "Z" if is_wall_clock(text) else text


def wall_from_utc(zone: ZoneInfo, once: bool = False) -> Callable[[str], str]:
    """A function from UTC texts that end in Z to wall clock texts of a zone, with a blank.

    Anything but a valid UTC text stays as it is.

    Args:
        zone: the zone.
        once: refuse (kind `encoding`) an instant whose wall clock the zone had shown before: it
            would be read as the first one (see `utc_from_wall`).
    """

    def convert(text: str) -> str:
        if text[-1:] != "Z" or not is_wall_clock(text[:-1]):
            return text
        instant = datetime.fromisoformat(text[:19]).replace(tzinfo=UTC)
        try:
            wall = instant.astimezone(zone)
        except OverflowError:
            return text
        # The zone itself marks the second of two equal wall clocks, so nothing is read back.
        if once and wall.fold:
            message = f"{text[:60]!r} is a time that the clocks of {zone.key} showed before"
            raise Refusal("encoding", f"{message}; set timezone: UTC here and where it is read")
        return f"{wall.replace(tzinfo=None).isoformat(' ')}{text[19:-1]}"

    if is_utc(zone):
        return _utc_wall_from_utc
    return convert


def _utc_wall_from_utc(text: str) -> str:
    wall = text[:-1]
    if text[-1:] == "Z" and is_wall_clock(wall):
        return wall.replace("T", " ")
    return text


def without_zeros(kind: str) -> Callable[[str], str]:
    """A function from canonical times to those without zeros at the end of their fraction.

    Texts that are no valid time stay as they are.

    Args:
        kind: `time`, `timestamp` or `timestamptz`.
    """
    last = "Z" if kind == "timestamptz" else ""
    valid = is_clock if kind == "time" else is_wall_clock

    def shorten(text: str) -> str:
        shortened = text.removesuffix(last)
        if (
            shortened[-1:] != "0"
            or "." not in shortened
            or f"{shortened}{last}" != text
            or not valid(shortened)
        ):
            return text
        return shortened.rstrip("0").removesuffix(".") + last

    return shorten


def is_clock(text: str) -> bool:
    """Whether a text is a time with seconds: of day, or MySQL's of more hours or below zero."""
    return _CLOCK.fullmatch(text) is not None


def utc_from_epoch(text: str) -> str:
    """Decimal seconds since 1970 (`1606233662.012345`) as a UTC text; anything else stays."""
    match = _EPOCH_SECONDS.fullmatch(text)
    if match is None:
        return text
    minus, whole, fraction = match.groups()
    seconds = int(whole)
    if minus:
        seconds = -seconds
        if fraction is not None and fraction.strip("0"):
            # Before 1970 the fraction of the wall clock counts up from the second before.
            width = len(fraction)
            seconds, fraction = seconds - 1, f"{10**width - int(fraction):0{width}d}"
    if not FIRST_SECOND <= seconds <= LAST_SECOND:
        return text
    instant = (_EPOCH + timedelta(seconds=seconds)).isoformat()
    return f"{instant}Z" if fraction is None else f"{instant}.{fraction}Z"


def epoch_from_utc(text: str) -> str:
    """A UTC text as decimal seconds since 1970, fraction digits kept; anything else stays."""
    if text[-1:] != "Z" or not is_wall_clock(text[:-1]):
        return text
    seconds = (datetime.fromisoformat(text[:19]) - _EPOCH) // _SECOND
    fraction = text[20:-1]
    if not fraction:
        return str(seconds)
    if seconds >= 0 or not fraction.strip("0"):
        return f"{seconds}.{fraction}"
    width = len(fraction)
    return f"-{-seconds - 1}.{10**width - int(fraction):0{width}d}"


def zoned(text: str) -> tuple[str, ZoneInfo] | None:
    """The wall clock and the zone of `2020-11-25 00:01:02.5 Asia/Shanghai`; None for others."""
    wall, _, zone = text.rpartition(" ")
    if not (is_wall_clock(wall, _BLANK) or is_wall_clock(wall)):
        return None
    if _ZONE_ID.fullmatch(zone) is None or zone[:1].isdigit():
        return None
    try:
        return wall, zone_named(zone)
    except ConfigurationError:
        return None


def utc_from_zoned(text: str) -> str:
    """Such a time as a UTC text; one that the clocks of its zone left out, and others, stay.

    Raises:
        Refusal: kind `value`, when the clocks of the zone showed the time twice: it is none of the
            two instants more than the other.
    """
    found = zoned(text)
    if found is None:
        return text
    wall, zone = found
    clock = datetime.fromisoformat(wall[:19])
    first, second = zone.utcoffset(clock), zone.utcoffset(clock.replace(fold=1))
    if first is not None and second is not None and first > second:
        sentence = f"{text[:60]!r} is a time that the clocks of {zone.key} showed twice"
        raise Refusal("value", f"{sentence}: declare the column as string, which keeps it")
    converted = utc_from_wall(zone)(wall)
    return text if converted == wall else converted
