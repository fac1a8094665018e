"""The rows that a merged table has already, looked up by key in its data files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waybill.lake.row_group_bounds import ColumnBounds, Sought
from waybill.lake.task_rows import opened
from waybill.merge.columns import KEY, ORDER
from waybill.merge.upsert.kernels import looked_for, matches
from waybill.merge.upsert.winners import texts_in, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waybill.lake.stored_files import StoredFile
    from waybill.merge.upsert.kernels import WantedKeys


class StoredKeys(NamedTuple):
    """What a table has of some keys.

    Attributes:
        newer: which of the keys has a row or tombstone that is as new, or newer.
        replaced: by number of the file the places of the rows that are older.
    """

    newer: Any
    replaced: dict[int, Any]


def look_up(files: Sequence[StoredFile], keys: Any, orders: Any) -> StoredKeys:
    """Hold winners against the rows that are there.

    Args:
        files: the data files of the table.
        keys: the keys of winners, each once.
        orders: their orders.
    """
    wanted, groups = looked_for(*texts_in(keys)), Sought(keys, KEY)
    newer = np.zeros(len(keys), np.bool_)
    replaced: dict[int, Any] = {}
    for number, file in enumerate(files):
        rows, winners, older = _rows_of(file, wanted, groups, orders)
        if not len(rows):
            continue
        lives = np.isin(rows, file.deleted(), invert=True)
        newer[winners[lives & ~older]] = True
        gone = rows[lives & older]
        if len(gone):
            replaced[number] = np.sort(gone)
    return StoredKeys(newer, replaced)


def _rows_of(
    file: StoredFile, wanted: WantedKeys, groups: Sought, orders: Any
) -> tuple[Any, Any, Any]:
    """The places of the rows with one of the keys, the numbers of these keys, which are older."""
    places = [np.empty(0, np.int64)]
    winners = [np.empty(0, np.int64)]
    older = [np.empty(0, np.bool_)]
    first, oldest = 0, pc.min(orders).as_py()
    with opened(file.opened) as parquet:
        near, bounds = groups.groups(parquet.metadata), ColumnBounds(parquet.metadata, ORDER)
        for group in range(parquet.num_row_groups):
            if group in near:
                rows, found = matches(wanted, *texts_in(_column(parquet, group, KEY)))
                places.append(rows + first)
                winners.append(found)
                ends = bounds.of(group)
                if ends is not None and oldest is not None and ends[1] < oldest:
                    older.append(np.ones(len(rows), np.bool_))
                elif len(rows):
                    there = _column(parquet, group, ORDER).take(pa.array(rows))
                    less: Any = pc.less(there, orders.take(pa.array(found)))
                    older.append(less.to_numpy(zero_copy_only=False))
            first += parquet.metadata.row_group(group).num_rows
    return np.concatenate(places), np.concatenate(winners), np.concatenate(older)


def _column(parquet: Any, group: int, name: str) -> Any:
    return whole(parquet.read_row_group(group, [name], use_threads=False).column(0))
