"""Ranges cut into pieces and dealt to tasks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waybill.sources.kafka.positions import OffsetRange

BYTES_PER_TASK = 256 << 20
"""What a task reads at most, where earlier batches showed how long messages are."""

SMALLEST = 50_000
"""Offsets below which another task costs more than it gains."""


def piece_size(offsets: int, cores: int, largest: int, bytes_each: float = 0) -> int:
    """How many offsets a task reads.

    Args:
        offsets: how many there are.
        cores: how many tasks run at the same time.
        largest: the most that the migration allows.
        bytes_each: size of a message, as far as it is known.
    """
    size = max(SMALLEST, -(-offsets // max(1, cores)))
    if bytes_each:
        size = min(size, int(BYTES_PER_TASK / bytes_each))
    return max(1, min(size, largest))


def dealt(ranges: Iterable[OffsetRange], size: int) -> list[list[OffsetRange]]:
    """Pieces of at most `size` offsets by task; short ranges of several partitions go together.

    No task gets two pieces of one partition: it reads all of its own at once.
    """
    tasks: list[list[OffsetRange]] = []
    room = 0
    for span in sorted(ranges):
        for start in range(span.start, span.end, size):
            piece = span._replace(start=start, end=min(start + size, span.end))
            full = not tasks or piece.offsets > room
            if full or (tasks[-1][-1].topic, tasks[-1][-1].partition) == piece[:2]:
                tasks.append([])
                room = size
            tasks[-1].append(piece)
            room -= piece.offsets
    return tasks
