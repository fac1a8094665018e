"""Rows of a table in their order, read by one task from data files that are mostly in order.

Every task writes what it makes in the order of what it read, so row groups seldom overlap. Those
that do not need no sorting, only to be read one after another; those that do are sorted together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.lake.sizing import FOOTERS_AT_ONCE, rows_per_batch
from waybill.lake.task_rows import conformed, opened

if TYPE_CHECKING:
    import pyarrow as pa

    from waybill.lake.task_rows import DataFile

SORTED_AT_ONCE = 256 << 20
"""Bytes of overlapping row groups that one task sorts in its memory."""


class RowGroup(NamedTuple):
    """One row group of a data file.

    Attributes:
        low: no row of it comes before this, in the columns that it was asked for.
        high: no row of it comes after this.
        path: the file, as tasks open it.
        number: its number in the file.
        rows: how many rows it has.
        bytes: of its rows.
        nulls: how many rows have no value, by column.
    """

    low: tuple[Any, ...]
    high: tuple[Any, ...]
    path: str
    number: int
    rows: int
    bytes: int
    nulls: dict[str, int]


def row_groups(
    files: Sequence[DataFile], bounds: Sequence[str], counted: Sequence[str]
) -> list[RowGroup] | None:
    """The row groups of data files, from the footers alone.

    Args:
        files: the files.
        bounds: columns of the order, from the first on.
        counted: columns whose nulls are counted.

    Returns:
        None where a footer does not tell.
    """
    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        found = list(pool.map(lambda file: _groups_of(file.path, bounds, counted), files))
    if any(None in groups for groups in found):
        return None
    return [group for groups in found for group in groups if group is not None]


def _groups_of(path: str, bounds: Sequence[str], counted: Sequence[str]) -> list[RowGroup | None]:
    with opened(path) as file:
        footer = file.metadata
        return [_group(path, footer, i, bounds, counted) for i in range(footer.num_row_groups)]


def _group(
    path: str, footer: Any, number: int, bounds: Sequence[str], counted: Sequence[str]
) -> RowGroup | None:
    group = footer.row_group(number)
    columns = [group.column(i) for i in range(group.num_columns)]
    statistics = {column.path_in_schema: column.statistics for column in columns}
    known: list[Any] = [statistics.get(name) for name in (*bounds, *counted)]
    if any(found is None or not found.has_null_count for found in known):
        return None
    ends = known[: len(bounds)]
    if any(found.null_count or not found.has_min_max for found in ends):
        return None
    low, high = tuple(found.min for found in ends), tuple(found.max for found in ends)
    nulls = {name: int(statistics[name].null_count) for name in counted}
    return RowGroup(low, high, path, number, group.num_rows, group.total_byte_size, nulls)


def clusters(groups: Iterable[RowGroup], most: int = SORTED_AT_ONCE) -> list[list[RowGroup]] | None:
    """Row groups that may overlap, together; no row of one cluster comes before the cluster before.

    Args:
        groups: the row groups.
        most: bytes of a cluster of more than one.

    Returns:
        None where a cluster has more.
    """
    found: list[list[RowGroup]] = []
    high: tuple[Any, ...] = ()
    for group in sorted(groups, key=lambda group: (group.low, group.path, group.number)):
        # Rows that differ in what comes after the bounds only may be in both.
        if found and group.low <= high:
            found[-1].append(group)
            high = max(high, group.high)
        else:
            found.append([group])
            high = group.high
    for cluster in found:
        if len(cluster) > 1 and sum(group.bytes for group in cluster) > most:
            return None
    return found


def read_in_order(
    found: Iterable[list[RowGroup]], schema: pa.Schema, order: Sequence[str]
) -> Iterator[tuple[list[RowGroup], pa.RecordBatch]]:
    """The rows of clusters in their order, with the cluster that they are from.

    Args:
        found: the clusters.
        schema: the columns to read, those of the order among them.
        order: the columns that rows are in the order of.
    """
    import pyarrow as pa

    with ExitStack() as stack:
        path, file = "", None
        for cluster in found:
            batches = []
            for group in cluster:
                if group.path != path:
                    stack.close()
                    path, file = group.path, stack.enter_context(opened(group.path))
                assert file is not None
                names = [name for name in schema.names if name in file.schema_arrow.names]
                part = file.read_row_group(group.number, names, use_threads=False)
                batches += [conformed(batch, schema) for batch in part.to_batches()]
            table = pa.Table.from_batches(batches, schema)
            if not in_order(table, order):
                table = table.sort_by([(name, "ascending") for name in order])
            size = sum(group.bytes for group in cluster) // max(1, table.num_rows)
            for batch in table.to_batches(rows_per_batch(size)):
                yield cluster, batch


def in_order(table: pa.Table, order: Sequence[str]) -> bool:
    """Whether no row comes before the one above it."""
    import pyarrow.compute as pc

    before, after = table.slice(0, max(0, table.num_rows - 1)), table.slice(1)
    tied: Any = True
    for name in order:
        one, other = before.column(name), after.column(name)
        if pc.any(pc.and_(tied, pc.greater(one, other))).as_py():
            return False
        tied = pc.and_(tied, pc.equal(one, other))
    return True


def behind(rows: pa.Table | pa.RecordBatch, columns: Sequence[str], place: tuple[Any, ...]) -> Any:
    """Which rows come after a place.

    Args:
        rows: the rows.
        columns: columns of the order, from the first on; without nulls.
        place: a value for each of them.
    """
    import pyarrow.compute as pc

    found: Any = False
    for name, value in reversed(list(zip(columns, place, strict=True))):
        column = rows.column(name)
        found = pc.or_(pc.greater(column, value), pc.and_(pc.equal(column, value), found))
    return found
