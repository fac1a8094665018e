"""Rows of many Parquet files, of which a lake of small batches has thousands."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from itertools import repeat
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    from waybill.lake.file_memory import FileMemory
    from waybill.lake.history import Chosen
    from waybill.lake.planned_files import Planned, Where

SMALL = 4 << 20
"""Bytes of a file that is read at once, and beside others."""

AT_ONCE = 64
THREADS = 4
ROWS = 10_000
"""How many rows become Python objects at once."""

FEW = 10_000
"""Rows that are looked through in Python."""

COLUMN_BYTES = 1000
"""What a remembered column takes beside its values, about."""

_DAY = date(1970, 1, 1)
_CLOCK = datetime(1970, 1, 1)  # noqa: DTZ001 - a time of a column that has no zone
_INSTANT = _CLOCK.replace(tzinfo=UTC)
_FIRST_DAY, _LAST_DAY = (date.min - _DAY).days, (date.max - _DAY).days
_MICROS_A_DAY = 24 * 3600 * 1_000_000

Row = dict[str, Any]


def rows_of_files(
    files: Sequence[Planned],
    opened: Callable[[str], Any],
    columns: Sequence[str],
    chosen: Chosen | None = None,
    memory: FileMemory | None = None,
) -> Iterator[Row]:
    """Rows of files in no order; columns that a file does not have are None.

    Args:
        files: them, with what is asked of their rows.
        opened: opens a file, or says where it is on this machine.
        columns: those that are wanted.
        chosen: which rows; of a file that has none of them no other columns are read.
        memory: what small files have said before.
    """

    def rows_of(file: Planned) -> Iterator[Row]:
        return _rows(opened, file, columns, chosen, memory)

    small = [file for file in files if file.size <= SMALL]
    if len(small) > 1:
        with ThreadPoolExecutor(THREADS) as pool:
            for start in range(0, len(small), AT_ONCE):
                several = small[start : start + AT_ONCE]
                for rows in pool.map(lambda file: list(rows_of(file)), several):
                    yield from rows
    else:
        for file in small:
            yield from rows_of(file)
    for file in files:
        if file.size > SMALL:
            yield from rows_of(file)


def _rows(
    opened: Callable[[str], Any],
    planned: Planned,
    columns: Sequence[str],
    chosen: Chosen | None,
    memory: FileMemory | None,
) -> Iterator[Row]:
    with _File(opened, planned, memory) as file:
        asking = _Asking(file, planned, columns, chosen)
        if planned.where.keys() - file.there:
            return
        lacking = {name: None for name in columns if name not in file.there}
        for group in file.groups(planned.where):
            few = file.sizes[group] <= FEW
            for row in asking.of_few(group) if few else asking.of_many(group):
                yield {**row, **lacking} if lacking else row


class _File:
    """A data file, which is opened when something is asked that is not remembered of it.

    Attributes:
        there: its columns.
        sizes: how many rows each of its row groups has.
    """

    def __init__(
        self, opened: Callable[[str], Any], planned: Planned, memory: FileMemory | None
    ) -> None:
        self._open, self._path = opened, planned.path
        self._memory = memory if planned.size <= SMALL else None
        self._file: ParquetFile | None = None
        known = None if self._memory is None else self._memory.get((self._path,))
        if known is None:
            known = self._said()
        self.there: frozenset[str] = known[0]
        self.sizes: list[int] = known[1]

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def groups(self, where: Where) -> list[int]:
        """The row groups that can hold such rows."""
        return _groups(self._opened(), where) if len(self.sizes) > 1 else [*range(len(self.sizes))]

    def read(self, group: int, names: Sequence[str]) -> pa.Table:
        """Columns of a row group."""
        few = self._memory is not None and self.sizes[group] <= FEW
        key = (self._path, group, *names)
        found: pa.Table | None = self._memory.get(key) if few and self._memory else None
        if found is None:
            found = self._opened().read_row_group(group, columns=[*names], use_threads=False)
            if few and self._memory:
                self._memory.keep(key, found, found.nbytes + COLUMN_BYTES * len(names))
        return found

    def _said(self) -> tuple[frozenset[str], list[int]]:
        file = self._opened()
        groups = range(file.metadata.num_row_groups)
        there = frozenset(file.schema_arrow.names)
        sizes = [file.metadata.row_group(i).num_rows for i in groups]
        if self._memory is not None:
            self._memory.keep((self._path,), (there, sizes), COLUMN_BYTES)
        return there, sizes

    def _opened(self) -> ParquetFile:
        if self._file is None:
            # Not every look into the lake reads rows, and this takes long to import.
            from pyarrow.parquet import ParquetFile

            source = self._open(self._path)
            self._file = ParquetFile(source, memory_map=isinstance(source, str))
        return self._file


class _Asking:
    """One file, and what is asked of its rows."""

    def __init__(
        self, file: _File, planned: Planned, columns: Sequence[str], chosen: Chosen | None
    ) -> None:
        self.file, self.where, self.chosen = file, planned.where, chosen
        self.gone = sorted(planned.gone)
        self.there = file.there
        self.wanted = [name for name in columns if name in self.there]

    def of_few(self, group: int) -> Iterable[Row]:
        """The rows of a small group, chosen in Python: Arrow's functions take long to import."""
        if not self.where and self.chosen is None:
            return objects(self._read(group, self.wanted))
        sets = [(column, frozenset(values)) for column, values in self.where.items()]
        asked = [*self.where, *(self.chosen.columns if self.chosen else ())]
        places = [
            at
            for at, row in enumerate(self._filled(self._read(group, asked), asked))
            if all(row[column] in values for column, values in sets)
            and (self.chosen is None or self.chosen.accepts(row))
        ]
        if not places:
            return []
        rows = list(objects(self._read(group, self.wanted)))
        return [rows[at] for at in places]

    def of_many(self, group: int) -> Iterable[Row]:
        """The rows of a large group; only those that are wanted become Python objects."""
        asked = self.chosen.columns if self.chosen else ()
        table = self._read(group, [*self.wanted, *self.where, *asked])
        if self.where:
            table = _filtered(table, self.where)
        if self.chosen is not None:
            import pyarrow as pa

            accepts = self.chosen.accepts
            rows = self._filled(table, self.chosen.columns)
            places = [at for at, row in enumerate(rows) if accepts(row)]
            table = table.take(pa.array(places, pa.int64()))
        return objects(table.select(self.wanted))

    def _read(self, group: int, columns: Sequence[str]) -> pa.Table:
        # Without any column nobody could tell how many rows there are.
        names = [name for name in dict.fromkeys(columns) if name in self.there] or [min(self.there)]
        table = self.file.read(group, names)
        return _without(table, self._gone_in(group)) if self.gone else table

    def _gone_in(self, group: int) -> list[int]:
        """Places of the deleted rows in a group."""
        first = sum(self.file.sizes[:group])
        end = first + self.file.sizes[group]
        return [at - first for at in self.gone[bisect_left(self.gone, first) :] if at < end]

    def _filled(self, table: pa.Table, columns: Sequence[str]) -> Iterator[Row]:
        """Rows with these columns; what the file does not have is None."""
        names = [name for name in dict.fromkeys(columns) if name in self.there]
        lacking = {name: None for name in columns if name not in self.there}
        rows = objects(table.select(names)) if names else repeat({}, table.num_rows)
        for row in rows:
            yield {**row, **lacking} if lacking else row


