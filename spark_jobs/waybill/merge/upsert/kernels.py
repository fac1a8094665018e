"""Loops over keys and orders, as machine code."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from waybill.bulk.compiling import compiled
from waybill.bulk.raw_memory import word

Bytes = npt.NDArray[np.uint8]
Ends = npt.NDArray[np.int32]
Hashes = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]

_EMPTY = -1
_BITS = 8
"""Marks for each slot, so that one of sixteen or fewer is set."""


@compiled
def _hash(data, start, end):  # type: ignore[no-untyped-def]
    h = np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(end - start)
    at = start
    while at + 8 <= end:
        h = (h ^ word(data, at)) * np.uint64(0xFF51AFD7ED558CCD)  # type: ignore[operator]
        h ^= h >> np.uint64(32)
        at += 8
    rest = np.uint64(0)
    if end - start >= 8:
        # The last bytes, some of them for the second time.
        rest = word(data, end - 8)  # type: ignore[operator]
    else:
        shift = np.uint64(0)
        while at < end:
            rest |= np.uint64(data[at]) << shift
            shift += np.uint64(8)
            at += 1
    h = (h ^ rest) * np.uint64(0xC4CEB9FE1A85EC53)
    h ^= h >> np.uint64(29)
    h *= np.uint64(0xFF51AFD7ED558CCD)
    return h ^ (h >> np.uint64(32))


@compiled
def _compared(data, start, end, other, begin, stop):  # type: ignore[no-untyped-def]
    """Below, at or above zero, as the bytes of one text are below, equal to or above another's."""
    size = min(end - start, stop - begin)
    at = 0
    while at + 8 <= size and word(data, start + at) == word(other, begin + at):  # type: ignore[operator]
        at += 8
    for i in range(at, size):
        one, two = data[start + i], other[begin + i]
        if one != two:
            return 1 if one > two else -1
    return (end - start) - (stop - begin)


@compiled
def _rows_compared(data, ends, row, other):  # type: ignore[no-untyped-def]
    """As `_compared`, of two rows of a column."""
    return _compared(data, ends[row], ends[row + 1], data, ends[other], ends[other + 1])


@compiled
def _newer(row, other, orders, order_ends, live, images, image_ends, whole):  # type: ignore[no-untyped-def]
    """Whether a change wins over another of its key: by order, and of the same by what it says."""
    found = _rows_compared(orders, order_ends, row, other)
    if found != 0:
        return found > 0
    if live[row] != live[other]:
        return live[row] > live[other]
    found = _rows_compared(images, image_ends, row, other)
    if found != 0:
        return found > 0
    return whole[row] > whole[other]


def hashes_of(data: Bytes, ends: Ends) -> Hashes:
    """A hash of each text."""
    found = np.empty(len(ends) - 1, np.uint64)
    _hashes(data, ends, found)
    return found


@compiled
def _hashes(data, ends, found):  # type: ignore[no-untyped-def]
    for row in range(len(found)):
        found[row] = _hash(data, ends[row], ends[row + 1])


def _slots(count: int) -> Rows:
    """Room for the numbers of so many hashes: a power of two, and half of it stays empty."""
    size = 16
    while size < 2 * count:
        size *= 2
    return np.full(size, _EMPTY, np.int64)


def newest_rows(
    tables: npt.NDArray[np.int32],
    hashes: Hashes,
    keys: Bytes,
    key_ends: Ends,
    orders: Bytes,
    order_ends: Ends,
    live: Bytes,
    images: Bytes,
    image_ends: Ends,
    whole: Bytes,
) -> Rows:
    """The row of the newest change of each key of each table.

    Args:
        tables: the table of each row.
        hashes: of the keys.
        keys: bytes of the keys.
        key_ends: where each begins and ends, one more than there are rows.
        orders: bytes of the orders, which are compared as such.
        order_ends: as of the keys.
        live: 0 for a change that leaves a tombstone.
        images: bytes of the images.
        image_ends: as of the keys.
        whole: 1 for an image that leaves nothing out.
    """
    found = np.empty(len(hashes), np.int64)
    made = _newest(
        *(tables, hashes, keys, key_ends, orders, order_ends, live, images, image_ends, whole),
        *(_slots(len(hashes)), found),
    )
    return found[:made]


