"""Finding the values of Databus's events in JSON; positions are those of bytes in the arena."""

from __future__ import annotations

import numpy as np

from waybill.bulk.compiling import compiled
from waybill.bulk.kernels.avro_scanning import values_of
from waybill.bulk.kernels.single_values import same_bytes
from waybill.bulk.raw_memory import copy, put_word, word
from waybill.bulk.value_kinds import INTEGER
from waybill.envelopes.databus.kernels.binary_scanning import time_of

HEAD = 5
"""Values before those of the row: key, sequence, logical and physical partition, and time."""

_PIECES = (
    *(b'{"opcode":"', b'","key":', b',"sequence":', b',"logicalPartitionId":'),
    *(b',"physicalPartitionId":', b',"timestampInNanos":', b',"srcId":', b',"schemaId":"'),
    *(b'","valueEnc":"JSON","isReplicated":', b',"value":"', b'"}'),
    *(b"UPSERT", b"DELETE", b"true", b"false", b"=="),
)
"""What stands between the values of a usual row, and then some of these values."""
_DIGEST, _REPLICATED, _VALUE, _LAST, _UPSERT, _DELETE, _TRUE, _FALSE, _PADS = range(7, 16)
_TEXT = np.frombuffer(b"".join(_PIECES) + bytes(8), np.uint8)
_CUTS = np.cumsum([0, *map(len, _PIECES)])
_LOGICAL, _PHYSICAL, _NANOS, _SOURCE = range(2, 6)
"""Which of the numbers are these; key and sequence come before."""
_SHORT = (_LOGICAL, _PHYSICAL, _SOURCE)
"""Numbers of 16 bits."""
_DIGEST_SIZE = 24
_PAD = 61

_SIGNS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_NONE = np.uint32(1 << 24)
"""Marks what is no sign of Base64."""


def _sixes():
    """For each of four signs of Base64 what it adds to three bytes, the first byte the lowest."""
    found = np.full((4, 256), _NONE, np.uint32)
    for six, sign in enumerate(_SIGNS):
        for place in range(4):
            number = (six << 18 - 6 * place).to_bytes(3, "big")
            found[place, sign] = int.from_bytes(number, "little")
    return found.reshape(-1)


_SIXES = _sixes()


@compiled
def _past(data, p, end, which):
    """The end of a piece that stands at `p`; -1 where it does not, or where `p` is below zero."""
    size = _CUTS[which + 1] - _CUTS[which]
    if p < 0 or end - p < size or not same_bytes(data, p, _TEXT, _CUTS[which], size):
        return np.int64(-1)
    return p + size


@compiled
def _integer(data, p, end):
    """An integer in plain digits and where it stops; -1 for another text, and out of 64 bits."""
    none = np.int64(-1)
    minus = p < end and data[p] == 45
    if minus:
        p += 1
    first = p
    value = np.uint64(0)
    while p < end and 48 <= data[p] <= 57 and p - first < 20:
        value = value * np.uint64(10) + np.uint64(data[p] - 48)
        p += 1
    size = p - first
    if size == 0 or size > 19 or value > np.uint64(0x7FFFFFFFFFFFFFFF):
        return none, none
    if data[first] == 48 and (size > 1 or minus):
        return none, none
    return p, -np.int64(value) if minus else np.int64(value)


@compiled
def _first_bytes(data, p):
    """Eight bytes of Base64 as a number, the first byte the highest; and whether 16 bytes stand."""
    found = np.uint64(0)
    good = _past(data, p + 22, p + 24, _PADS) >= 0
    for k in range(22):
        # In the last place a sign is its six bits, of which the first is the highest.
        six = _SIXES[768 + np.int64(data[p + k])] >> np.uint32(16)
        good = good and six < 64
        if k < 10:
            found = found << np.uint64(6) | np.uint64(six)
        elif k == 10:
            found = found << np.uint64(4) | np.uint64(six >> np.uint32(2))
    return good, found


@compiled
def decoded(data, p, end, at):
    """Write what Base64 stands for; up to eight bytes more may be written behind it.

    Args:
        data: the arena.
        p: where it begins.
        end: where it ends.
        at: where to write.

    Returns:
        Where that ends; -1 for what is no Base64 in its one notation, and for none.
    """
    none = np.int64(-1)
    if end - p < 4 or (end - p) & 3:
        return none
    low = np.uint64(255)
    while end - p > 8:
        signs = word(data, p)
        one = (
            _SIXES[signs & low]
            | _SIXES[np.uint64(256) + (signs >> np.uint64(8) & low)]
            | _SIXES[np.uint64(512) + (signs >> np.uint64(16) & low)]
            | _SIXES[np.uint64(768) + (signs >> np.uint64(24) & low)]
        )
        other = (
            _SIXES[signs >> np.uint64(32) & low]
            | _SIXES[np.uint64(256) + (signs >> np.uint64(40) & low)]
            | _SIXES[np.uint64(512) + (signs >> np.uint64(48) & low)]
            | _SIXES[np.uint64(768) + (signs >> np.uint64(56))]
        )
        if (one | other) & _NONE:
            return none
        put_word(data, at, np.uint64(one) | np.uint64(other) << np.uint64(24))
        at += 6
        p += 8
    while True:
        last = p + 4 == end
        c = np.int64(data[p + 2])
        d = np.int64(data[p + 3])
        size = 3
        three = _SIXES[np.int64(data[p])] | _SIXES[256 + np.int64(data[p + 1])]
        if last and d == _PAD:
            size = 1 if c == _PAD else 2
        if size > 1:
            three |= _SIXES[512 + c]
        if size > 2:
            three |= _SIXES[768 + d]
        if three & _NONE or three >> np.uint32(8 * size):
            return none
        put_word(data, at, np.uint64(three))
        at += size
        p += 4
        if last:
            return at