def _without(table: pa.Table, gone: list[int]) -> pa.Table:
    """A table without the rows at some places, which are sorted."""
    import pyarrow as pa

    if not gone:
        return table
    if table.num_rows > FEW:
        places = pa.array(sorted(set(range(table.num_rows)).difference(gone)), pa.int64())
        return table.take(places)
    starts, ends = [0, *(at + 1 for at in gone)], [*gone, table.num_rows]
    return pa.concat_tables(
        [table.slice(start, end - start) for start, end in zip(starts, ends, strict=True)]
    )


def _filtered(table: pa.Table, where: Where) -> pa.Table:
    """The rows that have one of the values in every column that is asked."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted: Any = None
    for column, values in where.items():
        there = table.column(column)
        one = pc.is_in(there, value_set=pa.array(list(values), there.type))
        wanted = one if wanted is None else pc.and_(wanted, one)
    return table.filter(wanted)


def objects(table: pa.Table) -> Iterator[Row]:
    """Rows as Python objects."""
    names = table.column_names
    for batch in table.to_batches(max_chunksize=ROWS):
        for values in zip(*map(_values, batch.columns), strict=True):
            yield dict(zip(names, values, strict=True))


def _values(column: pa.Array[Any]) -> list[Any]:
    """The values of a column; Arrow's own way to make times imports all of pandas."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_date32(kind):
        return [day_of(days) for days in column.view(pa.int32()).to_pylist()]
    if not pa.types.is_timestamp(kind) or kind.unit != "us":
        return column.to_pylist()
    zoned = kind.tz is not None
    return [moment_of(micros, zoned) for micros in column.view(pa.int64()).to_pylist()]


def day_of(days: int | None) -> date | None:
    """A day by its number from 1970; None for one that Python has no date of."""
    if days is None or not _FIRST_DAY <= days <= _LAST_DAY:
        return None
    return _DAY + timedelta(days)


def moment_of(micros: int | None, zoned: bool) -> datetime | None:
    """A time by its microseconds from 1970; None for one in a year that Python has none of.

    Args:
        micros: the number.
        zoned: whether it is an instant, and not what a clock shows.
    """
    if micros is None or not _FIRST_DAY <= micros // _MICROS_A_DAY <= _LAST_DAY:
        return None
    return (_INSTANT if zoned else _CLOCK) + timedelta(microseconds=micros)


def _groups(file: ParquetFile, where: Where) -> list[int]:
    """The row groups that can hold such rows, by their statistics."""
    metadata = file.metadata
    if not where:
        return list(range(metadata.num_row_groups))
    names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    places = [(names.index(column), values) for column, values in where.items() if column in names]

    def can(group: int) -> bool:
        for place, values in places:
            statistics = metadata.row_group(group).column(place).statistics
            if statistics is None or not statistics.has_min_max:
                continue
            least, most = cast("Any", statistics.min), cast("Any", statistics.max)
            if not any(least <= value <= most for value in values):
                return False
        return True

    return [group for group in range(metadata.num_row_groups) if can(group)]
