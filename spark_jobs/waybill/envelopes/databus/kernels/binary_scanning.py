"""Finding the values of Databus's binary events; positions are those of bytes in the arena."""

from __future__ import annotations

import numpy as np

from waybill.bulk.compiling import compiled
from waybill.bulk.kernels.avro_scanning import values_of
from waybill.bulk.raw_memory import word
from waybill.bulk.value_kinds import BAD, DOUBLE, FIXED

LITTLE, SECOND, BYTE_KEY = 1, 2, 4
"""Bits of the shape of an event: little-endian, of version 2, with bytes as its key."""
HEAD = 7
"""An event has so many values before those of its row at most."""
BIG_KIND, LITTLE_KIND = FIXED, DOUBLE
"""The kinds of values before the row; the checksum alone tells the byte order of version 1, so that
messages of both orders must differ in something else."""

WHOLE_MICROS, NO_TIME, FINE, ANY_TIME = range(4)
"""What times are: whole microseconds, none, and finer ones; and either of the first and last."""

_MAGIC = 0xCAFEDEED
_V1_BYTES, _V1_LONG, _V2_FIXED, _V2_LONG = 57, 61, 45, 53
_PART = 6
"""Bytes of a part of version 2 before its digest."""


def _tables():
    """For each of eight bytes what it adds to the checksum of those behind it."""
    made = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        made = np.where(made & 1, made >> 1 ^ np.uint32(0xEDB88320), made >> 1)
    found = [made]
    for _ in range(7):
        found.append(made[found[-1] & 255] ^ found[-1] >> 8)
    return np.concatenate(found).astype(np.uint32)


_TABLES = _tables()
_ODD = np.uint64(0xFF00FF00FF00FF00)
_PAIRS = np.uint64(0xFFFF0000FFFF0000)


@compiled
def checksum(data, p, end):
    """The checksum of some bytes, as `event.checksum` gives it."""
    low = np.uint64(255)
    found = np.uint64(0)
    while end - p >= 8:
        found ^= word(data, p)
        found = np.uint64(
            _TABLES[np.uint64(1792) + (found & low)]
            ^ _TABLES[np.uint64(1536) + (found >> np.uint64(8) & low)]
            ^ _TABLES[np.uint64(1280) + (found >> np.uint64(16) & low)]
            ^ _TABLES[np.uint64(1024) + (found >> np.uint64(24) & low)]
            ^ _TABLES[np.uint64(768) + (found >> np.uint64(32) & low)]
            ^ _TABLES[np.uint64(512) + (found >> np.uint64(40) & low)]
            ^ _TABLES[np.uint64(256) + (found >> np.uint64(48) & low)]
            ^ _TABLES[found >> np.uint64(56)]
        )
        p += 8
    while p < end:
        found = np.uint64(_TABLES[(found ^ np.uint64(data[p])) & low]) ^ found >> np.uint64(8)
        p += 1
    return np.int64(found)


@compiled
def number(data, p, size, little):
    """A signed number of some bytes, at most eight; eight bytes are looked at."""
    found = word(data, p)
    spare = 64 - 8 * size
    if little:
        return np.int64(found << np.uint64(spare)) >> spare
    found = (found & _ODD) >> np.uint64(8) | (found << np.uint64(8)) & _ODD
    found = (found & _PAIRS) >> np.uint64(16) | (found << np.uint64(16)) & _PAIRS
    found = found >> np.uint64(32) | found << np.uint64(32)
    return np.int64(found) >> spare


@compiled
def time_of(nanos):
    """What a time in nanoseconds is."""
    if nanos == -1:
        return NO_TIME
    return WHOLE_MICROS if nanos % 1000 == 0 else FINE


@compiled
def _stated(data, p, little):
    """A checksum as an event has it."""
    return number(data, p, 4, little) & 0xFFFFFFFF


