"""Layout `parquet`: Kafka's columns, as listed in `COLUMNS`.

Only `value` has to be there. Without `topic` it is the source's, without `partition` the number of
the file, without `offset` the number of the row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from waybill.errors import SourceError
from waybill.larger import BYTES_PER_BATCH, ROWS_PER_BATCH
from waybill.layout import HEADERS, TIMESTAMP
from waybill.sources.streams import DigestReader, opened
from waybill.sources.tasks import FileCounts, FileTask, archive_batch

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
        SourceError: the file is no Parquet file, has no column `value`, or one of another type.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from waybill.storage import open_storage

    fs, name = open_storage(task.path)
    with opened(task.path), fs.open(name, "rb") as file:
        try:
            # Column chunks are read as they are needed, not a row group at once.
            parquet = pq.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)
            present = [column for column in COLUMNS if column in parquet.schema_arrow.names]
            if "value" not in present:
                message = (
                    f"{task.path} has no column `value` but {parquet.schema_arrow.names}; the "
                    f"layout parquet reads the columns {', '.join(COLUMNS)}"
                )
                raise SourceError(message)
            for batch in parquet.iter_batches(rows_per_batch(parquet), columns=present):
                first, counts.rows = counts.rows, counts.rows + batch.num_rows
                yield _archived(task, batch, first, batch_id)
        except (pa.ArrowException, OSError) as error:
            message = (
                f"{task.path} cannot be read as Parquet of Kafka's columns ({error}); replace it"
            )
            raise SourceError(message) from error


def rows_per_batch(parquet: pq.ParquetFile) -> int:
    """How many rows of a file fit into one batch, by their average size."""
    footer = parquet.metadata
    size = sum(footer.row_group(i).total_byte_size for i in range(footer.num_row_groups))
    average = max(1, size // max(1, footer.num_rows))
    return int(max(1, min(ROWS_PER_BATCH, BYTES_PER_BATCH // average)))


def _archived(task: FileTask, batch: pa.RecordBatch, first: int, batch_id: str) -> pa.RecordBatch:
    import pyarrow as pa

    def column(name: str, kind: pa.DataType) -> Any:
        if name not in batch.schema.names:
            return None
        return _plain(batch.column(name)).cast(kind)

    topic = column("topic", pa.string())
    partition = column("partition", pa.int32())
    offset = column("offset", pa.int64())
    return archive_batch(
        batch_id,
        column("value", pa.binary()),
        task.topic if topic is None else topic,
        task.number if partition is None else partition,
        range(first, first + batch.num_rows) if offset is None else offset,
        _timestamps(batch),
        column("key", pa.binary()),
        _headers(batch),
        column("timestamp_type", pa.string()),
    )


def _plain(array: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_dictionary(array.type):
        return array.dictionary_decode()
    return array


def _timestamps(batch: pa.RecordBatch) -> Any:
    """Timestamps; an integer is milliseconds since 1970, as Kafka's are."""
    import pyarrow as pa

    if "timestamp" not in batch.schema.names:
        return None
    array = batch.column("timestamp")
    if pa.types.is_integer(array.type):
        return array.cast(pa.int64()).cast(pa.timestamp("ms", tz="UTC")).cast(TIMESTAMP)
    if pa.types.is_timestamp(array.type) and array.type.tz is None:
        return array.cast(pa.timestamp("us"), safe=False).cast(TIMESTAMP)
    return array.cast(TIMESTAMP, safe=False)


def _headers(batch: pa.RecordBatch) -> Any:
    """Headers as a list of key and value; a map is one, too."""
    import pyarrow as pa

    if "headers" not in batch.schema.names:
        return None
    array = batch.column("headers")
    if pa.types.is_null(array.type):
        return None
    pairs: list[list[dict[str, Any]] | None] = []
    for row in array.to_pylist():
        if row is None:
            pairs.append(None)
            continue
        items = [tuple(h.values())[:2] if isinstance(h, dict) else h for h in row]
        pairs.append(
            [{"key": k, "value": v.encode() if isinstance(v, str) else v} for k, v in items]
        )
    return pa.array(pairs, HEADERS)
