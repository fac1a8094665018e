"""How columns, times and positions of DMS are read and written in bulk.

What is not done here by compiled code is left, value by value, to the exact functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from waybill.bulk import kernels
from waybill.bulk.arena import Texts
from waybill.bulk.column_codecs import (
    BLANK,
    T,
    Z,
    by_call,
    instant_to_units,
    or_else,
    wall_clock,
)
from waybill.bulk.field_map import IntegerSlot
from waybill.bulk.value_kinds import INTEGER, NULL_SIZE, PLAIN
from waybill.envelopes.dms.positions import Numbers, file_of, log_number_at, place_of
from waybill.envelopes.dms.values import micros_of, order_of
from waybill.types import FIRST_MICRO, LAST_MICRO

if TYPE_CHECKING:
    from waybill.bulk.arena import Arena, Mask, Places
    from waybill.bulk.column_codecs import Convert
    from waybill.bulk.field_map import Sample
    from waybill.bulk.rows import Columns, Rows
    from waybill.records import TableSchema

_decode = msgspec.json.Decoder(str).decode
_from_blank, _same_wall = wall_clock(BLANK, T), wall_clock(T, T)


# Columns


def wall_clocks() -> Convert:
    """A converter of wall clocks as DMS writes them: with a blank, or with a Z behind."""
    return or_else(_from_blank, _without_z)


def with_z() -> Convert:
    """A converter of wall clocks to those with a Z behind."""
    return _with_z


def _without_z(arena: Arena, texts: Texts) -> Texts:
    lengths = texts.lengths.copy()
    kernels.without_last(arena.data, texts.starts, lengths, Z)
    return _same_wall(arena, Texts(texts.starts, lengths))


def _with_z(arena: Arena, texts: Texts) -> Texts:
    found = _same_wall(arena, texts)
    lengths = found.lengths
    at = arena.room(int(lengths[lengths >= 0].sum()) + len(lengths))
    arena.size = kernels.with_last(arena.data, found.starts, lengths, Z, at)
    return found


def keys_alone(schema: TableSchema, image: Columns, rows: int) -> Mask:
    """Rows of which `notation.key_alone` leaves the key only."""
    others = [] if not schema.key else [texts for _, texts in beside_key(schema, image)]
    if not others:
        return np.zeros(rows, np.bool_)
    alone = np.ones(rows, np.bool_)
    for texts in others:
        alone &= texts.lengths == NULL_SIZE
    return alone


def beside_key(schema: TableSchema, image: Columns) -> list[tuple[int, Texts]]:
    """The columns of an image that are none of the key."""
    return [
        (place, texts)
        for place, texts in enumerate(image)
        if texts is not None and place not in schema.key_places
    ]


# Times


def time_count(slot: int) -> IntegerSlot:
    """Microseconds since 1970 of a time in UTC."""
    return IntegerSlot(slot, 1, FIRST_MICRO, LAST_MICRO, _micros)


_micros = or_else(instant_to_units(6), by_call(lambda text: str(micros_of(text, "the time"))))


# Positions


def position_counts(
    sample: Sample, position: int, numbers: tuple[int | None, int | None], count: int
) -> tuple[IntegerSlot, ...] | None:
    """How the numbers of a sequence are read; None where that is not known.

    Args:
        sample: the message.
        position: the place of its position.
        numbers: the places of the transaction's id, and of the record's number in it.
        count: how many there are.
    """
    if sample.kinds[position] != PLAIN:
        return None
    text = sample.text(position).decode()
    if ":" in text:
        if order_of(text, None, None) is None:
            return _by_transaction(sample, position, numbers)
        ways = _numbers(True, count)
    elif "/" in text:
        ways = [log_number_at(count, wanted) for wanted in range(count)]
    else:
        ways = _numbers(False, count)
    return tuple(IntegerSlot(position, convert=way) for way in ways)


def _numbers(file: bool, count: int) -> list[Convert]:
    found = Numbers(file, count)
    return [found.at(wanted) for wanted in range(count)]


def _by_transaction(
    sample: Sample, position: int, numbers: tuple[int | None, int | None]
) -> tuple[IntegerSlot, ...] | None:
    transaction, record = numbers
    if transaction is None or record is None:
        return None
    if sample.kinds[transaction] != INTEGER or sample.kinds[record] != INTEGER:
        return None
    return (
        IntegerSlot(position, convert=file_of),
        IntegerSlot(transaction, convert=place_of),
        IntegerSlot(record),
    )


def with_order(rows: Rows, position: Texts, numbers: tuple[Places | None, Places | None]) -> Mask:
    """Rows whose position tells an order after all.

    Args:
        rows: the rows.
        position: their positions.
        numbers: the ids of their transactions, and the numbers of records in these.
    """
    ids, records = (None if number is None else number.tolist() for number in numbers)
    found = np.zeros(len(rows), np.bool_)
    for row in range(len(rows)):
        text = _decode(b'"%b"' % (rows.arena.text(position, row) or b""))
        transaction = None if ids is None else ids[row]
        record = None if records is None else records[row]
        found[row] = order_of(text, transaction, record) is not None
    return found