@compiled
def _version_1(data, p, end):
    """The shape of an event of version 1 and where its row begins; -1 if it is read exactly."""
    none = np.int64(-1)
    size = end - p
    if size < _V1_BYTES:
        return none, none
    for little in range(2):
        keyed = data[p + (9 if little else 10)] & 8
        head = np.int64(_V1_BYTES if keyed else _V1_LONG)
        if head > size or checksum(data, p + 5, p + head) != _stated(data, p + 1, little):
            continue
        body = p + head
        if number(data, p + 5, 4, little) != size:
            return none, none
        if checksum(data, body, end) != _stated(data, p + 49, little):
            return none, none
        if not keyed:
            return np.int64(little), body
        stated_size = number(data, p + 53, 4, little)
        if stated_size < 0 or stated_size > end - body:
            return none, none
        return np.int64(little | BYTE_KEY), body + stated_size
    return none, none


@compiled
def _version_2(data, p, end):  # noqa: C901
    """The shape of an event of version 2 and where its payload begins; -1 if it is read exactly."""
    none = np.int64(-1)
    size = end - p
    if size < _V2_FIXED:
        return none, none
    little = 0
    if _stated(data, p + 1, 0) != _MAGIC:
        little = 1
        if _stated(data, p + 1, 1) != _MAGIC:
            return none, none
    head = number(data, p + 5, 4, little)
    if head < _V2_FIXED or head > size or number(data, p + 17, 4, little) != size:
        return none, none
    body = p + head
    if checksum(data, p + 13, body) != _stated(data, p + 9, little):
        return none, none
    if checksum(data, body, end) != _stated(data, p + 13, little):
        return none, none
    attributes = number(data, p + 21, 2, little)
    if attributes & 0xC0 != 0x80:
        return none, none
    shape = np.int64(little | SECOND)
    kind = attributes >> 2 & 3
    if kind == 1:
        if head != _V2_LONG:
            return none, none
    elif kind == 2:
        shape |= BYTE_KEY
        stated_size = head - _V2_FIXED - 4
        if stated_size < 0 or number(data, p + _V2_FIXED, 4, little) != stated_size:
            return none, none
    else:
        return none, none
    return shape, body


@compiled
def events(data, begins, ends, versions, shapes, names, rows, seeds):  # noqa: C901
    """Messages that are one event of a row, whole and with the right checksums.

    Args:
        data: the arena.
        begins: where each message begins; below zero where there is none.
        ends: where it ends.
        versions: whether schemas are named by the source and their version.
        shapes: takes the shape of its event.
        names: takes the number of its schema, see `bulk_scanning`; -1 for any other message.
        rows: takes where its row begins.
        seeds: takes a hash of what is no value before the row.
    """
    prime = np.uint64(0x100000001B3)
    for i in range(begins.shape[0]):
        p = begins[i]
        end = ends[i]
        shapes[i] = names[i] = rows[i] = -1
        if p < 0 or end <= p:
            continue
        if data[p] == 0:
            shape, row = _version_1(data, p, end)
        elif data[p] == 2:
            shape, row = _version_2(data, p, end)
        else:
            continue
        if shape < 0:
            continue
        little = shape & LITTLE
        if shape & SECOND:
            source = number(data, p + 31, 4, little)
            kind = number(data, row + 4, 2, little) if end - row >= _PART else np.int64(3)
            digest = row + _PART
            long = kind & 3 == 0
            length_at = row
            row = digest + (16 if long else 4)
            if kind & 3 > 1 or row > end or number(data, length_at, 4, little) != end - row:
                continue
            form = np.uint64(kind)
            attributes = number(data, p + 21, 2, little)
        else:
            source = number(data, p + 31, 2, little)
            digest = p + 33
            long = True
            form = np.uint64(0)
            attributes = number(data, p + 9, 2, little)
        if source <= 0:
            continue
        if versions:
            name = source << 16 | (number(data, digest, 2, little) & 0xFFFF)
        elif long:
            name = number(data, digest, 8, 0) & 0x7FFFFFFFFFFFFFFF
        else:
            name = number(data, digest, 4, 0) & 0xFFFFFFFF
        nanos = number(data, p + 23, 8, little)
        form = (form ^ np.uint64(shape)) * prime
        form = (form ^ np.uint64(attributes)) * prime
        form = (form ^ np.uint64(source)) * prime
        form = (form ^ np.uint64(time_of(nanos))) * prime
        shapes[i] = shape
        names[i] = name
        rows[i] = row
        seeds[i] = form


