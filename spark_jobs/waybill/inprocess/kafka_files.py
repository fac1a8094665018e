"""Files of Kafka's columns in Parquet: topic, partition, offset, timestamp, key, value, headers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

from waybill.errors import ConfigurationError, SourceError

if TYPE_CHECKING:
    import pyarrow as pa

    from waybill.protocol import Encoded
    from waybill.records import Message

ROWS = 4096
"""Messages that are read at once."""

ROW_GROUP = 32 << 20
"""Bytes of keys and values that are held before they are written."""


def read_messages(path: str, topic: str, tell: Callable[[int], None]) -> Iterator[list[Message]]:
    """The messages of a Parquet file, some at a time, in the file's order.

    Args:
        path: the file.
        topic: name of the topic where the file has no column for it.
        tell: gets how many bytes of values each block held.

    Raises:
        ConfigurationError: the file is not Parquet or not of Kafka's columns.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from waybill.batches.messages import messages_of
    from waybill.sources.parquet import kafka_batches

    try:
        file = pq.ParquetFile(path, pre_buffer=False)
    except (OSError, pa.ArrowInvalid) as error:
        reason = str(error).splitlines()[0]
        raise ConfigurationError(f"{path} cannot be read as Parquet: {reason}") from error
    with file:
        row = 0
        try:
            for batch in kafka_batches(file, path, ROWS):
                messages = list(messages_of(_with_places(batch, topic, row)))
                row += batch.num_rows
                tell(batch.nbytes)
                yield messages
        except SourceError as error:
            raise ConfigurationError(str(error)) from error


def _with_places(batch: pa.RecordBatch, topic: str, first: int) -> pa.RecordBatch:
    """The batch with all columns of a place; the row's number stands for an offset."""
    import pyarrow as pa

    rows = batch.num_rows
    made: dict[str, Any] = {
        "topic": pa.repeat(topic, rows),
        "partition": pa.repeat(0, rows),
        "offset": pa.array(range(first, first + rows), pa.int64()),
    }
    there = dict(zip(batch.schema.names, batch.columns, strict=True))
    return pa.RecordBatch.from_pydict({**made, **there})


_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


class MessageFile:
    """Writes messages to a Parquet file of Kafka's columns.

    A written message keeps the partition and the timestamp of the message that it was made from;
    offsets count within the file and partition.
    """

    def __init__(self, stream: IO[bytes], topic: str) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        from waybill.lake_columns import ARCHIVE

        self.schema = pa.schema([ARCHIVE.field(name) for name in _COLUMNS])
        self.topic = topic
        self._writer = pq.ParquetWriter(stream, self.schema, compression="zstd")
        self._next: Counter[int] = Counter()
        self._rows: list[tuple[Any, ...]] = []
        self._bytes = 0

    def __enter__(self) -> MessageFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._flush()
            self._writer.close()
        else:
            with suppress(Exception):  # the file is thrown away, the first error is the one to tell
                self._writer.close()

    def write(self, written: list[Encoded], origins: list[Message]) -> int:
        """Take messages; returns how many bytes of keys and values they hold."""
        size = 0
        for encoded, origin in zip(written, origins, strict=True):
            partition = origin.partition
            offset = self._next[partition]
            self._next[partition] = offset + 1
            time = None if origin.timestamp is None else origin.timestamp * 1000
            headers = encoded.headers
            pairs = None if headers is None else [{"key": k, "value": v} for k, v in headers]
            row = (self.topic, partition, offset, time, encoded.key, encoded.value, pairs)
            self._rows.append(row)
            size += len(encoded.key or b"") + len(encoded.value or b"")
        self._bytes += size
        if self._bytes >= ROW_GROUP:
            self._flush()
        return size

    def _flush(self) -> None:
        import pyarrow as pa

        if not self._rows:
            return
        columns = list(zip(*self._rows, strict=True))
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, self.schema, strict=True)
        ]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self.schema))
        self._rows.clear()
        self._bytes = 0
