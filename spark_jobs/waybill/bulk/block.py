"""A block of messages, with the places of their values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from waybill.bulk import kernels
from waybill.bulk.arena import Arena, Bytes, Mask, Places
from waybill.bulk.value_kinds import MOST_VALUES
from waybill.records import Message

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from waybill.bulk.arena import Value

Path = tuple[str | int, ...]
"""Where a value stands in a message: names of objects and places in arrays, from the outside."""

ValueEncoder = Callable[[Arena, "Value"], "Value"]
"""Makes what stands at one place of messages of the values that belong there."""

WIDTH = 64
"""So many values of a message are looked for first."""

LARGEST = 2**31 - 1
"""Where values may stand at most."""
_LINE_FEED = 10
_decode = msgspec.json.Decoder().decode


class Messages:
    """Messages whose changes are read or written in bulk.

    Args:
        arena: what their values are in.
        partitions: the partition of each.
        offsets: the offset of each in its partition.
        timestamps: its milliseconds since 1970 in the queue; None where no message has any.
        message: gives a message by its number.

    Attributes:
        several: gives some messages by their numbers.
        topic: the topic of all of them, None where they may be of several.
    """

    topic: str | None = None

    def __init__(
        self,
        arena: Arena,
        partitions: Places,
        offsets: Places,
        timestamps: Places | None,
        message: Callable[[int], Message],
    ) -> None:
        self.arena = arena
        self.partitions = partitions
        self.offsets = offsets
        self.timestamps = timestamps
        self.message = message
        self.several: Callable[[list[int]], Iterable[Message]] = lambda numbers: map(
            message, numbers
        )


class Scanner(ABC):
    """Finds the values of messages of one notation."""

    @abstractmethod
    def scan(self, texts: Scanned) -> None:
        """Give some texts their `starts`, `stops`, `kinds`, `counts` and `forms`.

        Those whose values are not found get the count -1. Two others with the same form most
        probably differ in nothing but values.

        A scanner may write a text again, behind all others, if that says the same: then the text
        begins and ends there.
        """

    @abstractmethod
    def paths(self, value: bytes) -> list[Path]:
        """Where the values of a text stand that was scanned, in their order.

        Raises:
            ValueError: they cannot be named.
        """

    def value_encoders(self, value: bytes) -> list[ValueEncoder | None]:
        """What makes the values of a text of those of JSON, in their order.

        None for one that nothing can be put in place of.

        Raises:
            ValueError: they cannot be named.
        """
        return [_as_it_is for _ in self.paths(value)]


def _as_it_is(_arena: Arena, value: Value) -> Value:
    return value


class Scanned:
    """Texts that stand one after the other, with the places of their values.

    Args:
        data: their bytes, or where these are already.
        begins: where each begins in `data`; below zero where there is none.
        ends: where it ends.
        apart: those that are not to be scanned.

    Attributes:
        scanner: what found the values; what follows is there once it has (`scan_by`).
        counts: how many values each has; below zero where they were not found.
        forms: a hash of everything but the values.
        starts: where each value starts.
        stops: where it stops.
        kinds: its kind.
        known: the number of its form, where the scanner knows forms; -1 where it has none of them.
    """

    scanner: Scanner
    known: Places | None = None
    counts: npt.NDArray[np.int32]
    forms: npt.NDArray[np.uint64]
    starts: npt.NDArray[np.int32]
    stops: npt.NDArray[np.int32]
    kinds: npt.NDArray[np.uint8]

    def __init__(
        self, data: bytes | Bytes | Arena, begins: Places, ends: Places, apart: Mask | None = None
    ) -> None:
        self.arena = data if isinstance(data, Arena) else Arena(data)
        self.begins, self.ends, self.apart = begins, ends, apart
        self.size = len(begins)

    def scan_by(self, scanner: Scanner) -> Self:
        """Find the values; returns the texts themselves."""
        self.scanner = scanner
        scanner.scan(self)
        if self.apart is not None:
            self.counts[self.apart] = -1
        return self

    def bytes_of(self, number: int) -> bytes:
        """The bytes of a text."""
        return self.arena.data[self.begins[number] : self.ends[number]].tobytes()

    def room(self, width: int) -> None:
        """Make room for the places of so many values of each text."""
        self.counts = np.full(self.size, -1, np.int32)
        self.forms = np.zeros(self.size, np.uint64)
        self.starts = np.empty((self.size, width), np.int32)
        self.stops = np.empty((self.size, width), np.int32)
        self.kinds = np.empty((self.size, width), np.uint8)

    def widen(self, width: int) -> None:
        """Make room for more values of each text; those that are there stay."""
        for name in ("starts", "stops", "kinds"):
            found = getattr(self, name)
            wider = np.empty((self.size, width), found.dtype)
            wider[:, : found.shape[1]] = found
            setattr(self, name, wider)


class _Json(Scanner):
    """Finds the values of JSON texts."""

    def scan(self, texts: Scanned) -> None:
        begins, ends = texts.begins, texts.ends
        size = texts.arena.size
        if size > LARGEST:
            begins = ends = np.full_like(begins, -1)  # places are of 32 bits: nothing is found
        width = WIDTH
        while True:
            texts.room(width)
            kernels.scan(
                texts.arena.data,
                *(begins, ends, width, texts.starts, texts.stops, texts.kinds),
                *(texts.counts, texts.forms),
            )
            if width >= MOST_VALUES or not _cut_short(texts):
                break
            width = MOST_VALUES
        leave_out_broken(texts)

    def paths(self, value: bytes) -> list[Path]:
        return paths_of(value)


JSON = _Json()


def _cut_short(texts: Scanned) -> bool:
    """Whether most messages were not taken, maybe for having more values than looked for."""
    return int((texts.counts < 0).sum()) * 2 > texts.size


def leave_out_broken(texts: Scanned) -> None:
    """Take no message that is not UTF-8."""
    first = int(texts.begins[texts.begins >= 0].min(initial=texts.arena.size))
    last = int(texts.ends.max(initial=first))
    if _is_text(texts.arena.data[first:last]):
        return
    for number in range(texts.size):
        try:
            texts.bytes_of(number).decode()
        except UnicodeDecodeError:
            texts.counts[number] = -1


class Block(Scanned, Messages):
    """Messages that stand one after the other, with the places of their values.

    Args:
        data: their bytes.
        begins: where each begins in `data`.
        ends: where it ends.
        partitions: its partition.
        offsets: its offset in its partition.
        timestamps: its milliseconds since 1970 in the queue; None where no message has any.
        message: gives a message by its number.
        keys: the message keys, where there are any, in the same arena.
        apart: messages that are not to be scanned.
    """

    def __init__(
        self,
        data: bytes | Bytes | Arena,
        begins: Places,
        ends: Places,
        partitions: Places,
        offsets: Places,
        timestamps: Places | None,
        message: Callable[[int], Message],
        keys: Scanned | None = None,
        apart: Mask | None = None,
    ) -> None:
        Scanned.__init__(self, data, begins, ends, apart)
        Messages.__init__(self, self.arena, partitions, offsets, timestamps, message)
        self.keys = keys


def lines_block(
    data: bytes, topic: str, first: int, blanks: Collection[bytes]
) -> tuple[Block, int]:
    """The messages of whole lines, and how many lines there are.

    Args:
        data: the lines, without the last line feed.
        topic: the messages' topic.
        first: number of the first line, which is its message's offset.
        blanks: lines that are no messages.
    """
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _LINE_FEED)
    begins = np.concatenate([[0], ends + 1])
    ends = np.append(ends, len(data))
    lines = len(begins)
    numbers = np.arange(first, first + lines)
    longest = max(map(len, blanks))
    short = np.flatnonzero(ends - begins <= longest)
    blank = [n for n in short.tolist() if data[begins[n] : ends[n]] in blanks]
    if blank:
        begins, ends, numbers = (np.delete(found, blank) for found in (begins, ends, numbers))

    def message(number: int) -> Message:
        value = data[begins[number] : ends[number]]
        return Message(topic, 0, int(numbers[number]), None, None, value)

    block = Block(data, begins, ends, np.zeros_like(numbers), numbers, None, message)
    block.topic = topic
    return block, lines


def _is_text(data: bytes | Bytes) -> bool:
    size = len(data)
    ends: Any = np.array([0, size], np.int64)
    held: Any = data
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(held)]
    whole = pa.Array.from_buffers(pa.large_string(), 1, buffers)
    try:
        whole.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def paths_of(value: bytes) -> list[Path]:
    """Where the values of a message stand, in their order; names that stand twice count once."""
    return list(_paths(_decode(value), ()))


def _paths(value: Any, path: Path) -> Iterator[Path]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _paths(inner, (*path, name))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _paths(inner, (*path, place))
    else:
        yield path
