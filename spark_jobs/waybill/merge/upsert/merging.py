"""Merges plain tables: all of them in one shuffle, each with one commit."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.lake import Span
from waybill.lake.data_files import WrittenFile
from waybill.lake.position_deletes import write_deletes
from waybill.lake_columns import CHANGES, columns_of
from waybill.merge.column_types import holds
from waybill.merge.columns import OWN_COLUMNS
from waybill.merge.short_images import may_leave_out
from waybill.merge.upsert.table_bytes import bytes_of
from waybill.spark_tasks.errors import unwrapped
from waybill.spark_tasks.worker_startup import light

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from waybill.lake import Branch, Lake
    from waybill.lake.data_files import DataFileWriter
    from waybill.lake.stored_files import StoredFile
    from waybill.merge.columns import MergedColumn
    from waybill.merge.increment import Increment
    from waybill.spark_tasks.worker_startup import Make

BUCKET_BYTES, BUCKET_ROWS = 64 << 20, 20_000
"""Winners that are written together have about so many bytes at most, and so many rows at least
where other cores could take some."""

LOOKED_UP = 200
"""A task looks its winners up among all rows of the table. It takes as long to look at so many of
those as to write one winner, so there are no more tasks than that pays for."""

MOST_DOUBTFUL, MOST_OF_BUCKET = 10_000, 100
"""Of more keys than these in doubt, all of the table's take the way through Spark. They come to the
driver, so each part of the keys has its share of them, or at least so many."""

DOUBTFUL_BYTES = 64 << 20
"""So many bytes they may have, in all tables together, each part of the keys having its share: what
comes to the driver must fit into its memory, and into `spark.driver.maxResultSize`."""

MOST_HELD = 512 << 20
"""Winners of one part of the keys that a task holds have so many bytes at most: it copies them, and
Arrow's texts of one column end at four times that."""

COMMITS_AT_ONCE = 8


@dataclass(frozen=True)
class Plain:
    """A plain table.

    Attributes:
        name: the source table.
        rows: changes of its rows in the batch.
        above: changes up to this order are void.
        columns: its columns.
        branch: where to.
        writer: writes its data files.
        files: its data files so far.
        left_out: see `upsert.writing.UpsertTarget`.
    """

    name: str
    rows: int
    above: str
    columns: tuple[MergedColumn, ...]
    branch: Branch
    writer: DataFileWriter
    files: tuple[StoredFile, ...]
    left_out: tuple[int, ...] | None = None

    def buckets(self, size: float, cores: int) -> int:
        """Into how many parts its keys are dealt.

        Args:
            size: bytes of its changes in the shuffle.
            cores: how many tasks run at once.
        """
        there = sum(file.rows for file in self.files)
        several = self.rows // max(BUCKET_ROWS, there // LOOKED_UP)
        return max(1, ceil(size / BUCKET_BYTES), min(cores, several))


class Upserted(NamedTuple):
    """What tasks did with plain tables.

    Attributes:
        written: what was written of a table, by its name.
        left: why nothing of a table was, by its name.
    """

    written: dict[str, WrittenFiles]
    left: dict[str, str]


class WrittenFiles(NamedTuple):
    """What tasks wrote of a plain table, not committed yet.

    Attributes:
        files: data files.
        replaced: by data file of before the places of the rows that these replace.
        doubtful: winners that were not written, which Spark has to settle; None if there are none.
    """

    files: list[WrittenFile]
    replaced: dict[str, Any]
    doubtful: pa.Table | None

    @property
    def out(self) -> int:
        """Rows that were new or newer than what was there."""
        return sum(file.rows for file in self.files)


def plain_table(
    lake: Lake, name: str, rows: int, above: str, columns: tuple[MergedColumn, ...], branch: Branch
) -> Plain | None:
    """A table for tasks to write; None where they cannot read or write its data files."""
    from waybill.merge.upsert.values import arrow_schema

    metadata = lake.metadata(branch.table)
    there = metadata.shape.types
    for column in columns:
        type_ = there[column.lake]
        if type_ != column.type and not holds(type_, column.type):
            return None
    names = [*OWN_COLUMNS, *(column.lake for column in columns)]
    schema = arrow_schema({name: there[name] for name in names})
    writer = lake.data_file_writer(branch.table, schema)
    files = lake.stored_files(branch.table, branch.begun)
    if writer is None or files is None:
        return None
    places = may_leave_out(columns, metadata, branch.becomes)
    return Plain(name, rows, above, columns, branch, writer, tuple(files), places)


