"""What merged tables look like, counted by tasks that read their data files themselves.

A query over many tables takes longer to plan than their rows take to read, and one that looks for
keys in a large table costs ten times as much as Arrow does.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from waybill.lake.row_group_bounds import Sought
from waybill.lake.sizing import MOST_ROWS, dealt
from waybill.lake.task_rows import opened
from waybill.spark_tasks.errors import unwrapped
from waybill.spark_tasks.worker_startup import light

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from waybill.lake.stored_files import StoredFile
    from waybill.spark_tasks.worker_startup import Make

KEY, DELETED = "_waybill_key", "_waybill_deleted"
BATCH, IMAGE = "_waybill_batch", "_waybill_image"
"""Columns of merged tables that are looked at."""

COUNTS = ("all", "tombstones", "written", "keyed", "nulls", "shown", "distinct")
_DDL = ", ".join(["number int", *(f"{name} long" for name in COUNTS)])
_ROWS_A_TASK = 50_000
_image = msgspec.json.Decoder(dict[str, str | None]).decode


class CountedTable(NamedTuple):
    """A table that tasks look at.

    Attributes:
        files: its data files.
        rows: how many rows it has.
        written: those of its files that may have rows of the batch, where only the keys of these
          rows are looked for; None where every key is counted.
    """

    files: tuple[StoredFile, ...]
    rows: int
    written: tuple[StoredFile, ...] | None = None

    def shares(self, most: int) -> list[tuple[StoredFile, ...]]:
        """Its files for one task each, at most so many.

        Where every key is counted one task sees them all.
        """
        if self.written is None:
            return [self.files]
        shares = max(1, min(most, len(self.files), self.rows // _ROWS_A_TASK))
        return [self.files[i::shares] for i in range(shares)]

    def counts(self, files: Sequence[StoredFile], batch: str) -> Counter[str]:
        """What a share of the files has of `COUNTS`."""
        if self.written is None:
            return count_every_key(files, batch)
        first = bool(self.files) and self.files[0] in files
        return count_written_keys(files, self.written, batch, first)


def counted_in_tasks(
    spark: SparkSession, tables: Sequence[CountedTable], batch: str
) -> list[Counter[str]]:
    """`COUNTS` of each table.

    Args:
        spark: the session.
        tables: the tables.
        batch: whose rows are looked at closely.
    """
    if not tables:
        return []
    cores = spark.sparkContext.defaultParallelism
    shares = [(n, share) for n, table in enumerate(tables) for share in table.shares(2 * cores)]
    sizes = [tables[n].rows * len(share) // max(1, len(tables[n].files)) + 1 for n, share in shares]
    found: list[Counter[str]] = [Counter() for _ in tables]
    if sum(sizes) <= MOST_ROWS:
        for number, share in shares:
            found[number] += tables[number].counts(share, batch)
        return found
    tasks = dealt(shares, sizes, max(1, min(2 * cores, sum(sizes) // _ROWS_A_TASK)))
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    with unwrapped():
        rows = numbers.mapInArrow(light(_work(tasks, tables, batch)), _DDL).collect()
    for row in rows:
        found[row.number] += Counter({name: row[name] for name in COUNTS})
    return found


def _work(
    tasks: list[list[tuple[int, tuple[StoredFile, ...]]]],
    tables: Sequence[CountedTable],
    batch: str,
) -> Make:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = pa.schema([("number", pa.int32()), *((name, pa.int64()) for name in COUNTS)])
        for given in batches:
            places: list[Any] = given.column(0).to_pylist()
            for number, share in (one for place in places for one in tasks[place]):
                counts = tables[number].counts(share, batch)
                row = {"number": number, **{name: counts[name] for name in COUNTS}}
                yield pa.RecordBatch.from_pylist([row], schema)

    return work


def count_every_key(files: Iterable[StoredFile], batch: str) -> Counter[str]:
    """`COUNTS` of a table with these data files."""
    import pyarrow as pa
    import pyarrow.compute as pc

    counts: Counter[str] = Counter()
    keys = []
    for file in files:
        for rows in _live_rows(file, batch, (KEY, DELETED, BATCH)):
            counts += _counted(rows, batch)
            keys.append(rows.column(KEY))
    every = pa.chunked_array([chunk for key in keys for chunk in key.chunks], pa.string())
    counts["keyed"] = len(every) - every.null_count
    counts["nulls"] += every.null_count
    counts["distinct"] = pc.count_distinct(every).as_py()
    return counts


def count_written_keys(
    files: Iterable[StoredFile], written: Sequence[StoredFile], batch: str, first: bool
) -> Counter[str]:
    """`COUNTS` of some data files of a table, of whose keys only those of the batch are looked for.

    Args:
        files: the data files.
        written: all of the table that may have rows of the batch.
        batch: the batch.
        first: whether this is the share that tells how many keys the batch wrote, and nulls.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    own = [
        rows.filter(pc.equal(rows.column(BATCH), pa.scalar(batch))).column(KEY)
        for file in written
        for rows in _live_rows(file, batch, (KEY, BATCH))
    ]
    every = pa.chunked_array([chunk for key in own for chunk in key.chunks], pa.string())
    wanted: Any = every.unique().drop_null()
    counts: Counter[str] = Counter()
    if first:
        counts["distinct"], counts["nulls"] = len(wanted), every.null_count
    paths, near = {file.path for file in written}, Sought(wanted, KEY)
    for file in files:
        own_file = file.path in paths
        columns = (KEY, DELETED, BATCH) if own_file else (KEY, DELETED)
        for rows in _live_rows(file, batch, columns, None if own_file else near):
            counts += _counted(rows, batch)
            if KEY not in rows.column_names:
                continue
            there: Any = pc.is_in(rows.column(KEY), value_set=wanted, skip_nulls=True)
            counts["keyed"] += pc.sum(there).as_py() or 0
    return counts


