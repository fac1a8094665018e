"""Positions, times and values as DMS writes them, and its settings."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, structs

from waybill.caches import Bounded
from waybill.errors import Refusal
from waybill.values.json_columns import Style
from waybill.values.notation import TO_BLANK, ColumnForm, Notation
from waybill.values.seconds import Seconds, second_text
from waybill.values.temporal import blank_from_iso, faithful, is_wall_clock, iso_from_blank

if TYPE_CHECKING:
    from waybill.envelopes.dms.settings import DmsFilesSettings
    from waybill.records import TableSchema

OWN = "awsdms_"
"""Tables whose names begin so are those of DMS itself (`awsdms_apply_exceptions`)."""

RECORD = b',"dms_record":'
"""Stands in what is carried on, between fields of the metadata and those of the record itself."""

_BINLOG = re.compile(r"[A-Za-z][A-Za-z0-9_-]*\.([0-9]{1,18}):")
_NUMBER = r"(?:0|[1-9][0-9]{0,3999})"
_NUMBERS = re.compile(rf"{_NUMBER}(?:\.{_NUMBER})*")
_LSN = r"[0-9A-F]{1,8}/[0-9A-F]{1,8}"
_LSNS = re.compile(rf"{_LSN}(?:\.(?:{_LSN}|{_NUMBER}))*")
_LARGEST = 2**64 - 1
_LONGEST, _SHORT = 8000, 4000
_LOW = 2**32 - 1
_files: Bounded[str, int | None] = Bounded()
_seconds = Seconds()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)


SEQUENCE_DIGITS = 35
"""Digits of AR_H_CHANGE_SEQ."""

# Positions


def order_of(
    text: str | None, transaction: int | None, record: int | None
) -> tuple[int, ...] | None:
    """The order that the details of a transaction tell; None where they tell none.

    Known are PostgreSQL's two log positions with a counter between them
    (`00000002/7C007178.3.00000002/7C007178`, each pair of hexadecimal digits is one number of 64
    bits), numbers with dots between them, and a binlog file with numbers behind it. A position of
    the binlog in full (`mysql-bin.157832:1975:-1:2002:677883278264080:mysql-bin.157832:1876`) holds
    more than an order; the transaction's id is one, being the file's number and the place where the
    transaction begins (157832 * 2**32 + 1808), with the record's number in the transaction.

    Other sources' positions have letters and digits of unknown meaning, and ids of their
    transactions are given when one begins, while records come as they are committed: both would
    take an older change for the newer one.

    Args:
        text: `stream-position`.
        transaction: `transaction-id`.
        record: `transaction-record-id`.
    """
    if not text or len(text) > _LONGEST:
        return None
    head, colon, rest = text.partition(":")
    if not colon:
        return _numbers(text)
    file = _files.get(head, -1)
    if file == -1:
        found = _BINLOG.fullmatch(head + colon)
        file = _files[head] = None if found is None else int(found[1])
    if file is None:
        return None
    parts = rest.split(":")
    if "".join(parts).isdecimal() and rest.isascii() and "" not in parts and len(text) < _SHORT:
        return (file, *map(int, parts))
    if transaction is None or record is None or transaction >> 32 != file:
        return None
    return file, transaction & _LOW, record


def _numbers(text: str) -> tuple[int, ...] | None:
    if _NUMBERS.fullmatch(text):
        return tuple(map(int, text.split(".")))
    if not _LSNS.fullmatch(text):
        return None
    parts = []
    for part in text.split("."):
        high, slash, low = part.partition("/")
        parts.append((int(high, 16) << 32) + int(low, 16) if slash else int(part))
    return tuple(parts)


def position_text(sequence: tuple[int, ...]) -> str | None:
    """A stream position that is read as this sequence; None where there is none."""
    if not sequence or min(sequence) < 0 or max(sequence) > _LARGEST:
        return None
    return ".".join(map(str, sequence))


def key_alone(schema: TableSchema, image: Any) -> Any:
    """The image of a delete; of the key alone where everything else is null.

    Sources that log no more than the key have null for the rest, which are not the row's values.
    """
    if not schema.key:
        return image
    key, nulls = schema.key_fields, False
    for field in image.__struct_fields__:
        value = getattr(image, field)
        if value is None:
            nulls = nulls or field not in key
        elif value is not UNSET and field not in key:
            return image
    return schema.Image(**{field: getattr(image, field) for field in key}) if nulls else image


def differing(one: Any, other: Any) -> int:
    """The place of the first column that two images have and disagree about; -1 for none."""
    return _disagreement(one, other, (UNSET,))


def contradicted(one: Any, other: Any) -> int:
    """Likewise, where a null in the first image tells nothing."""
    return _disagreement(one, other, (UNSET, None))


def _disagreement(one: Any, other: Any, unstated: tuple[Any, ...]) -> int:
    pairs = zip(structs.astuple(one), structs.astuple(other), strict=True)
    for place, (v, w) in enumerate(pairs):
        if v != w and w is not UNSET and v not in unstated:
            return place
    return -1


def check_names(schema: TableSchema, prefix: str) -> None:
    """See that no column of a table would be taken for one of the row before.

    Raises:
        Refusal: kind `encoding`, when one would.
    """
    named = [name for name in schema.names if prefix and name.startswith(prefix)]
    if named:
        sentence = f"column {named[0]!r} would be taken for one of the row before"
        raise Refusal("encoding", f"{sentence}; set before_prefix")


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


def read_wall(text: str) -> str:
    """The canonical text of a wall clock: DMS puts a Z behind every time, one without zone too."""
    if text[-1:] == "Z" and is_wall_clock(text[:-1]):
        return text[:-1]
    return iso_from_blank(text)


def _write_wall(text: str) -> str:
    return f"{text}Z" if is_wall_clock(text) else text


_WITH_Z = Notation(
    "text",
    read_wall,
    faithful(_write_wall, read_wall),
    ColumnForm("waybill.envelopes.dms.bulk.values:wall_clocks"),
    ColumnForm("waybill.envelopes.dms.bulk.values:with_z"),
)
"""A wall clock in records for Kafka."""
KAFKA = Style(timestamp=_WITH_Z, quoted=True)
FILES = Style(
    timestamp=_WITH_Z._replace(write=faithful(blank_from_iso, read_wall), writes=TO_BLANK),
    quoted=True,
)


def style_of(style: Style, settings: DmsFilesSettings) -> Style:
    """A style with bytes as the settings say."""
    return style._replace(hex=settings.bytes_as == "hex")
