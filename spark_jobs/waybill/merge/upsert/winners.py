"""The newest change of each key, as the tasks that read the log find it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waybill.lake_columns import TABLE_PARTS, dotted_name
from waybill.merge.upsert.kernels import hashes_of, newest_rows
from waybill.records import ROW_OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from waybill.merge.upsert.kernels import Hashes

_FIELDS: list[tuple[str, pa.DataType]] = [
    ("number", pa.int32()),
    ("key", pa.string()),
    ("order", pa.string()),
    ("live", pa.bool_()),
    ("image", pa.string()),
    ("whole", pa.bool_()),
]
WINNERS = pa.schema(_FIELDS)
"""A change that won: the number of its table, its key, its order, and the row that it leaves."""

CHUNK_ROWS, CHUNK_BYTES = 100_000, 64 << 20
"""Changes that are reduced together have so many rows or bytes."""

MOST_BYTES = 256 << 20
"""Winners of so many bytes leave a task; the next changes start over."""


class ReducedTable(NamedTuple):
    """A table whose changes are reduced.

    Attributes:
        number: its number.
        buckets: how many parts its keys are dealt to.
        above: changes up to this order are void.
    """

    number: int
    buckets: int
    above: str


def reduced(rows: pa.Table) -> pa.Table:
    """The newest change of every key, in the columns of `WINNERS`."""
    if not rows.num_rows:
        return rows
    rows = rows.combine_chunks()
    keys, key_ends = texts_in(rows.column("key"))
    orders, order_ends = texts_in(rows.column("order"))
    images, image_ends = texts_in(rows.column("image"))
    found = newest_rows(
        rows.column("number").to_numpy(),
        hashes_of(keys, key_ends),
        *(keys, key_ends, orders, order_ends),
        _flags(rows.column("live")),
        *(images, image_ends),
        _flags(rows.column("whole")),
    )
    # Where no key comes twice, every row is found at its own place: images are copied for nothing.
    return rows if len(found) == rows.num_rows else rows.take(found)


def whole(column: Any) -> Any:
    """A column in one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    # Arrow would copy even one chunk.
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def texts_in(column: Any) -> tuple[Any, Any]:
    """The bytes of texts and where each ends; a null is an empty text."""
    texts = whole(column)
    _, ends, data = texts.buffers()
    places = np.frombuffer(ends, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(data if data is not None else b"", np.uint8), places


def _flags(column: Any) -> Any:
    return column.cast(pa.uint8()).to_numpy()


def winners(
    batches: Iterable[pa.RecordBatch], tables: Mapping[str, ReducedTable]
) -> Iterator[pa.Table]:
    """The newest change of every key that a task reads, mostly in one table.

    Args:
        batches: changes with the columns of `CHANGES_READ`.
        tables: those that are wanted, by qualified name.
    """
    chunk: list[pa.Table] = []
    kept = WINNERS.empty_table()
    for batch in batches:
        rows = _wanted(batch, tables)
        if not rows.num_rows:
            continue
        chunk.append(rows)
        # What is kept is copied each time: some times as much has to come, as far as there is room.
        most_rows = max(CHUNK_ROWS, len(kept))
        most_bytes = max(CHUNK_BYTES, min(3 * kept.nbytes, MOST_BYTES - kept.nbytes))
        if sum(map(len, chunk)) >= most_rows or sum(one.nbytes for one in chunk) >= most_bytes:
            kept, chunk = reduced(pa.concat_tables([kept, *chunk])), []
            if kept.nbytes >= MOST_BYTES:
                yield kept
                kept = WINNERS.empty_table()
    kept = reduced(pa.concat_tables([kept, *chunk]))
    if kept.num_rows:
        yield kept


NAMES = (*TABLE_PARTS, "topic")
CHANGES_READ = (*NAMES, "key", "order_key", "operation", "after")
"""Columns of `changes` that tell who wins."""


def qualified(
    database: str | None, schema: str | None, table: str | None, topic: str | None
) -> str | None:
    """The source table's name, as `waybill.merge.increment.QUALIFIED` has it."""
    return dotted_name((database, schema, table or None)) or topic


BYTES_READ = (*NAMES, "key", "order_key", "after")
BYTES_DDL = "database string, schema string, table string, topic string, bytes long"
"""What `measured` reads and makes."""


def measured(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Bytes of the changes of each table, from changes with the columns of `BYTES_READ`."""
    found: list[pa.Table] = []
    for batch in batches:
        size: Any = pa.repeat(pa.scalar(0, pa.int64()), batch.num_rows)
        for name in BYTES_READ[len(NAMES) :]:
            texts: Any = batch.column(name)
            size = pc.add(size, pc.fill_null(pc.binary_length(texts), 0).cast(pa.int64()))
        columns: list[Any] = [*(batch.column(name) for name in NAMES), size]
        found.append(_summed(pa.Table.from_arrays(columns, [*NAMES, "bytes"])))
    if found:
        yield from _summed(pa.concat_tables(found)).combine_chunks().to_batches()


def _summed(rows: pa.Table) -> pa.Table:
    sums = rows.group_by(list(NAMES), use_threads=False).aggregate([("bytes", "sum")])
    return sums.rename_columns([*NAMES, "bytes"])


def _wanted(batch: pa.RecordBatch, tables: Mapping[str, ReducedTable]) -> pa.Table:
    """The changes of rows of wanted tables, in the columns of `WINNERS`."""
    operation = batch.column("operation")
    row = pc.is_in(operation, value_set=pa.array(sorted(ROW_OPERATIONS)))
    names = pa.Table.from_batches([batch.select(list(NAMES))])
    parts = []
    for group in names.group_by(list(NAMES), use_threads=False).aggregate([]).to_pylist():
        values = tuple(group[name] for name in NAMES)
        wanted = tables.get(qualified(*values) or "")
        if wanted is None:
            continue
        mine: Any = row
        for name, value in zip(NAMES, values, strict=True):
            column = batch.column(name)
            same: Any = pc.is_null(column) if value is None else pc.equal(column, pa.scalar(value))
            mine = pc.and_(mine, pc.fill_null(same, False))
        if wanted.above:
            order: Any = batch.column("order_key")
            mine = pc.and_(mine, pc.greater(order, pa.scalar(wanted.above)))
        every = pc.all(mine, skip_nulls=False).as_py()
        parts.append(_winners_of(batch if every else batch.filter(mine), wanted.number))
    return pa.concat_tables(parts) if parts else WINNERS.empty_table()


def _winners_of(changes: pa.RecordBatch, number: int) -> pa.Table:
    operation: Any = changes.column("operation")
    after = changes.column("after")
    live = pc.not_equal(operation, pa.scalar("delete"))
    image = after
    # Most rows that live have an image, and others have none: nothing has to be copied then.
    if not pc.all(pc.equal(live, pc.is_valid(after)), skip_nulls=False).as_py():
        image = pc.if_else(live, pc.coalesce(after, pa.scalar("{}")), pa.scalar(None, pa.string()))
    whole = pc.is_in(operation, value_set=pa.array(["insert", "read"]))
    columns = [
        pa.repeat(pa.scalar(number, pa.int32()), changes.num_rows),
        changes.column("key"),
        changes.column("order_key"),
        live,
        image,
        whole,
    ]
    return pa.Table.from_arrays(columns, schema=WINNERS)


def buckets_of(rows: pa.Table, buckets: Mapping[int, int]) -> Iterator[tuple[int, int, pa.Table]]:
    """Winners by table and part of its keys.

    Args:
        rows: winners.
        buckets: how many parts each table has, by its number.
    """
    rows = rows.combine_chunks()
    numbers = rows.column("number").to_numpy()
    if list(buckets.values()) == [1]:
        yield int(numbers[0]), 0, rows
        return
    hashes: Hashes = hashes_of(*texts_in(rows.column("key")))
    most = np.zeros(max(buckets) + 1, np.uint64)
    for number, count in buckets.items():
        most[number] = count
    part = ((hashes >> np.uint64(40)) % most[numbers]).astype(np.int64)
    turn = np.lexsort((part, numbers))
    ordered = rows.take(turn)
    numbers, part = numbers[turn], part[turn]
    begins = np.flatnonzero(np.diff(numbers, prepend=-1) | np.diff(part, prepend=-1))
    for begin, end in zip(begins, [*begins[1:], len(part)], strict=True):
        yield int(numbers[begin]), int(part[begin]), ordered.slice(int(begin), int(end - begin))
