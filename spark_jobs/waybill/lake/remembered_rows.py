"""Rows of the many small files of which everything that is asked for is remembered.

To ask a thousand files of twenty rows one after the other takes far longer than to ask twenty
thousand rows at once, so the columns of many files are put together, which copies nothing, and
Arrow leaves out most rows before any becomes a Python object.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.lake.arrow_rows import ROWS, filled, having

if TYPE_CHECKING:
    import pyarrow as pa

    from waybill.lake.arrow_rows import Row
    from waybill.lake.file_memory import FileMemory
    from waybill.lake.history import Chosen
    from waybill.lake.planned_files import Planned

FEW = 10_000
"""Of row groups with no more rows columns are remembered."""


class Said(NamedTuple):
    """What a file says of itself.

    Attributes:
        there: its columns, by the names of the lake.
        sizes: how many rows each of its row groups has.
        called: the names in the file of columns that the lake calls otherwise.
    """

    there: frozenset[str]
    sizes: list[int]
    called: dict[str, str]


def file_key(path: str) -> tuple[str]:
    """Under which a memory has what a file says of itself (`Said`)."""
    return (path,)


def columns_key(path: str, group: int, names: Sequence[str]) -> tuple[Any, ...]:
    """Under which a memory has columns of a row group, as an Arrow table with the lake's names."""
    return (path, group, *names)


def read_names(columns: Sequence[str], there: frozenset[str]) -> list[str]:
    """The columns that are read of a file for those that are asked for."""
    # Without any column nobody could tell how many rows there are.
    return [name for name in dict.fromkeys(columns) if name in there] or [min(there)]


class _Remembered(NamedTuple):
    """A file, and what is remembered of the columns that are asked first."""

    file: Planned
    table: pa.Table


class RememberedRows:
    """Rows of files, as far as they are remembered.

    Args:
        memory: what files have said before.
        columns: those that are wanted.
        chosen: which rows.

    Attributes:
        unknown: files of which something is not remembered; once all rows were taken.
    """

    def __init__(self, memory: FileMemory, columns: Sequence[str], chosen: Chosen | None) -> None:
        self._memory, self._columns, self._chosen = memory, columns, chosen
        self.unknown: list[Planned] = []

    def rows(self, files: Sequence[Planned]) -> Iterator[Row]:
        """The rows of those that are remembered, in no order; columns that are not there are None.

        Args:
            files: small ones, with what is asked of their rows.
        """
        # Files of one kind have the same columns of the same types, and the same is asked of them.
        kinds: dict[tuple[frozenset[str], int], list[_Remembered]] = {}
        for file in files:
            said: Said | None = self._memory.get(file_key(file.path))
            if said is None or file.gone or len(said.sizes) != 1 or said.sizes[0] > FEW:
                self.unknown.append(file)
                continue
            there = said.there
            if file.where.keys() - there:
                continue
            kind = kinds.setdefault((there, id(file.where) if file.where else 0), [])
            table = self._remembered(file, self._first(file, there))
            if table is None or (kind and not table.schema.equals(kind[0].table.schema)):
                self.unknown.append(file)
            else:
                kind.append(_Remembered(file, table))
        for (there, _), kind in kinds.items():
            for some in _pieces(kind):
                yield from self._of_some(some, there)

    def _first(self, file: Planned, there: frozenset[str]) -> list[str]:
        """The columns that are asked first: those that choose rows."""
        asked = [*file.where, *(self._chosen.columns if self._chosen else ())]
        return read_names(asked or self._columns, there)

    def _remembered(self, file: Planned, names: Sequence[str]) -> pa.Table | None:
        found: pa.Table | None = self._memory.get(columns_key(file.path, 0, names))
        return found

    def _of_some(self, some: list[_Remembered], there: frozenset[str]) -> Iterator[Row]:
        import pyarrow as pa

        asked = pa.concat_tables([one.table for one in some])
        if some[0].file.where or self._chosen is not None:
            places = self._places(asked, some[0].file, there)
            wanted = self._wanted(some, places, there) if places else None
        else:
            wanted = asked.combine_chunks()
        if wanted is not None:
            yield from filled(wanted, self._columns, there)

    def _places(self, table: pa.Table, file: Planned, there: frozenset[str]) -> list[int]:
        """Where the rows are that are wanted."""
        import pyarrow.compute as pc

        mask = having(table, file.where)
        chosen = self._chosen
        if chosen is not None and chosen.likely is not None and there.issuperset(chosen.columns):
            likely = chosen.likely(table)
            mask = likely if mask is None else pc.and_(mask, likely)
        if mask is None:
            at: list[int] = [*range(table.num_rows)]
        else:
            found: Any = pc.indices_nonzero(mask)
            table, at = table.take(found), found.to_pylist()
        if chosen is None or not at:
            return at
        rows = filled(table, chosen.columns, there)
        return [place for place, row in zip(at, rows, strict=True) if chosen.accepts(row)]

    def _wanted(
        self, some: list[_Remembered], places: list[int], there: frozenset[str]
    ) -> pa.Table | None:
        """The wanted columns of rows; files of which they are not remembered become unknown."""
        import pyarrow as pa

        ends = [*accumulate(one.table.num_rows for one in some)]
        by_file: dict[int, list[int]] = {}
        for place in places:
            number = bisect_right(ends, place)
            first = ends[number] - some[number].table.num_rows
            by_file.setdefault(number, []).append(place - first)
        names = read_names(self._columns, there)
        tables: list[pa.Table] = []
        taken: list[int] = []
        before = 0
        for number, own in by_file.items():
            file = some[number].file
            table = self._remembered(file, names)
            if table is None or (tables and not table.schema.equals(tables[0].schema)):
                self.unknown.append(file)
                continue
            tables.append(table)
            taken += [before + place for place in own]
            before += table.num_rows
        if not tables:
            return None
        return pa.concat_tables(tables).take(pa.array(taken, pa.int64()))


def _pieces(files: Sequence[_Remembered]) -> Iterator[list[_Remembered]]:
    """As many files at once as have `ROWS` rows."""
    piece: list[_Remembered] = []
    count = 0
    for one in files:
        piece.append(one)
        count += one.table.num_rows
        if count >= ROWS:
            yield piece
            piece, count = [], 0
    if piece:
        yield piece
