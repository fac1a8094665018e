"""Parts of files: what tasks write of the messages of one, as lines or as Parquet."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from waybill.errors import Code, ConfigurationError
from waybill.lake.task_rows import conformed
from waybill.lake_columns import TIMESTAMP
from waybill.publish.outgoing import place
from waybill.storage.file_store import open_store

SUFFIXES = {"lines": "jsonl", "parquet": "parquet"}

KAFKA_COLUMNS = ("timestamp", "key", "value", "headers")
"""Columns of a part in Parquet."""

_HEADER: Any = pa.struct([("key", pa.string()), ("value", pa.binary())])
_PARQUET = pa.schema(
    [
        ("timestamp", TIMESTAMP),
        ("key", pa.binary()),
        ("value", pa.binary()),
        # The name is part of the file, and Spark's.
        ("headers", pa.list_(pa.field("element", _HEADER))),
    ]
)
"""Those columns as they are written, whoever has read them: a rerun makes the same bytes."""

_FIELDS: list[tuple[str, pa.DataType]] = [
    ("part", pa.int32()),
    ("file", pa.string()),
    ("messages", pa.int64()),
    ("tombstones", pa.int64()),
    ("bytes", pa.int64()),
    ("sha256", pa.string()),
    ("first", pa.string()),
    ("last", pa.string()),
]
WRITTEN_PARTS = pa.schema(_FIELDS)
"""A written part as its task tells of it, the fields of `FilePart`."""


class FilePart(NamedTuple):
    """A written part.

    Attributes:
        part: its number, from 0.
        file: its name in the batch's folder.
        messages: how many messages it holds.
        tombstones: messages without a value, left out of a file of lines.
        bytes: size of the file.
        sha256: checksum of the file.
        first: change of the first message, as topic/partition/offset/index.
        last: change of the last message.
    """

    part: int
    file: str
    messages: int
    tombstones: int
    bytes: int
    sha256: str
    first: str | None
    last: str | None


class PartWriter:
    """Writes parts inside a Spark task; sent to the tasks, so it holds plain data only.

    Args:
        folder: the batch's folder.
        layout: lines or parquet.
        mark: what the parts have in their names (`Sender.mark`).
        keep: whether the files stay; else they are only counted and summed.
    """

    def __init__(self, folder: str, layout: str, mark: str, keep: bool) -> None:
        self.folder = folder
        self.layout = layout
        self.mark = mark
        self.keep = keep

    def write_all(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """Write every part of a task; rows come in order, the rows of a part together."""
        for number, rows in _by_part(batches):
            part = self.write_part(number, rows)
            yield pa.RecordBatch.from_pylist([part._asdict()], schema=WRITTEN_PARTS)

    def write_part(self, number: int, rows: Iterator[pa.RecordBatch]) -> FilePart:
        """Write one part."""
        name = f"part-{number:05d}-{self.mark}.{SUFFIXES[self.layout]}"
        if not self.keep:
            return self._fill(Summing(None), number, name, rows)
        with open_store(self.folder).write(name) as stream:
            return self._fill(Summing(stream), number, name, rows)

    def _fill(
        self, sink: Summing, number: int, name: str, rows: Iterator[pa.RecordBatch]
    ) -> FilePart:
        lines = self.layout == "lines"
        body = Lines(sink, self.folder, listed=not self.keep) if lines else KafkaColumns(sink)
        first = last = None
        for batch in rows:
            if batch.num_rows == 0:
                continue
            first = first or place(batch, 0)
            last = place(batch, batch.num_rows - 1)
            body.write(batch)
        body.close()
        return FilePart(
            number,
            name,
            body.messages,
            body.tombstones,
            sink.size,
            sink.hash.hexdigest(),
            first,
            last,
        )


def _by_part(
    batches: Iterable[pa.RecordBatch],
) -> Iterator[tuple[int, Iterator[pa.RecordBatch]]]:
    """Neighbouring rows of one part, as slices of the batches they came in."""
    slices = _slices(batches)
    ahead = next(slices, None)
    while ahead is not None:
        number = ahead[0]

        def own(number: int = number) -> Iterator[pa.RecordBatch]:
            nonlocal ahead
            while ahead is not None and ahead[0] == number:
                yield ahead[1]
                ahead = next(slices, None)

        yield number, own()


def _slices(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    for batch in batches:
        numbers = batch.column("part")
        start = 0
        while start < batch.num_rows:
            number = numbers[start].as_py()
            if numbers[batch.num_rows - 1].as_py() == number:
                end = batch.num_rows
            else:
                rest = numbers.slice(start).to_pylist()
                end = start + next(i for i, other in enumerate(rest) if other != number)
            yield number, batch.slice(start, end - start)
            start = end


class Summing:
    """A stream that counts and sums what goes through; None as sink keeps nothing."""

    def __init__(self, sink: IO[bytes] | None) -> None:
        self.sink = sink
        self.size = 0
        self.hash = hashlib.sha256()
        self.closed = False

    def write(self, data: Any) -> int:
        """Pass on."""
        view = memoryview(data)
        self.size += view.nbytes
        self.hash.update(view)
        if self.sink is not None:
            self.sink.write(view)
        return view.nbytes

    def flush(self) -> None:
        """Nothing is held back here."""

    def close(self) -> None:
        """The stream below is closed by who opened it."""
        self.closed = True


class Lines:
    """One value a line.

    Args:
        sink: what takes them.
        folder: the batch's folder, for people.
        listed: whether they are only held against a manifest, which no value with a line feed can
            match: its part has as many line feeds as messages.
    """

    def __init__(self, sink: Summing, folder: str, listed: bool) -> None:
        self._sink = sink
        self._folder = folder
        self._listed = listed
        self.messages = self.tombstones = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the values; a null cannot be a line, and is counted.

        Raises:
            ConfigurationError: a value has a line feed. Without that message readers would not have
                what the source has, so there will be no manifest.
        """
        values = batch.column("value").to_pylist()
        keep = [value for value in values if value is not None]
        self.tombstones += len(values) - len(keep)
        text = b"\n".join([*keep, b""])
        if text.count(b"\n") != len(keep) and not self._listed:
            rows = (i for i, value in enumerate(values) if value is not None and b"\n" in value)
            message = (
                f"the message of change {place(batch, next(rows))} has a line feed, which a line "
                f"of a file cannot hold, so {self._folder} gets no manifest and nothing of it "
                "counts as published: set files.layout: parquet for the target, or publish to a "
                "topic, then run the batch again"
            )
            raise ConfigurationError(message, code=Code.LINE_FEED)
        self.messages += len(keep)
        self._sink.write(text)

    def close(self) -> None:
        """Every line is written."""


