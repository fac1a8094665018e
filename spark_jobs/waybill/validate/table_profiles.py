"""The profile `tables`: what merged tables look like as they are staged.

What it costs is decided by what the batch wrote. Keys are looked for in the table, but of a large
one nothing else than its keys and its tombstones is read, and no row of it is shuffled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F

from waybill.errors import Code, ConflictError
from waybill.lake.branches import TABLES_ASKED
from waybill.lake.decisions import MERGE
from waybill.lake.future_columns import as_shown
from waybill.validate.data_file_counts import (
    BATCH,
    COUNTS,
    DELETED,
    IMAGE,
    KEY,
    CountedTable,
    counted_in_tasks,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from waybill.lake import Branch, Lake
    from waybill.lake.stored_files import StoredFile

LITTLE = 200_000
"""The keys of a table of so few rows are counted, all of them; that costs less than a search."""

LOOKED_UP = 200_000
"""So many keys are brought to the rows of a table; more are counted with all others."""

MOST_FILES = 2_000
"""A table of so many data files and files of deletes is looked at by tasks, which open one after
the other: each takes almost a millisecond of the processor, and a few trips to an object store.
Where there are more, Spark lists them and deals them out to all of its cores."""

TABLES_AT_ONCE = 100
"""How many tables one query looks at."""

_FILES = ("total-data-files", "total-delete-files")
"""What the summary of a snapshot calls its numbers of files."""

_COUNTS = tuple(name for name in COUNTS if name != "distinct")
"""What a query adds up; how many keys differ is not a sum."""


class Staged(NamedTuple):
    """A merged table as it is staged.

    Attributes:
        name: the source table's name.
        query: gives its rows, for queries.
        branch: what is to be shown, None where a run that was killed has shown it already.
        size: how many rows and tombstones it has.
        written: how many rows the batch has put into its data files, None where nobody can tell.
        files: its data files, None where tasks cannot read them, need not, or would be too long.
        base: files of the batch have a higher sequence number; 0 where that is not known.
    """

    name: str
    query: Callable[[], DataFrame]
    branch: Branch | None
    size: int = 0
    written: int | None = None
    files: tuple[StoredFile, ...] | None = None
    base: int = 0

    @property
    def rows(self) -> DataFrame:
        """Its rows, for queries; that takes a while, and few ask for it."""
        return self.query()

    @property
    def searched(self) -> bool:
        """Whether the keys that the batch wrote are looked for, and others are not counted."""
        return _searched(self.size, self.written)

    @property
    def counted(self) -> CountedTable:
        """The table for tasks that read its files."""
        files = self.files or ()
        new = tuple(file for file in files if file.sequence > self.base)
        return CountedTable(files, self.size, new if self.searched else None)


def _searched(size: int, written: int | None) -> bool:
    few = written is not None and written <= min(LOOKED_UP, size // 4)
    return few and size > LITTLE


def staged_tables(lake: Lake, branches: Mapping[str, str], batch: str) -> list[Staged]:
    """Every table that the batch changed, as it is staged, with the branch that is to be shown.

    Raises:
        ConflictError: a branch is gone, and its table does not show the batch.
    """

    def staged(table: str, name: str) -> Staged:
        metadata = lake.metadata(table)
        if name not in metadata.refs:
            if lake.find(table, MERGE, batch) is None:
                message = (
                    f"the branch {name} of {table} is gone, on which batch {batch} was merged, so "
                    "nothing of the batch was made visible: run the batch again from merge on"
                )
                raise ConflictError(message, code=Code.TABLE_CHANGED)
            shown = partial(lake.read, table, lake.head(table))
            return Staged(lake.source_of(table), cache(shown), None)
        branch = lake.reopen(table, name, metadata)
        totals = metadata.snapshots[branch.head].summary
        size = int(totals.get("total-records", 0))
        written, base = None, 0
        if branch.base is not None:
            known = metadata.snapshots.get(branch.base)
            base = 0 if known is None else known.sequence
            before = {snapshot.id for snapshot in metadata.ancestors(branch.base)}
            written = sum(
                int(snapshot.summary.get("added-records", 0))
                for snapshot in metadata.ancestors(branch.head)
                if snapshot.id not in before
            )
        in_tasks = size <= LITTLE or _searched(size, written)
        in_tasks &= sum(int(totals.get(name, 0)) for name in _FILES) <= MOST_FILES
        files = lake.stored_files(table, branch.head) if in_tasks else None
        return Staged(
            *(lake.source_of(table), cache(partial(_shown, branch)), branch, size, written),
            None if files is None else tuple(files),
            base,
        )

    with ThreadPoolExecutor(TABLES_ASKED) as pool:
        return list(pool.map(lambda one: staged(*one), sorted(branches.items())))


def _shown(branch: Branch) -> DataFrame:
    return as_shown(branch.read(), branch.becomes)


def table_profiles(
    spark: SparkSession, tables: Sequence[Staged], batch: str
) -> list[dict[str, Any]]:
    """The rows of merged tables.

    Args:
        spark: the session.
        tables: the tables.
        batch: whose rows are looked at closely; older ones were, when they were new.
    """
    found = _in_tasks(spark, [table for table in tables if table.files is not None], batch)
    others = [table._replace(files=None) for table in tables if table.name not in found]
    for first in range(0, len(others), TABLES_AT_ONCE):
        some = others[first : first + TABLES_AT_ONCE]
        for table, counts in zip(some, _counted(some, batch), strict=True):
            looked_at = table
            if _unclear(table, counts):
                looked_at = table._replace(written=None)
                (counts,) = _counted([looked_at], batch)
            found[table.name] = _figures(looked_at, batch, counts)
    return [found[table.name] for table in tables]


def _unclear(table: Staged, counts: Mapping[str, int]) -> bool:
    """Whether the batch has written rows that do not say so: nothing tells which keys they have."""
    return table.searched and counts["written"] != table.written


def _in_tasks(
    spark: SparkSession, tables: Sequence[Staged], batch: str
) -> dict[str, dict[str, Any]]:
    """The rows of tables by their names; those that a query has to look at are missing."""
    counted = counted_in_tasks(spark, [table.counted for table in tables], batch)
    return {
        table.name: _figures(table, batch, counts)
        for table, counts in zip(tables, counted, strict=True)
        if not _unclear(table, counts)
    }


def _figures(table: Staged, batch: str, counts: Mapping[str, int]) -> dict[str, Any]:
    duplicates = counts["keyed"] - counts["distinct"]
    if duplicates and table.files is None:
        # Two keys may have one hash.
        keys = _written(table, batch) if table.searched else table.rows
        distinct = keys.select(KEY).where(F.col(KEY).isNotNull()).distinct().count()
        duplicates = counts["keyed"] - distinct
    return table_figures(
        table.name,
        counts["all"] - counts["tombstones"],
        counts["tombstones"],
        counts["written"],
        duplicates,
        counts["nulls"],
        counts["shown"],
    )


def _counted(tables: Sequence[Staged], batch: str) -> list[Counter[str]]:
    """`_COUNTS` of tables, and how many keys of theirs differ."""
    parts = [part for i, table in enumerate(tables) for part in _parts(i, table, batch)]
    if not parts:
        return []
    sums = [F.sum(name).alias(name) for name in _COUNTS]
    grouped = reduce(lambda one, other: one.unionAll(other), parts).groupBy("number")
    found = grouped.agg(*sums, F.count_distinct("hash").alias("distinct")).collect()
    counts = {row.number: Counter(row.asDict()) for row in found}
    return [counts.get(i, Counter()) for i in range(len(tables))]


def _parts(number: int, table: Staged, batch: str) -> list[DataFrame]:
    """Rows of numbers, one for each row that is counted, with the hash of its key."""
    key, deleted = F.col(KEY), F.col(DELETED)
    hashed = F.when(key.isNotNull(), F.xxhash64(key))

    def part(rows: DataFrame, hashes: Column | None, **counts: Column | bool) -> DataFrame:
        counted_columns = [
            F.lit(counts.get(name, False)).cast("int").alias(name) for name in _COUNTS
        ]
        shown = F.lit(None).cast("bigint") if hashes is None else hashes
        return rows.select(F.lit(number).alias("number"), *counted_columns, shown.alias("hash"))

    every: dict[str, Column | bool] = {
        "all": True,
        "tombstones": F.coalesce(deleted, F.lit(False)),
        "shown": deleted.isNull(),
    }
    written, rows = _written(table, batch), table.rows
    own: dict[str, Column | bool] = {"written": True, "shown": _mismarked()}
    if not table.searched:
        return [
            part(rows, hashed, **every, keyed=key.isNotNull(), nulls=key.isNull()),
            part(written, None, nulls=_with_null(), **own),
        ]
    there = rows.select(KEY).join(F.broadcast(written.select(KEY)), KEY, "left_semi")
    return [
        part(rows, None, **every),
        part(written, hashed, nulls=key.isNull() | _with_null(), **own),
        part(there, None, keyed=True),
    ]


def _written(table: Staged, batch: str) -> DataFrame:
    return table.rows.where(F.col(BATCH) == batch)


def table_figures(
    table: str,
    rows: int,
    tombstones: int,
    written: int,
    duplicate_keys: int = 0,
    null_keys: int = 0,
    tombstones_as_rows: int = 0,
) -> dict[str, Any]:
    """A row of the profile `tables`; expectations/README.md says what its columns mean."""
    return {
        "table": table,
        "rows": rows,
        "tombstones": tombstones,
        "written": written,
        "duplicate_keys": duplicate_keys,
        "null_keys": null_keys,
        "tombstones_as_rows": tombstones_as_rows,
    }


def _with_null() -> Column:
    """Whether a column of the key is null."""
    values = F.map_values(F.from_json(KEY, "map<string,string>"))
    null = F.col(KEY).contains("null") & F.exists(values, lambda value: value.isNull())
    return F.coalesce(null, F.lit(False))


def _mismarked() -> Column:
    """Whether a tombstone has a row, or a row has none."""
    wrong = F.col(DELETED) == F.col(IMAGE).isNotNull()
    return F.coalesce(wrong, F.lit(False))


def example_of_table(rows: DataFrame, column: str, batch: str) -> str | None:
    """A key that a figure of a table's row counts."""
    key = F.col(KEY)
    known = rows.where(key.isNotNull())
    written = known.where(F.col(BATCH) == batch)
    if column == "duplicate_keys":
        found = known.groupBy(KEY).count().where("count > 1")
    elif column == "null_keys":
        found = written.where(_with_null())
    elif column == "tombstones_as_rows":
        found = known.where(F.col(DELETED).isNull()).unionByName(written.where(_mismarked()))
    else:
        return None
    row = found.select(KEY).first()
    return None if row is None else str(row[0])
