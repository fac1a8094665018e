"""Writes winners into data files, beside the rows that are there, in the tasks that have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waybill.lake.sizing import MOST_ROWS
from waybill.merge import columns as own
from waybill.merge.upsert.shortening import short_images
from waybill.merge.upsert.stored import look_up
from waybill.merge.upsert.values import typed_columns
from waybill.merge.upsert.winners import WINNERS, buckets_of, reduced, whole, winners

if TYPE_CHECKING:
    from waybill.lake.data_files import DataFileWriter
    from waybill.lake.stored_files import StoredFile
    from waybill.merge.columns import MergedColumn
    from waybill.merge.upsert.images import ImageTexts
    from waybill.merge.upsert.winners import ReducedTable
    from waybill.spark_tasks.worker_startup import Make

SHUFFLED_DDL = "part int, number int, bucket int, winners binary"
"""How winners go to the task that writes them: the part of the shuffle, their table's number, which
part of its keys they are, and the winners in Arrow's format."""

_SHUFFLED_TYPES: dict[str, Any] = {
    "part": pa.int32(),
    "number": pa.int32(),
    "bucket": pa.int32(),
    "winners": pa.binary(),
}
_SHUFFLED = pa.schema(_SHUFFLED_TYPES)

WRITTEN, REPLACED, DOUBTFUL, LARGE = "written", "replaced", "doubtful", "large"

SHORT = "short"
"""The column of winners that has their short images, beside those of `WINNERS`."""

OUTCOME_DDL = (
    "number int, kind string, path string, bytes long, rows long, partition array<string>, "
    "groups array<long>, content binary"
)
"""What a task tells of a table, by `kind`:

- `written`: a data file, as `data_files.WRITTEN_DDL` has it;
- `replaced`: rows of the data file `path` that are gone, by their places in `content`;
- `doubtful`: winners that were not written, in `content` unless they are too many; then nothing of
  this part of the keys was;
- `large`: nothing of a part of the keys was written, because it has more than a task can hold.
"""

_OUTCOME_TYPES: dict[str, Any] = {
    "number": pa.int32(),
    "kind": pa.string(),
    "path": pa.string(),
    "bytes": pa.int64(),
    "rows": pa.int64(),
    "partition": pa.list_(pa.string()),
    "groups": pa.list_(pa.int64()),
    "content": pa.binary(),
}
_OUTCOME = pa.schema(_OUTCOME_TYPES)


class UpsertTarget(NamedTuple):
    """A table that winners are written to.

    Attributes:
        columns: its columns of the source.
        batch: the batch that writes.
        writer: writes its data files.
        files: its data files so far.
        most_doubtful: so many winners of one part of its keys may be in doubt.
        doubtful_bytes: so many bytes they may have.
        left_out: places of the columns that images leave out where they can; None where all images
            are stored in full.
    """

    columns: tuple[MergedColumn, ...]
    batch: str
    writer: DataFileWriter
    files: tuple[StoredFile, ...]
    most_doubtful: int
    doubtful_bytes: float
    left_out: tuple[int, ...] | None = None


def shuffled(tables: Mapping[str, ReducedTable], parts: int) -> Make:
    """From changes to winners on their way to the tasks that write them.

    Args:
        tables: those that are wanted, by qualified name.
        parts: how many parts the shuffle has.
    """
    buckets = {wanted.number: wanted.buckets for wanted in tables.values()}

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for found in winners(batches, tables):
            for number, bucket, rows in buckets_of(found, buckets):
                # Neighbouring parts of the keys of neighbouring tables go to different tasks.
                part = (number + bucket) % parts
                row = {"part": part, "number": number, "bucket": bucket, "winners": packed(rows)}
                yield pa.RecordBatch.from_pylist([row], schema=_SHUFFLED)

    return work


def packed(rows: pa.Table) -> bytes:
    """Winners in Arrow's format."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, WINNERS, options=options) as stream:
        stream.write_table(rows)
    return sink.getvalue().to_pybytes()


def unpacked(content: bytes) -> pa.Table:
    """Winners from Arrow's format."""
    return pa.ipc.open_stream(content).read_all()


