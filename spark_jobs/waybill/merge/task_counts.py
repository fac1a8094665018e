"""The increment in numbers, counted by the tasks that read the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from waybill.lake.source_times import calendar_column
from waybill.lake_columns import CHANGES, TABLE_PARTS, columns_of, dotted_name
from waybill.order import CHANGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import Row

_NAMES = (*TABLE_PARTS, "operation", "topic", "partition")
SURVEYED = columns_of(CHANGES, *_NAMES, "schema_id", "key", "old_key", "order_key", "source_time")
"""The columns of `changes` that are counted."""

SURVEY_DDL = (
    "database string, schema string, table string, operation string, topic string, partition int, "
    "unordered boolean, n long, k long, m long, order string, lowest string, highest string, "
    "time timestamp, schema_ids array<string>"
)
"""Accepted changes that have these names, as one task counts them: how many, how many with a key
and with an old key, the highest and lowest order, the newest source time, and their schemas."""

_CHUNK_ROWS = 500_000


def surveyed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """From changes with the columns of `SURVEYED` to rows of `SURVEY_DDL`, inside a task."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(map(len, held)) >= _CHUNK_ROWS:
            yield from _counted(held)
            held = []
    if held:
        yield from _counted(held)


def named(counted: Iterable[pa.RecordBatch]) -> list[Row]:
    """Rows of `SURVEY_DDL` with the source table's name and the time in microseconds.

    `waybill.merge.increment.QUALIFIED` is the same rule in SQL.
    """
    from pyspark.sql import Row

    found = []
    for batch in counted:
        time: Any = batch.column("time")
        micros = time.cast(pa.int64()).to_pylist()
        # The time itself may be none of Python's.
        for row, at in zip(batch.drop_columns(["time"]).to_pylist(), micros, strict=True):
            parts = (row["database"], row["schema"], row["table"] or None)
            name = dotted_name(parts)
            found.append(Row(qualified=name or row["topic"], **row, micros=at))
    return found


def _counted(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    rows = pa.Table.from_batches(batches)
    times = calendar_column(rows.column("source_time"))
    rows = rows.set_column(rows.schema.get_field_index("source_time"), "source_time", times)
    unordered = pc.starts_with(rows.column("order_key"), f"{CHANGE}//")
    rows = rows.append_column("unordered", unordered)
    groups = rows.group_by([*_NAMES, "unordered"], use_threads=False)
    found = groups.aggregate(
        [
            ([], "count_all"),
            ("key", "count"),
            ("old_key", "count"),
            ("order_key", "max"),
            ("order_key", "min"),
            ("source_time", "max"),
            ("schema_id", "distinct"),
        ]
    )
    columns = [
        *(*_NAMES, "unordered", "count_all", "key_count", "old_key_count", "order_key_max"),
        *("order_key_min", "order_key_max", "source_time_max", "schema_id_distinct"),
    ]
    names = [name.split()[0] for name in SURVEY_DDL.split(", ")]
    arrays = [found.column(name) for name in columns]
    return pa.Table.from_arrays(arrays, names).combine_chunks().to_batches()
