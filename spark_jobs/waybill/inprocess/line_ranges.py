"""Where the whole lines of a plain file stand, for those who read a part of it on their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from waybill.errors import ConfigurationError
from waybill.inprocess.lines import BLOCK

_LINE_FEED = 10
_LOOKED_AT = 1 << 18
"""So many bytes are looked at together: they stay in the processor's cache."""


class LineRange(NamedTuple):
    """A block of whole lines in a file.

    Attributes:
        start: where it begins.
        size: how many bytes it has, the last line feed left out.
        lines: how many lines.
    """

    start: int
    size: int
    lines: int


def line_ranges_of(
    stream: IO[bytes], block: int = BLOCK, step: int = _LOOKED_AT
) -> Iterator[LineRange]:
    """The lines of a plain file from where it stands, in ranges of at least `block` bytes.

    A file that ends without a line feed is read to its end.

    Args:
        stream: the file.
        block: the size from which a range ends with its line.
        step: how many bytes are looked at together.
    """
    looked = bytearray(step)
    numbers = np.frombuffer(looked, np.uint8)
    start = at = end = stream.tell()
    lines = 0
    while size := stream.readinto(looked):  # type: ignore[attr-defined]
        found = int(np.count_nonzero(numbers[:size] == _LINE_FEED))
        if found:
            lines += found
            end = at + looked.rindex(b"\n", 0, size) + 1
        at += size
        if end - start > block:
            yield LineRange(start, end - 1 - start, lines)
            start, lines = end, 0
    if at > start:
        whole = at == end
        yield LineRange(start, at - start - whole, lines + (not whole))


def read_line_range(path: str, line_range: LineRange) -> bytes:
    """The lines of a range.

    Raises:
        ConfigurationError: they are not there any more.
    """
    with Path(path).open("rb") as stream:
        stream.seek(line_range.start)
        block = stream.read(line_range.size)
    if len(block) != line_range.size:
        message = f"{path} became shorter while it was read; convert it once more"
        raise ConfigurationError(message)
    return block