def _counted(rows: pa.Table, batch: str) -> Counter[str]:
    """What rows have of `COUNTS`; of their keys only nulls in those that the batch wrote."""
    import pyarrow as pa
    import pyarrow.compute as pc

    deleted = rows.column(DELETED)
    counts: Counter[str] = Counter(
        all=rows.num_rows, tombstones=pc.sum(deleted).as_py() or 0, shown=deleted.null_count
    )
    if BATCH in rows.column_names:
        written = rows.filter(pc.equal(rows.column(BATCH), pa.scalar(batch)))
        counts["written"] = written.num_rows
        counts["nulls"] = _with_null(written.column(KEY))
        if IMAGE in rows.column_names:
            counts["shown"] += _mismarked(written)
    return counts


def _live_rows(
    file: StoredFile, batch: str, columns: Sequence[str], near: Sought | None = None
) -> Iterator[pa.Table]:
    """The rows of a file that were not deleted, some at a time.

    Where keys are looked for, their column is left out of rows that cannot have one of them.

    Images come with rows of the batch where it is asked which rows these are: images are most of a
    file, and those of earlier batches were looked at then.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    gone, first = file.deleted(), 0
    with opened(file.opened) as parquet:
        groups = None if near is None else near.groups(parquet.metadata)
        for group in range(parquet.num_row_groups):
            far = groups is not None and group not in groups
            names = [name for name in columns if not (far and name == KEY)]
            rows = parquet.read_row_group(group, names, use_threads=False)
            if DELETED in columns and BATCH in columns:
                written = pc.any(pc.equal(rows.column(BATCH), pa.scalar(batch)))
                if written.as_py():
                    images = parquet.read_row_group(group, [IMAGE], use_threads=False)
                    rows = rows.append_column(IMAGE, images.column(0))
            last = first + rows.num_rows
            mine = gone[(gone >= first) & (gone < last)]
            if len(mine):
                live = np.ones(rows.num_rows, np.bool_)
                live[mine - first] = False
                rows = rows.filter(pa.array(live))
            first = last
            yield rows


def _mismarked(rows: pa.Table) -> int:
    """How many tombstones have a row, and rows have none."""
    import pyarrow.compute as pc

    wrong: Any = pc.equal(rows.column(DELETED), pc.is_valid(rows.column(IMAGE)))
    return pc.sum(wrong).as_py() or 0


def _with_null(keys: Any) -> int:
    """How many keys have a column that is null."""
    import pyarrow.compute as pc

    doubtful = keys.filter(pc.fill_null(pc.match_substring(keys, "null"), False)).to_pylist()
    return sum(None in _image(key).values() for key in doubtful)