def upsert(
    lake: Lake, increment: Increment, tables: Sequence[Plain], batch: str, size: int, rows: int
) -> Upserted:
    """Write the newest change of every key of plain tables that is newer than what is there.

    Args:
        lake: the lake.
        increment: the batch, nothing of which is held back or brought back.
        tables: the tables.
        batch: the batch's id.
        size: bytes of the files that hold the batch.
        rows: changes of rows in the batch.
    """
    from waybill.merge.upsert.winners import CHANGES_READ, ReducedTable
    from waybill.merge.upsert.writing import (
        OUTCOME_DDL,
        SHUFFLED_DDL,
        UpsertTarget,
        shuffled,
        written,
    )

    cores = lake.spark.sparkContext.defaultParallelism
    span = Span(lake.log("changes"), increment.after, increment.upto)
    changes = lake.task_rows(span, columns_of(CHANGES, *CHANGES_READ), {"outcome": ["ok"]})
    sizes = bytes_of(lake, increment, {table.name: table.rows for table in tables}, size, rows)
    wanted = {
        table.name: ReducedTable(i, table.buckets(sizes[table.name], cores), table.above)
        for i, table in enumerate(tables)
    }
    every = max(1, sum(sizes.values()))
    targets = {}
    for i, table in enumerate(tables):
        buckets = wanted[table.name].buckets
        share = max(MOST_OF_BUCKET, MOST_DOUBTFUL // buckets)
        # Few rows have no more bytes in all.
        own = 1 if changes.few else sizes[table.name] / every / buckets
        share_bytes = DOUBTFUL_BYTES * own
        facts = (table.columns, batch, table.writer, table.files, share, share_bytes)
        targets[i] = UpsertTarget(*facts, table.left_out)
    parts = min(sum(one.buckets for one in wanted.values()), 4 * cores)
    write = written(targets, MOST_HELD)
    outcomes: Iterable[Any]
    here = changes.here(shuffled(wanted, parts))
    if here is not None:
        outcomes = _written_here(here, write)
    else:
        found = changes.map(shuffled(wanted, parts), SHUFFLED_DDL)
        together = found.repartitionById(parts, "part").sortWithinPartitions("number", "bucket")
        with unwrapped():
            outcomes = together.mapInArrow(light(write), OUTCOME_DDL).collect()
    by_table = defaultdict(list)
    for row in outcomes:
        by_table[row.number].append(row)
    done = {table.name: _written(table, by_table[i]) for i, table in enumerate(tables)}
    return Upserted(
        {name: one for name, one in done.items() if isinstance(one, WrittenFiles)},
        {name: one for name, one in done.items() if isinstance(one, str)},
    )


def _written_here(winners: Sequence[pa.RecordBatch], write: Make) -> Iterator[Any]:
    """What tasks would tell of winners that are few, written here."""
    import pyarrow as pa
    from pyspark.sql import Row

    if winners:
        together = pa.Table.from_batches(winners)
        ordered = together.sort_by([("number", "ascending"), ("bucket", "ascending")])
        for batch in write(ordered.to_batches()):
            yield from (Row(**row) for row in batch.to_pylist())


def _written(table: Plain, rows: Sequence[Any]) -> WrittenFiles | str:
    """What tasks tell of a table: what they wrote, or why nothing of it is left."""
    from waybill.merge.upsert.writing import DOUBTFUL, LARGE, REPLACED, WRITTEN, places_of, unpacked

    by_kind = defaultdict(list)
    for row in rows:
        by_kind[row.kind].append(row)
    files = [
        WrittenFile(f.path, f.bytes, f.rows, tuple(f.partition), f.groups) for f in by_kind[WRITTEN]
    ]
    if by_kind[LARGE]:
        _remove(table.writer, files)
        return "its rows are larger than a task can hold"
    if any(row.content is None for row in by_kind[DOUBTFUL]):
        _remove(table.writer, files)
        return "many values are in doubt"
    places = defaultdict(list)
    for row in by_kind[REPLACED]:
        places[row.path].append(places_of(bytes(row.content)))
    doubtful = None
    if by_kind[DOUBTFUL]:
        import pyarrow as pa

        doubtful = pa.concat_tables([unpacked(bytes(row.content)) for row in by_kind[DOUBTFUL]])
    return WrittenFiles(files, dict(sorted(places.items())), doubtful)


def commit_written(
    tables: Iterable[Plain],
    written: Mapping[str, WrittenFiles],
    stamps: Mapping[str, Mapping[str, str]],
) -> None:
    """Commit what tasks wrote, each table to its branch, several at once.

    Args:
        tables: the tables.
        written: what was written of each, by name.
        stamps: what the last snapshots of their branches carry; a table that is not there goes on.

    Raises:
        ConflictError: another run took a branch away.
    """

    def commit(table: Plain) -> None:
        import numpy as np

        own = written[table.name]
        there = {file.path: file for file in table.files}
        deletes = [
            write_deletes(table.writer, there[path], np.sort(np.concatenate(places)))
            for path, places in own.replaced.items()
        ]
        stamp = stamps.get(table.name)
        if own.files or stamp:
            table.branch.replace_rows(own.files, deletes, stamp)

    with ThreadPoolExecutor(COMMITS_AT_ONCE) as pool:
        list(pool.map(commit, [table for table in tables if table.name in written]))


def _remove(writer: DataFileWriter, files: Sequence[WrittenFile]) -> None:
    """Delete data files that are in no commit."""
    from waybill.storage.file_store import open_store

    store = open_store(writer.opened)
    for file in files:
        store.remove(file.path.removeprefix(f"{writer.folder}/"))
