"""Positions, times and values as DMS writes them, and what it needs to be told."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from waybill.bounded import Bounded
from waybill.envelopes.generated import function
from waybill.envelopes.notation.json_columns import Style
from waybill.envelopes.notation.seconds import Seconds, second_text
from waybill.envelopes.notation.temporal import (
    blank_from_iso,
    faithful,
    is_wall_clock,
    iso_from_blank,
)
from waybill.envelopes.protocol import Settings
from waybill.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.records import TableSchema

OWN = "awsdms_"
"""Tables whose names begin so are those of DMS itself (`awsdms_apply_exceptions`)."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*[.:]")
_PART = re.compile(r"(?:([0-9A-F]{1,8})/([0-9A-F]{1,8})|([0-9]{1,4000}))(?:[.:;]|\Z)")
_LARGEST = 2**64 - 1
_SHORT = 4000
_files: Bounded[str, tuple[int, ...]] = Bounded()
_seconds = Seconds()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)


class DmsSettings(Settings):
    """What both directions need to be told."""

    bytes_as: Literal["hex", "base64"] = Field(
        default="hex",
        description="How bytes stand: hexadecimal digits, after 0x or alone, or Base64.",
    )
    before_field: str = Field(
        default="before-image",
        min_length=1,
        description="Name of the object with the row before an update (FieldName of the task's "
        "before image settings).",
    )
    before_prefix: str = Field(
        default="BI_",
        description="Columns whose names begin so hold the row before (add-before-image-columns). "
        "Empty where a table has columns of such names.",
    )


class DmsReadSettings(DmsSettings):
    """What reading DMS needs to be told."""


class DmsWriteSettings(DmsSettings):
    """What writing DMS needs to be told."""

    before_images: Literal["object", "columns"] = Field(
        default="object",
        description="Where the row before an update goes: an object of its own, or columns with "
        "the prefix.",
    )


# Positions


def position_of(text: str | None) -> tuple[int, ...] | None:
    """The parts of a stream position, the strongest first; None where the text is no such one.

    PostgreSQL has two log positions with a counter between them
    (`00000002/7C007178.3.00000002/7C007178`), MySQL a binlog file and numbers. A name in front is
    passed over, each pair of hexadecimal digits is one number of 64 bits.
    """
    if not text or len(text) > 8000:
        return None
    # Most are a file and numbers with colons between them; files are looked at once.
    file, *told = text.split(":")
    known = _files.get(file)
    if known is not None and "".join(told).isdecimal() and text.isascii() and "" not in told:
        if len(text) < _SHORT:
            return (*known, *map(int, told))
    elif told and known is None:
        known = _position(file)
        if known is not None:
            _files[file] = known
    return _position(text)


def _position(text: str) -> tuple[int, ...] | None:
    name = _NAME.match(text)
    parts, at = [], name.end() if name else 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None:
            return None
        high, low, digits = match.groups()
        parts.append(int(digits) if high is None else (int(high, 16) << 32) + int(low, 16))
        at = match.end()
    return tuple(parts) if parts and text[-1] not in ".:;" else None


def position_text(sequence: tuple[int, ...]) -> str | None:
    """A stream position that is read as this sequence; None where there is none."""
    if not sequence or min(sequence) < 0 or max(sequence) > _LARGEST:
        return None
    return ".".join(map(str, sequence))


def key_alone(schema: TableSchema, image: Any) -> Any:
    """The image of a delete; of the key alone where everything else is null.

    Sources that log no more than the key have null for the rest, which are not the row's values.
    """
    return _alone(schema)(image) if schema.key else image


@lru_cache(maxsize=1_000)
def _alone(schema: TableSchema) -> Callable[[Any], Any]:
    """The function that `key_alone` is for one table."""
    keys = schema.key_fields
    lines = ["nulls = False"]
    for i in range(len(schema.columns)):
        if f"f{i}" not in keys:
            lines += [
                f"v = image.f{i}",
                "if v is None: nulls = True",
                "elif v is not UNSET: return image",
            ]
    key = ", ".join(f"{field}=image.{field}" for field in keys)
    lines.append(f"return Image({key}) if nulls else image")
    return function("alone(image)", lines, {"Image": schema.Image})


# Times


def micros_of(text: str | None, field: str) -> int | None:
    """Microseconds since 1970 of a time in UTC; digits below are cut off. None for no text.

    Raises:
        Refusal: kind `shape`, when it is no time.
    """
    if not text:
        return None
    plain = text.removesuffix("Z")
    found = _seconds.find(plain)
    if found is None:
        wall = iso_from_blank(plain)
        if not is_wall_clock(wall):
            raise Refusal("shape", f"{field} is {text[:60]!r} and not a date and a time of day")
        moment = datetime.fromisoformat(wall[:19]).replace(tzinfo=UTC)
        found = (moment - _EPOCH) // _MICRO + int(wall[20:26].ljust(6, "0"))
        _seconds.learn(plain, found)
    return found


def time_text(micros: int) -> str:
    """ISO 8601 in UTC with six digits of the second.

    Raises:
        Refusal: kind `encoding`, when the year is not one of 1 to 9999.
    """
    second, rest = divmod(micros, 1_000_000)
    try:
        return f"{second_text(second).replace(' ', 'T')}.{rest:06d}Z"
    except OverflowError:
        raise Refusal("encoding", "a source time outside of the years 1 to 9999") from None


def _read_wall(text: str) -> str:
    # DMS puts a Z behind every time, one without zone too.
    if text[-1:] == "Z" and is_wall_clock(text[:-1]):
        return text[:-1]
    return iso_from_blank(text)


def _write_wall(text: str) -> str:
    return f"{text}Z" if is_wall_clock(text) else text


KAFKA = Style(timestamp=(_read_wall, faithful(_write_wall, _read_wall)), quoted=True)
FILES = Style(timestamp=(_read_wall, faithful(blank_from_iso, _read_wall)), quoted=True)


def style_of(style: Style, settings: DmsSettings) -> Style:
    """A style with bytes as the settings say."""
    return style._replace(hex=settings.bytes_as == "hex")
