"""Which row groups of a Parquet file can hold a value, by the bounds that the file gives."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


FEW = 8
"""Values are held against bounds if a file has so many times as many rows: where there are more
values, every row group has one, and sorting them takes longer than it can save."""


class ColumnBounds:
    """The least and the greatest value of a column in each row group of a file.

    Args:
        metadata: the file's (`pyarrow.parquet.FileMetaData`).
        column: the column's name.
    """

    def __init__(self, metadata: Any, column: str) -> None:
        schema = metadata.schema
        places = (i for i in range(len(schema)) if schema.column(i).path == column)
        self._metadata = metadata
        self._place = next(places, None)

    def of(self, group: int) -> tuple[Any, Any] | None:
        """Both of a row group; None where the file does not tell."""
        if self._place is None:
            return None
        statistics = self._metadata.row_group(group).column(self._place).statistics
        if statistics is None or not statistics.has_min_max:
            return None
        return statistics.min, statistics.max

    def can_hold(self, group: int, values: Sequence[Any]) -> bool:
        """Whether a row group can hold one of some values, which are sorted."""
        bounds = self.of(group)
        if bounds is None:
            return True
        at = bisect_left(values, bounds[0])
        return at < len(values) and bool(values[at] <= bounds[1])


class Sought:
    """Texts that are looked for in a column of data files.

    Args:
        texts: the texts, none of them null.
        column: the column's name.
    """

    def __init__(self, texts: Any, column: str) -> None:
        self._texts = texts
        self._column = column

    @cached_property
    def _sorted(self) -> list[str]:
        # Python compares texts by code points, which is the order of their bytes in UTF-8.
        return sorted(self._texts.to_pylist())

    def groups(self, metadata: Any) -> set[int]:
        """The row groups of a file that can hold one of them."""
        every = range(metadata.num_row_groups)
        if metadata.num_rows < FEW * len(self._texts):
            return set(every)
        bounds = ColumnBounds(metadata, self._column)
        return {group for group in every if bounds.can_hold(group, self._sorted)}
