"""The rows that a merged table has already, looked up by key in its data files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waybill.lake.task_rows import opened
from waybill.merge.columns import KEY, ORDER
from waybill.merge.upsert.kernels import hashes_of, matches, slots_of
from waybill.merge.upsert.winners import texts_in, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waybill.lake.stored_files import StoredFile


class Found(NamedTuple):
    """What a table has of some keys.

    Attributes:
        newer: which of the keys has a row or tombstone that is as new, or newer.
        replaced: by number of the file the places of the rows that are older.
    """

    newer: Any
    replaced: dict[int, Any]


def look_up(files: Sequence[StoredFile], keys: Any, orders: Any) -> Found:
    """Hold winners against the rows that are there.

    Args:
        files: the data files of the table.
        keys: the keys of winners, each once.
        orders: their orders.
    """
    data, ends = texts_in(keys)
    hashes = hashes_of(data, ends)
    slots = slots_of(hashes)
    newer = np.zeros(len(keys), np.bool_)
    replaced: dict[int, Any] = {}
    for number, file in enumerate(files):
        rows, winners, there = _rows_of(file, slots, hashes, data, ends)
        if not len(rows):
            continue
        lives = np.isin(rows, file.deleted(), invert=True)
        older = pc.less(there, orders.take(pa.array(winners))).to_numpy(zero_copy_only=False)
        newer[winners[lives & ~older]] = True
        gone = rows[lives & older]
        if len(gone):
            replaced[number] = np.sort(gone)
    return Found(newer, replaced)


def _rows_of(
    file: StoredFile, slots: Any, hashes: Any, data: Any, ends: Any
) -> tuple[Any, Any, Any]:
    """The places of the rows with one of the keys, the numbers of these keys, and their orders."""
    places = [np.empty(0, np.int64)]
    winners = [np.empty(0, np.int64)]
    orders = [pa.array([], pa.string())]
    first = 0
    with opened(file.opened) as parquet:
        for group in range(parquet.num_row_groups):
            there = whole(parquet.read_row_group(group, [KEY], use_threads=False).column(0))
            rows, found = matches(slots, hashes, data, ends, *texts_in(there))
            if len(rows):
                order_texts = whole(
                    parquet.read_row_group(group, [ORDER], use_threads=False).column(0)
                )
                orders.append(order_texts.take(pa.array(rows)))
                places.append(rows + first)
                winners.append(found)
            first += len(there)
    return np.concatenate(places), np.concatenate(winners), pa.concat_arrays(orders)
