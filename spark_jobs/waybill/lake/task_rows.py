"""Rows of a table on their way to tasks, which read the data files themselves where they can.

Spark reads a file into columns, makes rows of them, and columns of the rows again for Python, which
costs more than what Arrow's own reader takes. Tasks that are handed nothing but the places of row
groups need none of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.lake.damaged_files import damaged_file, undamaged
from waybill.lake.data_files import begin_of
from waybill.lake.sizing import rows_per_batch
from waybill.spark_tasks.errors import unwrapped
from waybill.spark_tasks.worker_startup import light
from waybill.storage.open import open_storage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from waybill.spark_tasks.worker_startup import Make


class DataFile(NamedTuple):
    """A data file of a table, without rows that were deleted from it.

    Attributes:
        path: where it is, as tasks open it.
        bytes: its size.
    """

    path: str
    bytes: int


class FilePiece(NamedTuple):
    """The row groups of a data file that begin in a range of its bytes."""

    path: str
    start: int
    end: int


@dataclass(frozen=True)
class TaskRows:
    """Rows that tasks work on.

    Attributes:
        query: gives the rows, for queries; that takes a while, and few ask for it.
        handed: what Spark hands to tasks: the rows, or numbers of what they are to read.
        read: from what is handed to the rows, None where it is the rows.
        numbers: how many numbers are handed where all the rows are few; 0 where they are not.
    """

    query: Callable[[], DataFrame]
    handed: DataFrame
    read: Make | None = None
    numbers: int = 0

    @classmethod
    def of(cls, rows: DataFrame) -> TaskRows:
        """Rows that Spark hands over."""
        return cls(lambda: rows, rows)

    @property
    def rows(self) -> DataFrame:
        """The rows, for queries."""
        return self.query()

    @property
    def few(self) -> bool:
        """Whether whoever asks for them can work on them here (`here`)."""
        return self.numbers > 0

    def through(self, make: Make) -> Make:
        """Work on the rows as work on what is handed to tasks."""
        read = self.read
        if read is None:
            return make

        def work(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
            return make(read(batches))

        return work

    def here(self, make: Make) -> list[pa.RecordBatch] | None:
        """What tasks would make of the rows, made here; None where they are not few.

        Args:
            make: the work.
        """
        import pyarrow as pa

        if not self.numbers:
            return None
        numbers = pa.RecordBatch.from_arrays([pa.array(range(self.numbers))], ["id"])
        return list(self.through(make)([numbers]))

    def map(self, make: Make, columns: Any) -> DataFrame:
        """What tasks make of the rows, batch by batch.

        Args:
            make: the work.
            columns: what it makes, as Spark declares it.
        """
        return self.handed.mapInArrow(light(self.through(make)), columns)

    def collected(self, make: Make, columns: Any) -> list[dict[str, Any]]:
        """What is made of the rows, by name of the column: here where they are few, else in tasks.

        Args:
            make: the work.
            columns: what it makes, as Spark declares it.

        Raises:
            WaybillError: what failed a task.
        """
        here = self.here(make)
        if here is not None:
            return [row for batch in here for row in batch.to_pylist()]
        with unwrapped():
            return [row.asDict() for row in self.map(make, columns).collect()]


def read_in_tasks(
    spark: SparkSession,
    query: Callable[[], DataFrame],
    files: Sequence[DataFile],
    schema: pa.Schema,
    size: int,
    few: bool,
) -> TaskRows:
    """Rows that tasks read from data files.

    Args:
        spark: the session.
        query: gives the rows, for queries.
        files: all that hold them.
        schema: the columns to read.
        size: bytes of files that one task reads.
        few: whether the rows are so few that they need no task.
    """
    dealt = deal(files, size)
    numbers = spark.range(0, len(dealt), 1, max(1, len(dealt)))

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers: list[Any] = batch.column(0).to_pylist()
            for number in numbers:
                for piece in dealt[number]:
                    yield from read_piece(piece, schema)

    return TaskRows(query, numbers, read, len(dealt) if few else 0)


def deal(files: Iterable[DataFile], size: int) -> list[list[FilePiece]]:
    """What each task reads: about `size` bytes, a large file in several tasks.

    A file counts for at least an eighth of that, as opening it takes time, too.
    """
    tasks: list[list[FilePiece]] = []
    left = 0
    for file in files:
        parts = max(1, round(file.bytes / size))
        step = -(-file.bytes // parts)
        for start in range(0, max(1, file.bytes), max(1, step)):
            weight = max(step, size // 8)
            if weight > left:
                tasks.append([])
                left = size
            tasks[-1].append(FilePiece(file.path, start, start + step))
            left -= weight
    return tasks


def read_piece(piece: FilePiece, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a piece; a column that the file does not have is null."""
    with opened(piece.path) as file:
        groups = [
            i
            for i in range(file.num_row_groups)
            if piece.start <= begin_of(file.metadata.row_group(i)) < piece.end
        ]
        if not groups:
            return
        found = [file.metadata.row_group(i) for i in groups]
        rows = sum(group.num_rows for group in found)
        length = sum(group.total_byte_size for group in found) // max(1, rows)
        names = [name for name in schema.names if name in file.schema_arrow.names]
        for batch in file.iter_batches(rows_per_batch(length), groups, names, use_threads=False):
            yield conformed(batch, schema)


@contextmanager
def opened(path: str) -> Iterator[Any]:
    """A data file, open to read.

    Raises:
        WaybillError: it is not what was written.
    """
    import pyarrow.parquet as pq

    system, place = open_storage(path)
    try:
        with undamaged(path), system.open(place, "rb") as stream:
            yield pq.ParquetFile(stream, page_checksum_verification=True)
    except FileNotFoundError as error:
        raise damaged_file(path, error) from error


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with exactly these columns; one that is missing is null."""
    import pyarrow as pa

    there = set(batch.schema.names)
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in there
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
