"""Which keys of a table differ between the database and the lake, found in Spark's tasks.

Each side becomes rows of a key and 128 bits; a row that both sides have is gone after one shuffle.
What stays is not a verdict: rows change while they are read (see `waybill.verify.deciding`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F

from waybill.errors import LakeError
from waybill.lake.storage_errors import plainly
from waybill.merge.columns import DELETED, IMAGE, KEY, ORDER
from waybill.merge.short_images import with_full_images
from waybill.spark_tasks.counters import Tally
from waybill.spark_tasks.errors import unwrapped
from waybill.spark_tasks.worker_startup import light
from waybill.verify.databases import database_of
from waybill.verify.pace import Pace
from waybill.verify.plan import NO_TABLE, CanonicalRows, Compared, digest, image_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from waybill.connections import Connection
    from waybill.lake import Lake
    from waybill.spec.migration import Migration
    from waybill.verify.database import TablePiece
    from waybill.verify.plan import Canonical

SIDES = "key string, digest binary, of_database int, of_lake int"
ROWS_PER_BATCH = 10_000
PIECES_PER_CONNECTION = 8
"""A task reads some pieces one after the other, so that none of its queries runs for hours."""


class DatabaseReading(NamedTuple):
    """How the database is read.

    Attributes:
        connection: where to and as whom.
        connections: how many sessions at once.
        rows_per_second: of all of them together.
        shared: the view that all sessions see; None where each takes its own.
    """

    connection: Connection
    connections: int
    rows_per_second: int
    shared: str | None


class ComparisonResult(NamedTuple):
    """What a comparison found.

    Attributes:
        in_database: rows that were read there.
        in_lake: rows of the lake.
        differing: how many keys differ.
        keys: the first of them.
    """

    in_database: int
    in_lake: int
    differing: int
    keys: list[str]


class LakeRow(NamedTuple):
    """A row of the lake, or its tombstone.

    Attributes:
        order: of its newest change.
        row: its values; None of a tombstone.
        times: how many rows are like this; more than one only in tables without a key.
        key: its key image as the lake has it; None in tables without a key.
    """

    order: str
    row: Canonical | None
    times: int = 1
    key: str | None = None


def differing_keys(
    lake: Lake,
    table: Compared,
    snapshot: int | None,
    pieces: Sequence[TablePiece],
    reading: DatabaseReading,
    only: frozenset[str] | None,
    limit: int,
) -> ComparisonResult:
    """Compare a table, or some keys of it.

    Args:
        lake: the lake.
        table: the table.
        snapshot: the state of the merged table; None where it has none.
        pieces: of the source table.
        reading: how they are read.
        only: these keys; all of them where it is None.
        limit: the most keys to return.
    """
    tally = Tally(lake.spark.sparkContext)
    sides = _of_database(lake, table, pieces, reading, tally)
    if snapshot is not None:
        sides = sides.unionByName(_of_lake(lake, table, snapshot, only, tally))
    grouped = sides.groupBy("key", "digest").agg({"of_database": "sum", "of_lake": "sum"})
    keys = grouped.where("`sum(of_database)` <> `sum(of_lake)`").select("key").distinct().persist()
    try:
        with unwrapped():
            count = keys.count()
            found = [row[0] for row in keys.limit(limit).collect()]
    finally:
        keys.unpersist()
    totals = tally.totals
    return ComparisonResult(totals["database"], totals["lake"], count, sorted(found))


def _of_database(
    lake: Lake,
    table: Compared,
    pieces: Sequence[TablePiece],
    reading: DatabaseReading,
    tally: Tally,
) -> DataFrame:
    tasks = max(1, min(reading.connections, len(pieces)))
    dealt = [list(pieces[i::tasks]) for i in range(tasks)]
    rows_per_second = reading.rows_per_second / tasks

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        texts = CanonicalRows(table)
        numbers: list[Any] = [n for batch in batches for n in batch.column(0).to_pylist()]
        count, pace = 0, Pace(rows_per_second)
        rows: list[tuple[str, bytes]] = []
        with database_of(reading.connection) as session:
            for piece in (piece for number in numbers for piece in dealt[number]):
                session.begin(reading.shared)
                for row in session.rows(table.read, piece):
                    pace.row()
                    values = texts.of_database(row)
                    if values is None:
                        continue
                    rows.append((texts.key(values), digest(values)))
                    if len(rows) == ROWS_PER_BATCH:
                        count += len(rows)
                        yield _batch(rows, 1, 0)
                        rows = []
        yield _batch(rows, 1, 0)
        tally.add_of_task(database=count + len(rows))

    return lake.spark.range(0, tasks, 1, tasks).mapInArrow(light(read), SIDES)


def _of_lake(
    lake: Lake, table: Compared, snapshot: int, only: frozenset[str] | None, tally: Tally
) -> DataFrame:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        texts = CanonicalRows(table)
        count = 0
        for batch in batches:
            rows = []
            for key, image in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if only is not None and texts.key_of_image(image_of(key)) not in only:
                    # Of most rows of a large table nothing else has to be made.
                    continue
                values = texts.of_image(image_of(image))
                rows.append((texts.key(values), digest(values)))
            count += len(rows)
            yield _batch(rows, 0, 1)
        tally.add_of_task(lake=count)

    live = merged_rows(lake, table, snapshot).where(f"NOT {DELETED}")
    return live.select(KEY, IMAGE).mapInArrow(light(read), SIDES)


def _batch(rows: Sequence[tuple[str, bytes]], of_database: int, of_lake: int) -> pa.RecordBatch:
    import pyarrow as pa

    columns: list[Any] = [
        pa.array([key for key, _ in rows], pa.string()),
        pa.array([value for _, value in rows], pa.binary()),
        pa.array([of_database] * len(rows), pa.int32()),
        pa.array([of_lake] * len(rows), pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(columns, ["key", "digest", "of_database", "of_lake"])


def merged_rows(lake: Lake, table: Compared, snapshot: int | None) -> DataFrame:
    """The rows of a merged table that are of the compared table, and not of others.

    Tombstones tell it by their keys alone.
    """
    rows = with_full_images(lake, table.lake, lake.read(table.lake, snapshot))
    if table.shard is None:
        return rows
    column, value = table.shard
    path = f"$['{column}']"
    own = F.coalesce(F.get_json_object(IMAGE, path), F.get_json_object(KEY, path))
    return rows.where(own.isNull() | (own == value))


def with_unlisted(lake: Lake, spec: Migration, tables: Sequence[Compared]) -> list[Compared]:
    """Tables to compare, and those of which the lake has rows and the database has no table.

    Only of tables that become one: of others no table at all is found. One whose rows cannot be
    read is among them, with the reason.
    """
    found = list(tables)
    joined = {table.lake: table for table in tables if table.shard is not None}
    for full, table in joined.items():
        assert table.shard is not None, "only those are looked into"
        column = table.shard[0]
        listed = {one.shard[1] for one in tables if one.lake == full and one.shard is not None}
        own = F.get_json_object(IMAGE, f"$['{column}']")
        live = with_full_images(lake, full, lake.read(full, lake.head(full)))
        live = live.where(f"NOT {DELETED}")
        try:
            with plainly(spec):
                values = {row[0] for row in live.select(own).distinct().collect()}
        except LakeError as error:
            facts = (table.name, full, None, (), table.keyed, (), ())
            found.append(Compared(*facts, why_not=str(error)))
            continue
        found += [
            Compared(
                *(table.name, full, None, (), table.keyed, (), ()),
                shard=(column, value),
                why_not=NO_TABLE,
            )
            for value in sorted(values - {None} - listed)
        ]
    return found


def lake_rows(
    lake: Lake, table: Compared, snapshot: int | None, keys: frozenset[str]
) -> dict[str, LakeRow]:
    """Some rows of the lake with their tombstones, by their keys."""
    if snapshot is None or not keys:
        return {}

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        texts = CanonicalRows(table)
        for batch in batches:
            row_keys = [
                _lake_key(table, texts, *parts) for parts in zip(*_key_parts(batch), strict=True)
            ]
            chosen = pa.array([key in keys for key in row_keys], pa.bool_())
            wanted = batch.append_column("key", pa.array(row_keys, pa.string())).filter(chosen)
            yield wanted.select(["key", KEY, ORDER, DELETED, IMAGE])

    schema = f"key string, {KEY} string, {ORDER} string, {DELETED} boolean, {IMAGE} string"
    columns = [KEY, ORDER, DELETED, IMAGE]
    with unwrapped():
        rows = merged_rows(lake, table, snapshot)
        rows = rows.select(*columns).mapInArrow(light(read), schema)
        collected = rows.collect()
    texts = CanonicalRows(table)
    found: dict[str, LakeRow] = {}
    for key, own, order, deleted, image in collected:
        row = None if deleted else texts.of_image(image_of(image))
        before = found.get(key)
        if before is not None and row is not None:
            found[key] = LakeRow(max(order, before.order), row, before.times + 1)
        elif before is None:
            found[key] = LakeRow(order, row, key=own if table.keyed else None)
    return found


def _key_parts(batch: pa.RecordBatch) -> tuple[list[Any], list[Any]]:
    """The keys and the images of rows of the lake."""
    return batch.column(0).to_pylist(), batch.column(3).to_pylist()


def _lake_key(
    table: Compared, texts: CanonicalRows, key: str | None, image: str | None
) -> str | None:
    """What `CanonicalRows.key` writes of a lake row or its tombstone; None of an owed delete."""
    if table.keyed:
        return None if key is None else texts.key_of_image(image_of(key))
    return None if image is None else texts.key(texts.of_image(image_of(image)))
