"""The rows of a merged table in the order of their keys, read without Spark where they are few."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from waybill.lake.history import in_order
from waybill.merge.columns import BATCH, DELETED, KEY
from waybill.merge.short_images import full_text_of_row, image_columns, image_of_row

if TYPE_CHECKING:
    from waybill.lake.history import History
    from waybill.merge.table_states import MergedTableState

ROWS, BYTES = 200_000, 64 << 20
"""Of a table of no more rows, tombstones among them, and no more bytes Spark would take longer."""

NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
"""Values of keys that are sorted as numbers, where their digits before the point are few enough."""
DIGITS = 38

_number_of = re.compile(NUMBER).fullmatch


def is_small(lake: History, state: MergedTableState) -> bool:
    """Whether a table is read faster without Spark than Spark starts."""
    if state.table is None:
        return True
    metadata = lake.metadata(state.table)
    if state.snapshot is None:
        return True
    summary = metadata.snapshots[state.snapshot].summary
    return (
        int(summary.get("total-records", 0)) <= ROWS
        and int(summary.get("total-files-size", 0)) <= BYTES
    )


def rows_in_order(lake: History, state: MergedTableState) -> Iterator[dict[str, str | None]]:
    """The live rows of a table as text images with every column, sorted by key.

    All of them are in memory at once: `waybill.jobs.read_table` is for tables of any size and
    has the same order.
    """
    if state.table is None:
        return
    read = image_columns(lake.metadata(state.table))
    found = lake.scan(state.table, (KEY, *read), {DELETED: [False]}, state.snapshot)
    # Of each row its image is kept, and no column that the image rests on.
    images = [(row[KEY], full_text_of_row(row, state.table)) for row in found]
    empty = dict.fromkeys(state.columns)
    for _, image in sorted(images, key=lambda one: by_key(one[0])):
        yield {**empty, **json.loads(image)}


class KeptRow(NamedTuple):
    """What a merged table has of a key.

    Attributes:
        key: the key image as JSON text.
        image: the row as text images with every column; None where it is deleted.
        batch: that made it what it is.
    """

    key: str
    image: dict[str, str | None] | None
    batch: str


def rows_of_keys(lake: History, state: MergedTableState, keys: Iterable[str]) -> list[KeptRow]:
    """What a table has of some keys: rows, and deleted ones that it remembers, in their order."""
    wanted = sorted(keys)
    if state.table is None or not wanted:
        return []
    columns = (KEY, DELETED, BATCH, *image_columns(lake.metadata(state.table)))
    empty = dict.fromkeys(state.columns)
    found = lake.scan(state.table, columns, {KEY: wanted}, state.snapshot)
    rows = [
        KeptRow(
            row[KEY],
            None if row[DELETED] else {**empty, **image_of_row(row, state.table)},
            row[BATCH],
        )
        for row in found
    ]
    return sorted(rows, key=lambda row: by_key(row.key))


def by_key(key: str | None) -> tuple[Any, ...]:
    """What rows are sorted by; `waybill.jobs` has the same in SQL.

    Args:
        key: the key image as JSON text, None for a table without key.
    """
    if key is None:
        return (), ""
    return tuple(in_order((_number(value), value)) for value in json.loads(key).values()), key


def _number(text: str | None) -> Decimal | None:
    """The integer that Spark casts a text to; None where it is not a number or has more digits."""
    if text is None or _number_of(text) is None:
        return None
    number = Decimal(text)
    if number.adjusted() >= DIGITS:
        return None
    whole = number.to_integral_value(ROUND_HALF_UP)
    return whole if whole.adjusted() < DIGITS else None