@compiled
def _put(starts, stops, kinds, i, s, kind, start, stop):
    starts[i, s] = start
    stops[i, s] = stop
    kinds[i, s] = kind
    return s + 1


@compiled
def scan(
    data, begins, ends, shapes, rows, seeds, entries, steps, width,
    starts, stops, kinds, counts, forms,
):  # fmt: skip
    """Find the values of events, as `avro_scanning.scan` does of rows alone.

    Args:
        data: the arena.
        begins: where each message begins.
        ends: where it ends.
        shapes: as `events` has them.
        rows: as `events` has them.
        seeds: as `events` has them.
        entries: where in `steps` the program of the row begins; below zero where it has none.
        steps: programs, one behind the other.
        width: how many values a message may have, `HEAD` at least.
        starts: takes where each value starts; the first are those of `bulk_scanning`.
        stops: takes where it stops.
        kinds: takes its kind.
        counts: takes the number of values; -1 where they are not found.
        forms: takes a hash of everything but the values.
    """
    for i in range(begins.shape[0]):
        counts[i] = -1
        entry = np.int64(entries[i])
        if entry < 0:
            continue
        p = begins[i]
        shape = shapes[i]
        kind = LITTLE_KIND if shape & LITTLE else BIG_KIND
        if shape & SECOND:
            part = p + number(data, p + 5, 4, shape & LITTLE)
            s = _put(starts, stops, kinds, i, 0, kind, p + 5, p + 21)
            s = _put(starts, stops, kinds, i, s, kind, p + 23, p + 31)
            s = _put(starts, stops, kinds, i, s, kind, p + 35, p + 37)
            s = _put(starts, stops, kinds, i, s, kind, p + 37, p + 45)
            key = p + _V2_FIXED
            if shape & BYTE_KEY:
                s = _put(starts, stops, kinds, i, s, kind, key, key + 4)
                key += 4
            s = _put(starts, stops, kinds, i, s, kind, key, part)
            s = _put(starts, stops, kinds, i, s, kind, part, part + 4)
        else:
            key = p + (57 if shape & BYTE_KEY else 53)
            s = _put(starts, stops, kinds, i, 0, kind, p + 1, p + 9)
            s = _put(starts, stops, kinds, i, s, kind, p + 11, p + 19)
            s = _put(starts, stops, kinds, i, s, kind, p + 19, p + 21)
            s = _put(starts, stops, kinds, i, s, kind, p + 21, p + 23)
            s = _put(starts, stops, kinds, i, s, kind, p + 23, p + 31)
            s = _put(starts, stops, kinds, i, s, kind, p + 49, key)
            s = _put(starts, stops, kinds, i, s, kind, key, rows[i])
        counts[i], forms[i] = values_of(
            data, rows[i], ends[i], entry, steps, width, i, s, seeds[i], starts, stops, kinds
        )


@compiled
def numbers(data, starts, lengths, little, values):
    """Numbers of at most eight bytes; 0 where `lengths` is below zero."""
    for i in range(starts.shape[0]):
        values[i] = number(data, starts[i], lengths[i], little) if lengths[i] > 0 else 0


@compiled
def micros(values, lengths, wanted):
    """Make microseconds of times in nanoseconds.

    Args:
        values: the times; takes the microseconds.
        lengths: below zero where there is none; takes `BAD` for other times than wanted.
        wanted: `WHOLE_MICROS`, `FINE`, or `ANY_TIME` for both of these.
    """
    for i in range(values.shape[0]):
        if lengths[i] <= 0:
            continue
        time = time_of(values[i])
        if time == NO_TIME or (wanted != ANY_TIME and time != wanted):
            lengths[i] = BAD
        else:
            values[i] //= 1000
