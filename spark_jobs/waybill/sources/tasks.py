"""One file to read, as it crosses from the driver to a task, and what the task found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from waybill.lake_columns import ARCHIVE, HEADERS, TIMESTAMP
from waybill.spark_tasks.rechunking import ROWS_PER_BATCH

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class FileTask:
    """One file that is to be read.

    Attributes:
        path: where it is.
        name: its name in the cursor, relative to the source's folder.
        number: how many files of the source were known before it; stays the same for ever.
        size: bytes when the run was planned.
        token: what the storage says changes with the content (ETag, or times of the file).
        topic: topic of its messages, where the layout has none.
    """

    path: str
    name: str
    number: int
    size: int
    token: str
    topic: str


@dataclass(slots=True)
class FileCounts:
    """What was found in a file: counts add up to what was there."""

    rows: int = 0
    empty: int = 0
    digest: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


def archive_batch(
    batch_id: str,
    values: Any,
    topic: Any,
    partition: Any,
    offsets: Any,
    timestamps: Any = None,
    keys: Any = None,
    headers: Any = None,
    timestamp_types: Any = None,
) -> pa.RecordBatch:
    """Rows of the archive; what is one value stands for every row."""
    import pyarrow as pa

    rows = len(values)

    def column(given: Any, kind: pa.DataType) -> Any:
        if isinstance(given, pa.Array | pa.ChunkedArray):
            return given
        if given is None or isinstance(given, str | int):
            return pa.repeat(pa.scalar(given, kind), rows)  # type: ignore[call-overload]
        return pa.array(given, kind)

    return pa.RecordBatch.from_arrays(
        [
            column(topic, pa.string()),
            column(partition, pa.int32()),
            column(offsets, pa.int64()),
            column(timestamps, TIMESTAMP),
            column(timestamp_types, pa.string()),
            column(keys, pa.binary()),
            values,
            column(headers, HEADERS),
            column(batch_id, pa.string()),
        ],
        schema=ARCHIVE,
    )


def bounded(lines: list[bytes]) -> Iterator[list[bytes]]:
    """Parts of a list that make batches of a bearable number of rows."""
    for start in range(0, len(lines), ROWS_PER_BATCH):
        yield lines[start : start + ROWS_PER_BATCH]