class KafkaColumns:
    """Kafka's columns in Parquet."""

    def __init__(self, sink: Summing) -> None:
        self._sink = sink
        self._writer: pq.ParquetWriter | None = None
        self._held: list[pa.RecordBatch] = []
        self._rows = 0
        self.messages = self.tombstones = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows; they are written when there are enough for a row group.

        How many come at once must not show in the file: that depends on what else is sent.
        """
        batch = conformed(batch, _PARQUET)
        self.messages += batch.num_rows
        while self._rows + batch.num_rows >= ROW_GROUP:
            rest = ROW_GROUP - self._rows
            self._held.append(batch.slice(0, rest))
            self._flush()
            batch = batch.slice(rest)
        if batch.num_rows:
            self._held.append(batch)
            self._rows += batch.num_rows

    def close(self) -> None:
        """Write the rest and the footer."""
        if self._held:
            self._flush()
        if self._writer is not None:
            self._writer.close()

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._held).combine_chunks()
        if self._writer is None:
            sink: Any = self._sink
            self._writer = pq.ParquetWriter(
                pa.PythonFile(sink, mode="w"), table.schema, compression="zstd"
            )
        self._writer.write_table(table)
        self._held, self._rows = [], 0


ROW_GROUP = 50_000
"""Messages of a row group."""
