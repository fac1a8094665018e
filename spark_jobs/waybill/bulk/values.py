"""Where the values of written messages come from, as far as envelopes share it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from waybill.bulk.arena import Texts, Value
from waybill.bulk.column_codecs import WRITE_TEXT, ColumnWriter, same, written
from waybill.bulk.tables import json_name
from waybill.bulk.value_kinds import BAD, NULL_SIZE
from waybill.order import MAX_INDEX, MAX_OFFSET

if TYPE_CHECKING:
    from waybill.bulk.arena import Arena, Mask
    from waybill.bulk.block import Path
    from waybill.bulk.rows import Columns, Rows
    from waybill.bulk.tables import Name
    from waybill.bulk.templates import Get


def column(after: bool, place: int, put: ColumnWriter) -> Get:
    """The values of a column of the rows after a change, or before it."""

    def get(rows: Rows) -> Value:
        image: Columns = (rows.after if after else rows.before) or ()
        texts = image[place]
        if texts is None:
            raise KeyError(f"column {place} is not in the rows")
        return Value(put.write(rows.arena, texts), put.quoted)

    return get


def names(name: Name) -> Get:
    """A name of the table, as a text or null."""

    def get(rows: Rows) -> Value:
        if rows.tables is None:
            return Value(rows.arena.constant(json_name(name(rows.schema)), len(rows)), True)
        schemas, numbers = rows.tables
        return Value(schemas.texts(rows.arena, name).take(numbers), True)

    return get


def carried(rows: Rows, family: str) -> bool:
    """Whether changes came from a source of a family, with fields of its own."""
    return rows.extra is not None and rows.extra.family == family


def own(family: str, name: str, other: Get) -> Get:
    """A field that came from a source of the same family, else what stands for it."""

    def get(rows: Rows) -> Value:
        found = None
        if rows.extra is not None and rows.extra.family == family:
            found = rows.extra.fields.get(name)
        return found if isinstance(found, Value) else other(rows)

    return get


def field_of(name: str) -> Get:
    """A field that came from a source of the same family."""

    def get(rows: Rows) -> Value:
        found = None if rows.extra is None else rows.extra.fields.get(name)
        if not isinstance(found, Value):
            raise KeyError(f"the rows have no {name}")
        return found

    return get


def key_array(rows: Rows) -> dict[Path, Get]:
    """Message keys that are the JSON array of the key's values, after the change or last."""
    schema, after = rows.schema, rows.operation != "delete"
    return {
        (i,): column(after, place, WRITE_TEXT)
        for i, place in enumerate(schema.key_places if schema.key else ())
    }


def nulls(image: Columns, rows: int, before: Columns | None = None) -> Mask:
    """Which of so many rows have a null; what `image` lacks is looked up in `before`."""
    found = np.zeros(rows, np.bool_)
    if before is not None:
        image = tuple(b if a is None else a for a, b in zip(image, before, strict=True))
    for texts in image:
        if texts is not None:
            found |= texts.lengths == NULL_SIZE
    return found


def changed_columns(arena: Arena, before: Columns, image: Columns) -> list[Mask]:
    """For each column that both images have, which rows have other values in them."""
    return [
        ~same(arena, was, now)
        for was, now in zip(before, image, strict=True)
        if was is not None and now is not None
    ]


def times(unit: int, quoted: bool = False) -> Get:
    """The source's times in units of so many microseconds, digits below cut off."""

    def get(rows: Rows) -> Value:
        if rows.source_time is None:
            raise KeyError("the rows have no time")
        return Value(written(rows.arena, rows.source_time // unit), quoted)

    return get


def source_or_queue_times(rows: Rows) -> Value:
    """Milliseconds of the source, else of the queue, else 0."""
    if rows.source_time is not None:
        counts = rows.source_time // 1000
    elif rows.block.timestamps is not None:
        counts = rows.block.timestamps[rows.places]
    else:
        counts = np.zeros(len(rows), np.int64)
    return Value(written(rows.arena, counts), False)


def offsets(rows: Rows) -> Value:
    """The offsets of the source's messages."""
    return Value(written(rows.arena, rows.offsets), False)


def sequences(quoted: bool) -> Get:
    """Sequence ids of one number."""

    def get(rows: Rows) -> Value:
        if rows.sequence is None:
            raise KeyError("the rows have no sequence")
        return Value(written(rows.arena, rows.sequence[0]), quoted)

    return get


def made_ids(rows: Rows, first: int, quoted: bool) -> Value:
    """Ids made from the positions, as `order.position_number` makes them of one.

    They cannot be had in bulk where one of them does not fit 64 bits.

    Args:
        rows: changes that are alone in their messages.
        first: the id of the first position.
        quoted: whether ids are texts.
    """
    partitions, places = rows.block.partitions[rows.places], rows.offsets
    last = (int(partitions.max()) * MAX_OFFSET + int(places.max())) * MAX_INDEX
    if first + last > _LARGEST or min(partitions.min(), places.min()) < 0:
        bad = np.full(len(rows), BAD, np.int64)
        return Value(Texts(np.zeros_like(bad), bad), quoted)
    numbers = (partitions * MAX_OFFSET + places) * MAX_INDEX + first
    return Value(written(rows.arena, numbers), quoted)


_LARGEST = 2**63 - 1


def transactions(rows: Rows) -> Value:
    """Ids of transactions, as texts."""
    if rows.transaction is None:
        raise KeyError("the rows have no transaction")
    return Value(rows.transaction, True)