@compiled
def _newest(  # type: ignore[no-untyped-def]
    tables, hashes, keys, key_ends, orders, order_ends, live, images, image_ends, whole,
    slots, found,
):  # fmt: skip
    """Write what `newest_rows` returns into `found`; returns how many rows there are."""
    mask = np.uint64(len(slots) - 1)
    made = 0
    for row in range(len(hashes)):
        place = np.int64((hashes[row] + np.uint64(tables[row])) & mask)
        while True:
            group = slots[place]
            if group < 0:
                slots[place] = made
                found[made] = row
                made += 1
                break
            other = found[group]
            if (
                hashes[other] == hashes[row]
                and tables[other] == tables[row]
                and _rows_compared(keys, key_ends, row, other) == 0
            ):
                if _newer(row, other, orders, order_ends, live, images, image_ends, whole):
                    found[group] = row
                break
            place = (place + 1) & np.int64(mask)
    return made


class WantedKeys(NamedTuple):
    """Keys that are looked for, each of them once.

    Attributes:
        data: their bytes.
        ends: where each begins and ends, one more than there are keys.
        hashes: of the keys.
        slots: at the place of a hash, or behind it, the number of its key; -1 where there is none.
        marks: a bit for some hashes, set where a key has one of them: most others are known by it.
    """

    data: Bytes
    ends: Ends
    hashes: Hashes
    slots: Rows
    marks: Hashes


def looked_for(data: Bytes, ends: Ends) -> WantedKeys:
    """Keys, ready to be looked for by `matches`."""
    hashes = hashes_of(data, ends)
    slots = _slots(len(hashes))
    marks = np.zeros(len(slots) * _BITS // 64, np.uint64)
    _into_slots(hashes, slots, marks)
    return WantedKeys(data, ends, hashes, slots, marks)


@compiled
def _mark(h, marks):  # type: ignore[no-untyped-def]
    """The number of the bit of a hash: other bits of it than those that say its slot."""
    return np.int64((h >> np.uint64(32)) & np.uint64(64 * len(marks) - 1))


@compiled
def _into_slots(hashes, slots, marks):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(slots) - 1)
    for i in range(len(hashes)):
        place = np.int64(hashes[i] & mask)
        while slots[place] >= 0:
            place = (place + 1) & np.int64(mask)
        slots[place] = i
        bit = _mark(hashes[i], marks)
        marks[bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)


def matches(wanted: WantedKeys, there: Bytes, there_ends: Ends) -> tuple[Rows, Rows]:
    """The rows of a table that have one of the keys, and the number of that key.

    Args:
        wanted: the keys.
        there: bytes of the keys of the rows.
        there_ends: where each begins and ends, one more than there are rows.
    """
    rows = np.empty(len(there_ends) - 1, np.int64)
    numbers = np.empty(len(there_ends) - 1, np.int64)
    keys = (wanted.slots, wanted.marks, wanted.hashes, wanted.data, wanted.ends)
    made = _matches(*keys, there, there_ends, rows, numbers)
    return rows[:made], numbers[:made]


@compiled
def _matches(  # type: ignore[no-untyped-def]
    slots, marks, hashes, keys, key_ends, there, there_ends, rows, numbers
):
    """Write what `matches` returns; returns how many rows there are."""
    mask = np.uint64(len(slots) - 1)
    made = 0
    for row in range(len(rows)):
        h = _hash(there, there_ends[row], there_ends[row + 1])
        bit = _mark(h, marks)
        if (marks[bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1) == 0:
            continue
        place = np.int64(h & mask)
        while slots[place] >= 0:
            other = slots[place]
            if (
                hashes[other] == h
                and _compared(
                    there, there_ends[row], there_ends[row + 1],
                    keys, key_ends[other], key_ends[other + 1],
                ) == 0
            ):  # fmt: skip
                rows[made] = row
                numbers[made] = other
                made += 1
                break
            place = (place + 1) & np.int64(mask)
    return made
