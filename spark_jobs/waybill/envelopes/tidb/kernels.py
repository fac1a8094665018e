"""What is compiled for TiCDC; positions are those of bytes in one array, the arena."""

from __future__ import annotations

import numpy as np

from waybill.bulk.compiling import compiled
from waybill.bulk.kernels.single_values import same_bytes, text_end
from waybill.bulk.raw_memory import copy

MOST = 128
"""Types of more columns are left as they stand: sorting them takes longer than it saves."""

_NAME = b'"mysqlType":{'
_BYTES = np.frombuffer(_NAME + bytes(8), np.uint8)
_SIZE = len(_NAME)


@compiled
def _object(data, p, end):
    """Where the first name in `mysqlType` begins; -1 where there is none.

    A quote inside a text is escaped, so what is found is a name.
    """
    while p + _SIZE < end:
        if data[p] == 34 and data[p + 1] == 109 and same_bytes(data, p, _BYTES, 0, _SIZE):
            return p + _SIZE
        p += 1
    return np.int64(-1)


@compiled
def _past_text(data, p, end):
    """What comes behind a text without escapes that begins at `p`; -1 where there is none."""
    if p < 0 or p >= end or data[p] != 34:
        return np.int64(-1)
    p = text_end(data, p + 1, end)
    if p >= end or data[p] != 34:
        return np.int64(-1)
    return p + 1


@compiled
def _entries(data, p, end, starts, stops):
    """Find the names with their texts in an object, which begins at `p`; returns how many.

    0 for too many, and for anything else than texts without blanks between them.
    """
    count = 0
    while count < MOST:
        starts[count] = p
        p = _past_text(data, p, end)
        if p < 0 or p >= end or data[p] != 58:
            return np.int64(0)
        p = _past_text(data, p + 1, end)
        if p < 0 or p >= end:
            return np.int64(0)
        stops[count] = p
        count += 1
        if data[p] == 125:
            return np.int64(count)
        if data[p] != 44:
            return np.int64(0)
        p += 1
    return np.int64(0)


@compiled
def _before(data, one, other, end):
    """Whether what stands at `one` sorts before what stands at `other`."""
    while other < end and one < end:
        if data[one] != data[other]:
            return data[one] < data[other]
        one += 1
        other += 1
    return False


@compiled
def sort_types(data, begins, ends, starts, stops, room):
    """Sort the columns in `mysqlType` by their names, in place; the messages say the same.

    Args:
        data: the arena; eight bytes behind the messages may be looked at.
        begins: where each message begins; below zero where there is none.
        ends: where it ends.
        starts: room for `MOST` numbers.
        stops: likewise.
        room: room for the bytes of a message.
    """
    for i in range(begins.shape[0]):
        end = ends[i]
        first = _object(data, begins[i], end) if begins[i] >= 0 else np.int64(-1)
        count = _entries(data, first, end, starts, stops) if first >= 0 else np.int64(0)
        moved = False
        for k in range(1, count):
            start = starts[k]
            stop = stops[k]
            at = k
            while at > 0 and _before(data, start, starts[at - 1], end):
                starts[at] = starts[at - 1]
                stops[at] = stops[at - 1]
                at -= 1
            starts[at] = start
            stops[at] = stop
            moved = moved or at < k
        if not moved:
            continue
        size = 0
        for k in range(count):
            if k > 0:
                room[size] = 44
                size += 1
            copy(room, size, data, starts[k], stops[k] - starts[k])
            size += stops[k] - starts[k]
        copy(data, first, room, 0, size)
