"""What small merged tables look like, counted by tasks that read their data files themselves.

A query over many tables takes longer to plan than their rows take to read.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

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


class SmallTable(NamedTuple):
    """A table that one task looks at.

    Attributes:
        files: its data files.
        rows: how many rows it has.
    """

    files: tuple[StoredFile, ...]
    rows: int


def counted_in_tasks(
    spark: SparkSession, tables: Sequence[SmallTable], batch: str
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
    sizes = [table.rows + 1 for table in tables]
    if sum(sizes) <= MOST_ROWS:
        return [look(table.files, batch) for table in tables]
    tasks = dealt(
        list(range(len(tables))), sizes, max(1, min(2 * cores, sum(sizes) // _ROWS_A_TASK))
    )
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    with unwrapped():
        rows = numbers.mapInArrow(light(_work(tasks, tables, batch)), _DDL).collect()
    found = {row.number: Counter({name: row[name] for name in COUNTS}) for row in rows}
    return [found[number] for number in range(len(tables))]


def _work(tasks: list[list[int]], tables: Sequence[SmallTable], batch: str) -> Make:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for given in batches:
            texts: list[Any] = given.column(0).to_pylist()
            for number in (number for task in texts for number in tasks[task]):
                counts = look(tables[number].files, batch)
                yield pa.RecordBatch.from_pylist(
                    [{"number": number, **{name: counts[name] for name in COUNTS}}],
                    pa.schema([("number", pa.int32()), *((name, pa.int64()) for name in COUNTS)]),
                )

    return work


def look(files: Iterable[StoredFile], batch: str) -> Counter[str]:
    """`COUNTS` of a table with these data files."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    counts: Counter[str] = Counter()
    keys = []
    for file in files:
        with opened(file.opened) as parquet:
            columns: list[str] = [KEY, DELETED, BATCH]
            rows = parquet.read(columns, use_threads=False)
            # Images are most of a file, and those of earlier batches were looked at then.
            if pc.any(pc.equal(rows.column(BATCH), pa.scalar(batch))).as_py():
                images = parquet.read([IMAGE], use_threads=False)
                rows = rows.append_column(IMAGE, images.column(0))
        gone = file.deleted()
        if len(gone):
            lives = np.ones(rows.num_rows, np.bool_)
            lives[gone] = False
            rows = rows.filter(pa.array(lives))
        key, deleted = rows.column(KEY), rows.column(DELETED)
        written = rows.filter(pc.equal(rows.column(BATCH), pa.scalar(batch)))
        counts["all"] += rows.num_rows
        counts["tombstones"] += pc.sum(deleted).as_py() or 0
        counts["shown"] += deleted.null_count
        if IMAGE in rows.column_names:
            counts["shown"] += _mismarked(written)
        counts["written"] += written.num_rows
        counts["keyed"] += len(key) - key.null_count
        counts["nulls"] += key.null_count + _with_null(written.column(KEY))
        keys.append(key)
    every = pa.chunked_array([chunk for key in keys for chunk in key.chunks], pa.string())
    counts["distinct"] = pc.count_distinct(every).as_py()
    return counts


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
