"""Layout `lines`: one message value a line; partition = number of the file, offset = line number.

Lines are counted from 0. An empty line, or one of a carriage return alone, holds no message; it
keeps its number and is counted as skipped, so that the line number is the offset whatever stands
between.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from waybill.sources.streams import BLANKS, DigestReader, line_lists, unpacked
from waybill.sources.tasks import FileCounts, FileTask, archive_batch, bounded

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".jsonl", ".ndjson", ".json", ".txt")


def read(
    task: FileTask, stream: DigestReader, counts: FileCounts, batch_id: str
) -> Iterator[pa.RecordBatch]:
    """The lines of a file, a few thousand at a time."""
    import pyarrow as pa

    offset = 0
    for lines in line_lists(unpacked(stream, task.path), task.path):
        for part in bounded(lines):
            first, offset = offset, offset + len(part)
            offsets: list[int] | range = range(first, offset)
            if any(blank in part for blank in BLANKS):
                numbered = zip(offsets, part, strict=True)
                kept = [(number, line) for number, line in numbered if line not in BLANKS]
                counts.empty += len(part) - len(kept)
                if not kept:
                    continue
                offsets, part = [number for number, _ in kept], [line for _, line in kept]
            counts.rows += len(part)
            yield archive_batch(
                batch_id,
                pa.array(part, pa.binary()),
                task.topic,
                task.number,
                offsets,
            )
