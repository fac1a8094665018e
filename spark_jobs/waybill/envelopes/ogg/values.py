"""Names, times and positions as GoldenGate writes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from waybill.errors import Refusal
from waybill.sequence_layout import optional
from waybill.values.json_columns import Style
from waybill.values.notation import FROM_BLANK, TO_BLANK, Notation
from waybill.values.seconds import Seconds, second_text
from waybill.values.temporal import (
    blank_from_iso,
    faithful,
    is_wall_clock,
    iso_from_blank,
    utc_from_wall,
    zone_named,
)

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from waybill.envelopes.ogg.settings import OggReadSettings
    from waybill.tables import TableName

_PART = re.compile(r'(?:"((?:[^"]|"")*)"|([^".]*))(\.|\Z)')
_ZONED = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ T:]([0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]{1,12})?"
    r" ?(?:Z|([-+])([01][0-9]|2[0-3]):?([0-5][0-9]))"
)
_POSITION = re.compile(r"(?:(0{8}-1)(?=[0-9]{1,10}\Z))?([0-9]{1,4000})")
_FILE = 10**10
"""A position is ten digits of the trail file's number and ten of the offset in it."""
POSITION_DIGITS = 20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)


# Names


def name_of(text: str) -> TableName:
    """Database, schema and table of `CATALOG.SCHEMA.TABLE` or `SCHEMA.TABLE`.

    A name of two parts is database and table, as for every source that has no more. A part with a
    point in it stands in double quotes.

    Raises:
        Refusal: kind `shape`, when the text is no such name.
    """
    parts, at = [], 0
    while True:
        match = _PART.match(text, at)
        if match is None:
            raise _no_name(text)
        quoted, plain, end = match.groups()
        parts.append(plain if quoted is None else quoted.replace('""', '"'))
        at = match.end()
        if not end:
            break
    if len(parts) > 3 or not parts[-1]:
        raise _no_name(text)
    database = parts[0] if len(parts) > 1 else None
    return database or None, (parts[1] or None) if len(parts) == 3 else None, parts[-1]


def _no_name(text: str) -> Refusal:
    return Refusal("shape", f"{text[:60]!r} is not the name of a table: CATALOG.SCHEMA.TABLE")


def text_of(database: str | None, schema: str | None, table: str | None) -> str:
    """The name that `name_of` reads as these three."""
    parts = [table or ""]
    if schema:
        parts = [database or "", schema, *parts]
    elif database:
        parts = [database, *parts]
    quoted = [f'"{p.replace(chr(34), chr(34) * 2)}"' if set(p) & {".", '"'} else p for p in parts]
    return ".".join(quoted)


# Positions


def sequence_of(pos: str | None) -> tuple[int, ...] | None:
    """The sequence of `pos`: one integer, zero-padded; None where it is missing.

    A load that reads no trail has file number -1, which sorts before every file. Operations without
    `pos` may stand beside such with one, so it is `sequence_layout.optional`.

    Raises:
        Refusal: kind `shape`, when it is no such position.
    """
    if not pos:
        return None
    match = _POSITION.fullmatch(pos)
    if match is None:
        raise Refusal("shape", f"pos is {pos[:60]!r} and not the digits of a place in a trail")
    number = int(match[2])
    return optional(number - _FILE if match[1] else number)


def pos_of(number: int) -> str:
    """A position that is read as this number."""
    return f"{number:0{POSITION_DIGITS}d}"


# Times


class Clock:
    """Reads `op_ts`.

    Args:
        zone: the time zone that it is in.
    """

    def __init__(self, zone: ZoneInfo) -> None:
        self._utc = utc_from_wall(zone)
        self._seconds = Seconds()

    def micros(self, text: str | None) -> int | None:
        """Microseconds since 1970; digits below are cut off. None where there is no time.

        Raises:
            Refusal: kind `shape`, when it is no time.
        """
        if not text:
            return None
        found = self._seconds.find(text)
        if found is None:
            found = self._read(text)
            self._seconds.learn(text, found)
        return found

    def _read(self, text: str) -> int:
        instant = self._utc(iso_from_blank(text))
        if instant[-1] != "Z" or not is_wall_clock(instant[:-1]):
            raise Refusal("shape", f"op_ts is {text[:60]!r} and not a date and a time of day")
        moment = datetime.fromisoformat(instant[:19]).replace(tzinfo=UTC)
        fraction = instant[20:-1][:6].ljust(6, "0")
        return (moment - _EPOCH) // _MICRO + int(fraction)


def op_ts_of(micros: int) -> str:
    """A time as `op_ts`, in UTC.

    Raises:
        Refusal: kind `encoding`, when the year is not one of 1 to 9999.
    """
    second, rest = divmod(micros, 1_000_000)
    try:
        return f"{second_text(second)}.{rest:06d}"
    except OverflowError:
        raise Refusal("encoding", "a source time outside of the years 1 to 9999") from None


def _read_wall(text: str) -> str:
    # The formatter may put a colon between date and time.
    if text[10:11] == ":":
        text = f"{text[:10]} {text[11:]}"
    return iso_from_blank(text)


def _read_instant(text: str) -> str:
    match = _ZONED.fullmatch(text)
    if match is None:
        return text
    day, clock, fraction, sign, hours, minutes = match.groups(default="")
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}")
        if sign:
            shift = timedelta(hours=int(hours), minutes=int(minutes))
            moment = moment - shift if sign == "+" else moment + shift
    except (ValueError, OverflowError):
        return text
    return f"{moment.isoformat()}{fraction}Z"


def _write_instant(text: str) -> str:
    wall = blank_from_iso(text[:-1])
    return f"{wall} +00:00" if text[-1:] == "Z" and wall != text[:-1] else text


STYLE = Style(
    timestamp=Notation(
        "text", _read_wall, faithful(blank_from_iso, _read_wall), FROM_BLANK, TO_BLANK
    ),
    timestamptz=Notation("text", _read_instant, faithful(_write_instant, _read_instant)),
    quoted=True,
)
"""GoldenGate's notations of values: numbers, or everything as strings by configuration."""


def read_style(settings: OggReadSettings) -> Style:
    """The notations of values that are read, with the zone of instants that name none."""
    if settings.column_timezone is None:
        return STYLE
    to_utc = utc_from_wall(zone_named(settings.column_timezone))

    def read(text: str) -> str:
        found = _read_instant(text)
        return to_utc(_read_wall(text)) if found is text else found

    return STYLE._replace(timestamptz=Notation("text", read, faithful(_write_instant, read)))
