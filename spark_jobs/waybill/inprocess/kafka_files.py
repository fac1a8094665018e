"""Files of Kafka's columns in Parquet: topic, partition, offset, timestamp, key, value, headers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

from waybill.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow as pa

    from waybill.envelopes.protocol import Encoded
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
        tell: told how many bytes of values each block held.

    Raises:
        ConfigurationError: the file is not Parquet or has no column `value`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from waybill.envelopes.batch import messages_of

    try:
        file = pq.ParquetFile(path, pre_buffer=False)
    except (OSError, pa.ArrowInvalid) as error:
        reason = str(error).splitlines()[0]
        raise ConfigurationError(f"{path} cannot be read as Parquet: {reason}") from error
    with file:
        names = file.schema_arrow.names
        if "value" not in names:
            message = (
                f"{path} has no column 'value' (it has {', '.join(names)}): name the column so"
            )
            raise ConfigurationError(message)
        columns = [name for name in _COLUMNS if name in names]
        row = 0
        for batch in file.iter_batches(batch_size=ROWS, columns=columns):
            messages = list(messages_of(_normal(batch, topic, row)))
            row += batch.num_rows
            tell(batch.nbytes)
            yield messages


_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


def _normal(batch: pa.RecordBatch, topic: str, first: int) -> pa.RecordBatch:
    """The batch with all of Kafka's columns; the row's number stands for an offset."""
    import pyarrow as pa

    from waybill.layout import TIMESTAMP

    rows = batch.num_rows
    types = {"key": pa.binary(), "value": pa.binary(), "timestamp": TIMESTAMP}
    made: dict[str, Any] = {
        "topic": pa.array([topic] * rows, pa.string()),
        "partition": pa.array([0] * rows, pa.int32()),
        "offset": pa.array(range(first, first + rows), pa.int64()),
    }
    columns: dict[str, Any] = {}
    for name in _COLUMNS:
        if name in batch.schema.names:
            column = batch.column(name)
            if name == "timestamp" and pa.types.is_integer(column.type):
                column = column.cast(pa.timestamp("ms", tz="UTC"))  # Kafka's own unit
            columns[name] = column.cast(types[name]) if name in types else column
        elif name in made:
            columns[name] = made[name]
    return pa.RecordBatch.from_pydict(columns)


class MessageFile:
    """Writes messages to a Parquet file of Kafka's columns.

    A written message keeps the partition and the timestamp of the message that it was made from;
    offsets count within the file and partition.
    """

    def __init__(self, stream: IO[bytes], topic: str) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        from waybill.layout import ARCHIVE

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