def written(targets: Mapping[int, UpsertTarget], most_held: int) -> Make:
    """From winners to what was done with them, in a task.

    Args:
        targets: the tables by their numbers.
        most_held: so many bytes the winners of one part of the keys may have.
    """

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, rows in _together(batches, most_held):
            if rows is None:
                yield _outcome_row(number, LARGE, 0)
            else:
                yield from _write(number, targets[number], reduced(rows))

    return work


def _together(
    batches: Iterable[pa.RecordBatch], most: int
) -> Iterator[tuple[int, pa.Table | None]]:
    """All winners of one part of the keys of a table, None for more than so many bytes.

    Rows come sorted by both.
    """
    for (number, _), contents in groupby(_packed(batches), key=lambda one: one[0]):
        held: list[pa.Table] = []
        size = 0
        for _, content in contents:
            if size <= most:
                held.append(unpacked(content))
                size += held[-1].nbytes
            else:
                held.clear()
        yield number, pa.concat_tables(held) if size <= most else None


def _packed(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[tuple[int, int], bytes]]:
    """Table and part of the keys of winners, and the winners in Arrow's format."""
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("number", "bucket", "winners"))
        for number, bucket, content in zip(*columns, strict=True):
            yield (number, bucket), content


def _write(number: int, target: UpsertTarget, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    values, doubtful, texts = typed_columns(whole(rows.column("image")), target.columns)
    if target.left_out is not None:
        images = _short(target, rows, texts, values, doubtful)
        rows = rows.append_column(SHORT, images)
    if doubtful.any():
        odd = rows.filter(pa.array(doubtful)).select(WINNERS.names)
        if odd.num_rows > target.most_doubtful or odd.nbytes > target.doubtful_bytes:
            yield _outcome_row(number, DOUBTFUL, odd.num_rows)
            return
        yield _outcome_row(number, DOUBTFUL, odd.num_rows, content=packed(odd))
        sure = pa.array(~doubtful)
        rows, values = rows.filter(sure), [value.filter(sure) for value in values]
    if target.files and rows.num_rows:
        found = look_up(target.files, whole(rows.column("key")), whole(rows.column("order")))
        for file, places in found.replaced.items():
            path, content = target.files[file].path, places.tobytes()
            yield _outcome_row(number, REPLACED, len(places), path=path, content=content)
        if found.newer.any():
            older = pa.array(~found.newer)
            rows, values = rows.filter(older), [value.filter(older) for value in values]
    made = _rows(target, rows, values)
    for batch in target.writer.write(made.to_batches(max_chunksize=MOST_ROWS)):
        for row in batch.to_pylist():
            yield _outcome_row(number, WRITTEN, **row)


def _short(
    target: UpsertTarget, rows: pa.Table, texts: ImageTexts, values: list[Any], doubtful: Any
) -> Any:
    """The short images of winners, null for those that are doubtful."""
    images = pc.if_else(pa.array(doubtful), pa.scalar(None, pa.string()), rows.column("image"))
    left_out = target.left_out or ()
    return short_images(
        whole(images), target.columns, texts.columns, values, texts.others & ~doubtful, left_out
    )


def _rows(target: UpsertTarget, winners: pa.Table, values: list[Any]) -> pa.Table:
    """Winners as rows of the table."""
    count, live = winners.num_rows, whole(winners.column("live"))
    gone = pc.if_else(live, pa.scalar(None, pa.string()), pa.scalar(own.BY_CHANGE))
    known = {
        own.KEY: winners.column("key"),
        own.ORDER: winners.column("order"),
        own.DELETED: pc.invert(live),
        own.IMAGE: winners.column("image" if target.left_out is None else SHORT),
        own.SOURCES: pa.nulls(count, pa.string()),
        own.BATCH: pa.repeat(pa.scalar(target.batch), count),
        own.GONE: gone,
        **{column.lake: value for column, value in zip(target.columns, values, strict=True)},
    }
    schema = target.writer.schema
    columns = [known[field.name].cast(field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _outcome_row(number: int, kind: str, rows: int, **more: Any) -> pa.RecordBatch:
    """One row of `OUTCOME_DDL`."""
    row = {"number": number, "kind": kind, "rows": rows, **more}
    return pa.RecordBatch.from_pylist([row], schema=_OUTCOME)


def places_of(content: bytes) -> Any:
    """The places of rows that are gone from a data file."""
    return np.frombuffer(content, np.int64)
