"""A block of messages, with the places of their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from waybill.bulk import kernels
from waybill.bulk.arena import Arena, Bytes, Places
from waybill.bulk.kinds import MOST_VALUES
from waybill.records import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

Path = tuple[str | int, ...]
"""Where a value stands in a message: names of objects and places in arrays, from the outside."""

WIDTH = 64
"""So many values of a message are looked for first."""

_LARGEST = 2**31 - 1
_LINE_FEED = 10
_decode = msgspec.json.Decoder().decode


class Messages:
    """Messages whose changes are read or written at once.

    Args:
        arena: what their values are in.
        partitions: the partition of each.
        offsets: the offset of each in its partition.
        timestamps: its milliseconds since 1970 in the queue; None where no message has any.
        message: gives a message by its number.
    """

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


class Scanned:
    """JSON texts that stand one after the other, with the places of their values.

    Args:
        data: their bytes.
        begins: where each begins in `data`; below zero where there is none.
        ends: where it ends.
    """

    def __init__(self, data: bytes | Bytes, begins: Places, ends: Places) -> None:
        self.arena = Arena(data)
        self.begins, self.ends = begins, ends
        self.size = len(begins)
        self.counts: npt.NDArray[np.int32] = np.empty(self.size, np.int32)
        self.forms: npt.NDArray[np.uint64] = np.empty(self.size, np.uint64)
        if len(data) > _LARGEST:
            begins = ends = np.full_like(begins, -1)  # places are of 32 bits: nothing is found
        width = WIDTH
        while True:
            self.starts: npt.NDArray[np.int32] = np.empty((self.size, width), np.int32)
            self.stops: npt.NDArray[np.int32] = np.empty((self.size, width), np.int32)
            self.kinds: npt.NDArray[np.uint8] = np.empty((self.size, width), np.uint8)
            kernels.scan(
                self.arena.data,
                *(begins, ends, width, self.starts, self.stops, self.kinds),
                *(self.counts, self.forms),
            )
            if width >= MOST_VALUES or not self._cut_short():
                break
            width = MOST_VALUES
        if not _is_text(data):
            self._leave_out_broken()

    def _cut_short(self) -> bool:
        """Whether most messages were not taken, maybe for having more values than looked for."""
        return int((self.counts < 0).sum()) * 2 > self.size

    def _leave_out_broken(self) -> None:
        """Take no message that is not UTF-8."""
        for number in range(self.size):
            try:
                self.bytes_of(number).decode()
            except UnicodeDecodeError:
                self.counts[number] = -1

    def bytes_of(self, number: int) -> bytes:
        """The bytes of a text."""
        return self.arena.data[self.begins[number] : self.ends[number]].tobytes()


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
        keys: the message keys, where there are any.
    """

    def __init__(
        self,
        data: bytes | Bytes,
        begins: Places,
        ends: Places,
        partitions: Places,
        offsets: Places,
        timestamps: Places | None,
        message: Callable[[int], Message],
        keys: Scanned | None = None,
    ) -> None:
        Scanned.__init__(self, data, begins, ends)
        Messages.__init__(self, self.arena, partitions, offsets, timestamps, message)
        self.keys = keys


def lines_block(data: bytes, topic: str, first: int, blanks: Collection[bytes]) -> Block:
    """The messages of whole lines.

    Args:
        data: the lines, without the last line feed.
        topic: the messages' topic.
        first: number of the first line, which is its message's offset.
        blanks: lines that are no messages.
    """
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _LINE_FEED)
    begins = np.concatenate([[0], ends + 1])
    ends = np.append(ends, len(data))
    numbers = np.arange(first, first + len(begins))
    longest = max(map(len, blanks))
    short = np.flatnonzero(ends - begins <= longest)
    blank = [n for n in short.tolist() if data[begins[n] : ends[n]] in blanks]
    if blank:
        begins, ends, numbers = (np.delete(found, blank) for found in (begins, ends, numbers))

    def message(number: int) -> Message:
        value = data[begins[number] : ends[number]]
        return Message(topic, 0, int(numbers[number]), None, None, value)

    return Block(data, begins, ends, np.zeros_like(numbers), numbers, None, message)


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
