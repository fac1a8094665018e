"""Layout `parquet`: Kafka's columns, as listed in `COLUMNS`.

Only `value` has to be there. Without `topic` it is the source's, without `partition` the number of
the file, without `offset` the number of the row. A file with `partition` and no `offset` is
refused: rows of two files would have one place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from waybill.errors import Code, SourceError
from waybill.lake_columns import ARCHIVE, HEADERS, MESSAGE_PLACE, TIMESTAMP
from waybill.sources.streams import DigestReader, opened
from waybill.sources.tasks import FileCounts, FileTask, archive_batch
from waybill.spark_tasks.rechunking import BYTES_PER_BATCH, ROWS_PER_BATCH

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

SUFFIXES = (".parquet", ".pq")
COLUMNS = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestamp_type",
    "key",
    "value",
    "headers",
)


def read(
    task: FileTask, stream: DigestReader, counts: FileCounts, batch_id: str
) -> Iterator[pa.RecordBatch]:
    """The rows of a file, some megabytes at a time.

    Raises:
        SourceError: the file is not a Parquet file, or not of Kafka's columns, see `kafka_batches`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from waybill.storage.open import open_storage

    fs, name = open_storage(task.path)
    with opened(task.path), fs.open(name, "rb") as file:
        try:
            # Column chunks are read as they are needed, not a row group at once.
            parquet = pq.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)
        except (pa.ArrowException, OSError) as error:
            raise SourceError(_complaint(task.path, error), code=Code.SOURCE_LAYOUT) from error
        for batch in kafka_batches(parquet, task.path, rows_per_batch(parquet)):
            first, counts.rows = counts.rows, counts.rows + batch.num_rows
            yield _archived(task, batch, first, batch_id)


def kafka_batches(parquet: pq.ParquetFile, path: str, rows: int) -> Iterator[pa.RecordBatch]:
    """The columns of Kafka's that a file has, in the archive's types.

    Args:
        parquet: the file.
        path: its name, for errors.
        rows: how many to read at once.

    Raises:
        SourceError: there is no column `value`, one stands there twice or is of another type, or a
            message has no place (topic, partition, offset) of its own.
    """
    import pyarrow as pa

    names = parquet.schema_arrow.names
    present = [column for column in COLUMNS if column in names]
    if "value" not in present:
        message = (
            f"{path} has no column 'value' but {names}; the layout parquet reads the columns "
            f"{', '.join(COLUMNS)}"
        )
        raise SourceError(message, code=Code.SOURCE_LAYOUT)
    twice = [column for column in present if names.count(column) > 1]
    if twice:
        raise SourceError(
            f"{path} has several columns {twice[0]!r}: leave one of them", code=Code.SOURCE_LAYOUT
        )
    if "partition" in present and "offset" not in present:
        message = (
            f"{path} has a column 'partition' and none 'offset', so messages of several files "
            "would have one place: write the offsets too, or leave the partitions out"
        )
        raise SourceError(message, code=Code.SOURCE_LAYOUT)
    first = 0
    try:
        for batch in parquet.iter_batches(rows, columns=present):
            columns = {name: _typed(name, batch.column(name)) for name in present}
            _check_places(path, columns, first)
            first += batch.num_rows
            yield pa.RecordBatch.from_pydict(columns)
    except (pa.ArrowException, OSError) as error:
        raise SourceError(_complaint(path, error), code=Code.SOURCE_LAYOUT) from error


def _complaint(path: str, error: Exception) -> str:
    return f"{path} cannot be read as Parquet of Kafka's columns ({error}); replace it"


def _check_places(path: str, columns: dict[str, Any], first: int) -> None:
    """See that every message says where it was; a place that is missing would be missed later."""
    for name in MESSAGE_PLACE:
        column = columns.get(name)
        if column is not None and column.null_count:
            row = first + column.is_null().to_pylist().index(True)
            message = (
                f"column {name!r} of {path} is null in row {row} (counted from 0): write where the "
                "message was, or leave the column out"
            )
            raise SourceError(message, code=Code.SOURCE_LAYOUT)


def rows_per_batch(parquet: pq.ParquetFile) -> int:
    """How many rows of a file fit into one batch, by their average size."""
    footer = parquet.metadata
    size = sum(footer.row_group(i).total_byte_size for i in range(footer.num_row_groups))
    average = max(1, size // max(1, footer.num_rows))
    return int(max(1, min(ROWS_PER_BATCH, BYTES_PER_BATCH // average)))


def bare_type(kind: Any) -> Any:
    """A type without what only says how its values are laid out: dictionaries, views, wide ones."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return bare_type(kind.value_type)
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if (
        types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    ):
        return pa.binary()
    return kind


def bare(array: Any) -> Any:
    """Values in their bare type."""
    import pyarrow as pa

    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = bare_type(array.type)
    return array if array.type == kind else array.cast(kind)


def _archived(task: FileTask, batch: pa.RecordBatch, first: int, batch_id: str) -> pa.RecordBatch:
    def column(name: str, default: Any = None) -> Any:
        return batch.column(name) if name in batch.schema.names else default

    return archive_batch(
        batch_id,
        batch.column("value"),
        column("topic", task.topic),
        column("partition", task.number),
        column("offset", range(first, first + batch.num_rows)),
        column("timestamp"),
        column("key"),
        column("headers"),
        column("timestamp_type"),
    )


def _typed(name: str, array: Any) -> Any:
    """A column in the type that the archive has for it."""
    array = bare(array)
    if name == "timestamp":
        return _timestamps(array)
    if name == "headers":
        return _headers(array)
    return array.cast(ARCHIVE.field(name).type)


def _timestamps(array: Any) -> Any:
    """Timestamps; an integer is milliseconds since 1970, below zero none at all, as in Kafka."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(array.type):
        stamps = array.cast(pa.int64())
        zero, none = (pa.scalar(value, pa.int64()) for value in (0, None))
        known: Any = pc.if_else(pc.less(stamps, zero), none, stamps)
        return known.cast(pa.timestamp("ms", tz="UTC")).cast(TIMESTAMP)
    stamped = pa.types.is_timestamp(array.type)
    # Nanoseconds lose digits. A coarser time that is too far away would become another one.
    exact = not (stamped and array.type.unit == "ns")
    if stamped and array.type.tz is None:
        array = array.cast(pa.timestamp("us"), safe=exact)
    return array.cast(TIMESTAMP, safe=exact)


def _headers(array: Any) -> Any:
    """Headers as a list of key and value, which are found by their names; a map is one, too."""
    import pyarrow as pa

    if not (pa.types.is_null(array.type) or pa.types.is_map(array.type)):
        pair: Any = getattr(array.type, "value_type", None)
        if not (isinstance(pair, pa.StructType) and {"key", "value"} <= set(pair.names)):
            message = (
                f"headers of {array.type} are neither a map nor a list of structs of key and value"
            )
            raise pa.ArrowInvalid(message)
    return array.cast(HEADERS)
