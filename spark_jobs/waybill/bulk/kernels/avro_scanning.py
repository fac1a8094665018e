"""Finding the values of Avro messages; positions are those of bytes in one array, the arena."""

from __future__ import annotations

import numpy as np

from waybill.bulk.compiling import compiled
from waybill.bulk.value_kinds import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    ENUM,
    FIXED,
    FLOAT,
    OPTIONAL,
    STRING,
    VARINT,
    VOID,
)

_END, _LEAF, _CHOICE, _UNION, _NOTHING = range(5)
"""The steps of `programs`; whatever else there is goes on at a place."""


@compiled
def confluent(data, begins, ends, names, starts):
    """The schema ids of Confluent's framing.

    Args:
        data: the arena.
        begins: where each message begins; below zero where there is none.
        ends: where it ends.
        names: takes the id; -1 where it is not framed so.
        starts: takes where the Avro data begins.
    """
    for i in range(begins.shape[0]):
        p = begins[i]
        names[i] = -1
        starts[i] = p
        if p < 0 or ends[i] - p < 5 or data[p] != 0:
            continue
        name = np.int64(0)
        for k in range(1, 5):
            name = (name << 8) | np.int64(data[p + k])
        names[i] = name
        starts[i] = p + 5


@compiled
def _varint_end(data, p, end, bits):
    """The end of a varint of so many bits in its shortest form; -1 where there is none."""
    first = p
    while p < end and data[p] > 127:
        p += 1
    if p >= end:
        return np.int64(-1)
    size = p + 1 - first
    last = data[p]
    if size > 1 and last == 0:
        return np.int64(-1)
    if bits == 32:
        if size > 5 or (size == 5 and last > 15):
            return np.int64(-1)
    elif size > 10 or (size == 10 and last > 1):
        return np.int64(-1)
    return p + 1


@compiled
def unsigned(data, p, end):
    """The number of a varint that ends before `end`."""
    number = np.uint64(0)
    shift = np.uint64(0)
    while p < end:
        number |= np.uint64(data[p] & 127) << shift
        shift += np.uint64(7)
        p += 1
    return number


@compiled
def is_utf8(data, p, end):  # noqa: C901
    """Whether bytes are a text, by the rules of Python: none too long, no surrogates."""
    while p < end:
        b = data[p]
        if b < 128:
            p += 1
            continue
        low, high = 128, 191
        if b < 194:
            return False
        if b < 224:
            more = 1
        elif b < 240:
            more = 2
            if b == 224:
                low = 160
            elif b == 237:
                high = 159
        elif b < 245:
            more = 3
            if b == 240:
                low = 144
            elif b == 244:
                high = 143
        else:
            return False
        if p + more >= end:
            return False
        if data[p + 1] < low or data[p + 1] > high:
            return False
        for k in range(2, more + 1):
            if data[p + k] < 128 or data[p + k] > 191:
                return False
        p += more + 1
    return True


@compiled
def values_of(  # noqa: C901
    data, p, end, entry, steps, width, i, found, form, starts, stops, kinds
):
    """Find the values of one message.

    Args:
        data: the arena.
        p: where its data begins.
        end: where it ends.
        entry: where in `steps` its program begins.
        steps: programs, one behind the other.
        width: how many values a message may have.
        i: the number of the message.
        found: how many values it has before these.
        form: a hash of what is no value before these.
        starts: takes where each value starts, without its branch and length.
        stops: takes where it stops.
        kinds: takes its kind.

    Returns:
        The number of values, with those before; -1 for a message that is damaged, or written with
        more bytes than it takes. Then a hash of the program and the branches taken, null or not
        apart.
    """
    prime = np.uint64(0x100000001B3)
    at = np.int64(entry)
    form = (form ^ np.uint64(entry)) * prime
    good = True
    while True:
        step = steps[at]
        if step == _END:
            good = p == end
            break
        if step == _UNION:
            if p >= end:
                good = False
                break
            branch = np.int64(data[p])
            if branch & 1 or branch >= 2 * steps[at + 1]:
                good = False
                break
            p += 1
            form = (form ^ np.uint64(branch + 1)) * prime
            at = entry + steps[at + 2 + (branch >> 1)]
            continue
        if step > _NOTHING:
            at = entry + steps[at + 1]
            continue
        if found >= width:
            good = False
            break
        kind = np.int64(VOID)
        bits = 0
        optional = 0
        if step == _NOTHING:
            at += 1
        elif step == _LEAF:
            kind = steps[at + 1]
            bits = steps[at + 2]
            at += 3
        else:
            if p >= end:
                good = False
                break
            branch = np.int64(data[p])
            if branch != 0 and branch != 2:
                good = False
                break
            p += 1
            if branch != 2 * steps[at + 3]:
                kind = steps[at + 1]
                bits = steps[at + 2]
                optional = OPTIONAL
            at += 4
        start = p
        if kind == VARINT:
            p = _varint_end(data, p, end, bits)
        elif kind >= BYTES:
            stop = _varint_end(data, p, end, 64)
            if stop < 0:
                good = False
                break
            length = unsigned(data, p, stop)
            if length & np.uint64(1) or length >> np.uint64(1) > np.uint64(end - stop):
                good = False
                break
            start = stop
            p = stop + np.int64(length >> np.uint64(1))
            if kind == STRING and not is_utf8(data, start, p):
                good = False
                break
        elif kind == BOOLEAN:
            if p >= end or data[p] > 1:
                good = False
                break
            p += 1
        elif kind == FLOAT:
            p += 4
        elif kind == DOUBLE:
            p += 8
        elif kind == FIXED:
            p += bits
        elif kind == ENUM:
            p = _varint_end(data, p, end, 64)
            if p >= 0:
                length = unsigned(data, start, p)
                if length & np.uint64(1) or length >> np.uint64(1) >= np.uint64(bits):
                    p = np.int64(-1)
        if p < 0 or p > end:
            good = False
            break
        starts[i, found] = start
        stops[i, found] = p
        kinds[i, found] = kind + optional
        found += 1
    return np.int64(found if good else -1), (form ^ np.uint64(found)) * prime


@compiled
def scan(data, begins, ends, entries, steps, width, starts, stops, kinds, counts, forms):
    """Find the values of Avro messages, as `kernels.scan` does of JSON.

    Args:
        data: the arena.
        begins: where the data of each message begins.
        ends: where it ends.
        entries: where in `steps` its program begins; below zero where it has none.
        steps: programs, one behind the other.
        width: how many values a message may have.
        starts: takes where each value starts, without its branch and length.
        stops: takes where it stops.
        kinds: takes its kind.
        counts: takes the number of values; -1 where they are not found, see `values_of`.
        forms: takes a hash of everything but the values.
    """
    first = np.uint64(0xCBF29CE484222325)
    for i in range(begins.shape[0]):
        entry = np.int64(entries[i])
        if entry < 0:
            counts[i] = -1
            continue
        counts[i], forms[i] = values_of(
            data, begins[i], ends[i], entry, steps, width, i, 0, first, starts, stops, kinds
        )
