"""The one total order of changes.

`order_key` is text whose plain byte-wise comparison is the order of the changes of one key. Its
fields, strongest first, stand between slashes:

1. `0` for a full row without a position of its own, `1` for a change;
2. the sequence id, part by part, each an integer;
3. the rank inside one sequence id: 0 before image, 1 after image, 2 the TRUNCATE of a full load
   with `as_of`, 3 its rows (always 1 without sequence id, where nothing but the position decides);
4. the position: partition, offset, index.

An integer is written as the length of its length, its length and its digits, so that 999 sorts
before 1000 and no number is too long. Parts are joined by `:`, which sorts above the `/` that
ends a field, so a sequence with fewer parts sorts before one that continues it.
"""

from __future__ import annotations

from functools import lru_cache

from waybill.errors import Refusal
from waybill.types import LAST_MICRO

FULL_ROW = "0"
CHANGE = "1"
BEFORE, AFTER, LOAD, LOADED = 0, 1, 2, 3
"""The ranks. Each is one digit, which `waybill.bulk` relies on."""

MAX_INDEX, MAX_OFFSET = 100_000, 10_000_000_000

_COMPLEMENT = str.maketrans("0123456789", "9876543210")


def order_number(value: int) -> str:
    """Text of an integer of any size whose byte order is the numeric order."""
    digits = str(abs(value))
    length = str(len(digits))
    text = f"{len(length)}{length}{digits}"
    # A minus sign sorts below every digit; complemented digits turn the order round.
    return text if value >= 0 else "-" + text.translate(_COMPLEMENT)


@lru_cache(maxsize=4096)
def _cached(value: int) -> str:
    return order_number(value)


def order_key(
    sequence: tuple[int, ...] | None,
    rank: int,
    partition: int,
    offset: int,
    index: int,
    full_row: bool = False,
) -> str:
    """The order of one change.

    Args:
        sequence: parts of the source's sequence id, strongest first; None where there is none.
        rank: see above.
        partition: partition (shard) of the topic.
        offset: offset in the partition.
        index: which change inside the message.
        full_row: a full row without a position of its own, older than every change.
    """
    if sequence:
        parts = ":".join([order_number(part) for part in sequence])
    else:
        parts, rank = "", AFTER
    kind = FULL_ROW if full_row else CHANGE
    return (
        f"{kind}/{parts}/{_cached(rank)}/"
        f"{_cached(partition)}:{order_number(offset)}:{_cached(index)}"
    )


def _read_number(text: str, at: int) -> tuple[int, int]:
    negative = text[at] == "-"
    if negative:
        at += 1
        text = text[:at] + text[at:].translate(_COMPLEMENT)
    width = int(text[at])
    start = at + 1 + width
    end = start + int(text[at + 1 : start])
    value = int(text[start:end])
    return (-value if negative else value), end


def read_order_key(key: str) -> tuple[tuple[int, ...] | None, int, bool]:
    """Sequence, rank and full-row flag of what `order_key` wrote."""
    return _read_head(key[: key.rindex("/")])


@lru_cache(maxsize=4096)
def _read_head(head: str) -> tuple[tuple[int, ...] | None, int, bool]:
    """What stands before the position, which is the same for all changes without a sequence."""
    kind, parts, rank = head.split("/")
    sequence = tuple(_read_number(part, 0)[0] for part in parts.split(":")) if parts else None
    return sequence, _read_number(rank, 0)[0], kind == FULL_ROW


def read_position(key: str) -> tuple[int, int, int]:
    """Partition, offset and index of what `order_key` wrote."""
    partition, offset, index = key[key.rindex("/") + 1 :].split(":")
    return _read_number(partition, 0)[0], _read_number(offset, 0)[0], _read_number(index, 0)[0]


def sequence_of(key: str) -> str:
    """The part of an order key that the source itself gave (empty where it gave none)."""
    return key.split("/", 2)[1]


def placed_after(key: str, other: str) -> str:
    """The order of a change without a sequence id that stands behind another one in its partition.

    It takes the other one's sequence id: below every higher one, above it by the position.
    """
    return f"{CHANGE}/{sequence_of(other)}/{key.split('/', 2)[2]}"


def position_number(partition: int, offset: int, index: int) -> int:
    """A sequence id made from the position, for targets that need a number where there is none.

    It grows with the partition, the offset and the index, as the position itself does, and is the
    same when the message is converted again. It fits 64 bits with sign for 9223 partitions of ten
    thousand million messages; a larger offset still sorts rightly inside its partition.

    Raises:
        Refusal: the message holds more changes than the number can tell apart.
    """
    if index >= MAX_INDEX:
        message = f"a sequence id can be made for {MAX_INDEX} changes of a message, not for more"
        raise Refusal("encoding", message)
    return (partition * MAX_OFFSET + offset) * MAX_INDEX + index


def time_in_order(micros: int | None) -> int:
    """What a source time counts as where times order changes.

    One that is on no calendar counts as none, as one before 1970 does: taken for true, it would be
    newer than all that ever comes.

    Args:
        micros: microseconds since 1970; None where the source states no time.
    """
    return micros if micros is not None and 0 < micros <= LAST_MICRO else 0


def parse_digits(text: str) -> int:
    """An integer from text that must be digits with an optional minus sign.

    Raises:
        ValueError: the text is anything else (spaces, underscores and plus signs included).
    """
    body = text[1:] if text[:1] == "-" else text
    if not (body.isascii() and body.isdigit()):
        raise ValueError(f"{text!r} is not an integer")
    return int(text)