@compiled
def rewritten(data, begins, ends, versions, at, names, rows, seeds, cuts, firsts, lasts):  # noqa: C901
    """Write usual rows again, with the bytes of the row in place of its Base64.

    Args:
        data: the arena.
        begins: where each message begins; below zero where there is none.
        ends: where it ends.
        versions: whether schemas are named by the source and their version.
        at: where to write, as many bytes as all have and eight more.
        names: takes the number of its schema, see `bulk_scanning`; -1 for any other message.
        rows: takes where its row begins.
        seeds: takes a hash of what is no value before the row.
        cuts: takes where in the message each value before the row starts and stops.
        firsts: takes where the new text begins; it ends with the row.
        lasts: takes where it ends.

    Returns:
        Where the last one ends.
    """
    prime = np.uint64(0x100000001B3)
    for i in range(begins.shape[0]):
        names[i] = -1
        begin = begins[i]
        end = ends[i]
        opcode = _past(data, begin, end, 0)
        if opcode < 0:
            continue
        delete = _past(data, opcode, end, _DELETE) >= 0
        p = _past(data, opcode, end, _DELETE if delete else _UPSERT)
        nanos = source = np.int64(0)
        for n in range(6):
            p = _past(data, p, end, n + 1)
            if p < 0:
                break
            start = p
            p, value = _integer(data, start, end)
            if n < _SOURCE:
                cuts[i, 2 * n] = start - begin
                cuts[i, 2 * n + 1] = p - begin
            if n == _NANOS:
                nanos = value
            elif n == _SOURCE:
                source = value
                if value < 1:
                    p = np.int64(-1)
            if n in _SHORT and value != np.int16(value):
                p = np.int64(-1)
        p = _past(data, p, end, _DIGEST)
        if p < 0 or end - p < _DIGEST_SIZE:
            continue
        good, name = _first_bytes(data, p)
        p = _past(data, p + _DIGEST_SIZE, end, _REPLICATED)
        replicated = _past(data, p, end, _TRUE) >= 0
        p = _past(data, p, end, _TRUE if replicated else _FALSE)
        p = _past(data, p, end, _VALUE)
        if not good or p < 0 or _past(data, end - 2, end, _LAST) < 0:
            continue
        row = at + p - begin
        copy(data, at, data, begin, p - begin)
        last = decoded(data, p, end - 2, row)
        if last < 0:
            continue
        if versions:
            names[i] = source << 16 | np.int64(name >> np.uint64(48))
        else:
            names[i] = np.int64(name & np.uint64(0x7FFFFFFFFFFFFFFF))
        form = np.uint64(4 * time_of(nanos) + 2 * replicated + delete)
        seeds[i] = ((form * prime) ^ np.uint64(source)) * prime
        rows[i] = row
        firsts[i] = at
        lasts[i] = last
        at = last
    return at


@compiled
def scan(
    data, firsts, lasts, cuts, rows, seeds, entries, steps, width,
    starts, stops, kinds, counts, forms,
):  # fmt: skip
    """Find the values of messages that were rewritten, as `avro_scanning.scan` does of rows alone.

    Args:
        data: the arena.
        firsts: where each text begins.
        lasts: where it ends.
        cuts: as `rewritten` has them.
        rows: as `rewritten` has them.
        seeds: as `rewritten` has them.
        entries: where in `steps` the program of the row begins; below zero where it has none.
        steps: programs, one behind the other.
        width: how many values a message may have, `HEAD` at least.
        starts: takes where each value starts; the first are those of `HEAD`.
        stops: takes where it stops.
        kinds: takes its kind.
        counts: takes the number of values; -1 where they are not found.
        forms: takes a hash of everything but the values.
    """
    for i in range(firsts.shape[0]):
        counts[i] = -1
        entry = np.int64(entries[i])
        if entry < 0:
            continue
        for s in range(HEAD):
            starts[i, s] = firsts[i] + cuts[i, 2 * s]
            stops[i, s] = firsts[i] + cuts[i, 2 * s + 1]
            kinds[i, s] = INTEGER
        counts[i], forms[i] = values_of(
            data, rows[i], lasts[i], entry, steps, width, i, HEAD, seeds[i], starts, stops, kinds
        )
