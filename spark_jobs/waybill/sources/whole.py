"""Layout `whole`: each file is one value, as it is; offset = number of the file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from waybill.errors import Code, SourceError
from waybill.sources.streams import BLOCK, DigestReader
from waybill.sources.tasks import FileCounts, FileTask, archive_batch

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = ("",)
LARGEST = 1 << 30
"""Bytes of the largest value; Arrow ends at twice that."""


def read(
    task: FileTask, stream: DigestReader, counts: FileCounts, batch_id: str
) -> Iterator[pa.RecordBatch]:
    """The one row of a file."""
    import pyarrow as pa

    if task.size > LARGEST:
        message = (
            f"{task.path} has {task.size} bytes, and a message {LARGEST} at most: split the file, "
            "or read it with layout lines"
        )
        raise SourceError(message, code=Code.SOURCE_LAYOUT)
    value = b"".join(iter(lambda: stream.read(BLOCK) or b"", b""))
    counts.rows += 1
    yield archive_batch(batch_id, pa.array([value], pa.binary()), task.topic, 0, [task.number])
