"""Rows of many Parquet files, of which a lake of small batches has thousands."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from waybill.lake.arrow_rows import filled, having, objects
from waybill.lake.damaged_files import undamaged
from waybill.lake.data_files import FIELD_ID
from waybill.lake.remembered_rows import (
    FEW,
    RememberedRows,
    Said,
    columns_key,
    file_key,
    read_names,
)
from waybill.lake.row_group_bounds import ColumnBounds

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    from waybill.lake.arrow_rows import Row
    from waybill.lake.file_memory import FileMemory
    from waybill.lake.history import Chosen
    from waybill.lake.planned_files import Planned, Where

SMALL = 4 << 20
"""Bytes of a file that is read at once, and beside others."""

AT_ONCE = 64
THREADS = 4
_NONE: Mapping[tuple[str, int], str] = MappingProxyType({})
COLUMN_BYTES = 1000
"""What a remembered column takes beside its values, about."""


def rows_of_files(
    files: Sequence[Planned],
    opened: Callable[[str], Any],
    columns: Sequence[str],
    chosen: Chosen | None = None,
    memory: FileMemory | None = None,
    other_names: Mapping[tuple[str, int], str] = _NONE,
) -> Iterator[Row]:
    """Rows of files in no order; columns that a file does not have are None.

    Args:
        files: them, with what is asked of their rows.
        opened: opens a file, or says where it is on this machine.
        columns: those that are wanted.
        chosen: which rows; of a file that has none of them no other columns are read.
        memory: what small files have said before.
        other_names: of columns that files call otherwise (`TableShape.other_names`).
    """

    def rows_of(file: Planned) -> Iterator[Row]:
        return _rows(_File(opened, file, memory, other_names), file, columns, chosen)

    small = [file for file in files if file.size <= SMALL]
    if memory is not None and len(small) > 1:
        remembered = RememberedRows(memory, columns, chosen)
        yield from remembered.rows(small)
        small = remembered.unknown
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
    data_file: _File, planned: Planned, columns: Sequence[str], chosen: Chosen | None
) -> Iterator[Row]:
    with data_file as file:
        asking = _Asking(file, planned, columns, chosen)
        if planned.where.keys() - file.there:
            return
        lacking = {name: None for name in columns if name not in file.there}
        for group in file.groups(planned.where):
            few = file.sizes[group] <= FEW
            for row in asking.of_few(group) if few else asking.of_many(group):
                yield {**row, **lacking} if lacking else row


class _File:
    """A data file, which is opened when something is asked that is not remembered of it."""

    def __init__(
        self,
        opened: Callable[[str], Any],
        planned: Planned,
        memory: FileMemory | None,
        other_names: Mapping[tuple[str, int], str],
    ) -> None:
        self._open, self._path, self._other_names = opened, planned.path, other_names
        self._memory = memory if planned.size <= SMALL else None
        self._file: ParquetFile | None = None

    def __enter__(self) -> _File:
        said = None if self._memory is None else self._memory.get(file_key(self._path))
        self._said: Said = self._asked() if said is None else said
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def there(self) -> frozenset[str]:
        """Its columns, by the names of the lake."""
        return self._said.there

    @property
    def sizes(self) -> list[int]:
        """How many rows each of its row groups has."""
        return self._said.sizes

    def groups(self, where: Where) -> list[int]:
        """The row groups that can hold such rows."""
        if len(self.sizes) <= 1:
            return [*range(len(self.sizes))]
        called = {self._said.called.get(name, name): values for name, values in where.items()}
        return _groups(self._opened(), called)

    def read(self, group: int, names: Sequence[str]) -> pa.Table:
        """Columns of a row group."""
        few = self._memory is not None and self.sizes[group] <= FEW
        key = columns_key(self._path, group, names)
        found: pa.Table | None = self._memory.get(key) if few and self._memory else None
        if found is None:
            found = self._read(group, names)
            if few and self._memory:
                self._memory.keep(key, found, found.nbytes + COLUMN_BYTES * len(names))
        return found

    def _read(self, group: int, names: Sequence[str]) -> pa.Table:
        called = {name: self._said.called.get(name, name) for name in names}
        wanted = [*dict.fromkeys(called.values())]
        file = self._opened()
        with undamaged(self._path):
            found: pa.Table = file.read_row_group(group, columns=wanted, use_threads=False)
        if self._said.called.keys().isdisjoint(called):
            return found
        return found.select([*called.values()]).rename_columns([*called])

    def _asked(self) -> Said:
        file = self._opened()
        groups = range(file.metadata.num_row_groups)
        sizes = [file.metadata.row_group(i).num_rows for i in groups]
        called = self._called(file.schema_arrow) if self._other_names else {}
        said = Said(frozenset([*file.schema_arrow.names, *called]), sizes, called)
        if self._memory is not None:
            self._memory.keep(file_key(self._path), said, COLUMN_BYTES)
        return said

    def _called(self, schema: pa.Schema) -> dict[str, str]:
        """What the file calls columns that the lake calls otherwise."""
        ids = {field.name: int((field.metadata or {}).get(FIELD_ID, -1)) for field in schema}
        names = {written: self._other_names.get((written, id_)) for written, id_ in ids.items()}
        return {name: written for written, name in names.items() if name is not None}

    def _opened(self) -> ParquetFile:
        if self._file is None:
            # Not every look into the lake reads rows, and this takes long to import.
            from pyarrow.parquet import ParquetFile

            source = self._open(self._path)
            mapped = isinstance(source, str)
            with undamaged(self._path):
                self._file = ParquetFile(source, memory_map=mapped, page_checksum_verification=True)
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
            for at, row in enumerate(filled(self._read(group, asked), asked, self.there))
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
            table = table.filter(having(table, self.where))
        if self.chosen is not None:
            import pyarrow as pa

            accepts = self.chosen.accepts
            rows = filled(table, self.chosen.columns, self.there)
            places = [at for at, row in enumerate(rows) if accepts(row)]
            table = table.take(pa.array(places, pa.int64()))
        return objects(table.select(self.wanted))

    def _read(self, group: int, columns: Sequence[str]) -> pa.Table:
        table = self.file.read(group, read_names(columns, self.there))
        return _without(table, self._gone_in(group)) if self.gone else table

    def _gone_in(self, group: int) -> list[int]:
        """Places of the deleted rows in a group."""
        first = sum(self.file.sizes[:group])
        end = first + self.file.sizes[group]
        return [at - first for at in self.gone[bisect_left(self.gone, first) :] if at < end]


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


def _groups(file: ParquetFile, where: Where) -> list[int]:
    """The row groups that can hold such rows, by their statistics."""
    metadata = file.metadata
    if not where:
        return list(range(metadata.num_row_groups))
    bounds = [(ColumnBounds(metadata, name), sorted(values)) for name, values in where.items()]
    return [
        group
        for group in range(metadata.num_row_groups)
        if all(of.can_hold(group, values) for of, values in bounds)
    ]
