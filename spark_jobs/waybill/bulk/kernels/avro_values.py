"""What values of Avro say, and how they are written."""

from __future__ import annotations

import numpy as np

from waybill.bulk.compiling import compiled
from waybill.bulk.kernels.avro_scanning import unsigned
from waybill.bulk.raw_memory import ahead, copy
from waybill.bulk.value_kinds import BAD, NULL_SIZE

# Reading


@compiled
def numbers(data, starts, lengths, values):
    """Integers of varints; 0 where `lengths` is below zero."""
    for i in range(starts.shape[0]):
        ahead(data, starts, i)
        values[i] = 0
        if lengths[i] > 0:
            number = unsigned(data, starts[i], starts[i] + lengths[i])
            half = np.int64(number >> np.uint64(1))
            values[i] = ~half if number & np.uint64(1) else half


@compiled
def escaped(arena, starts, lengths, at):  # noqa: C901
    """Texts as they stand in JSON; those that are no others stay where they are.

    Args:
        arena: where the texts are, and where they are written.
        starts: where each starts; takes where the new one does.
        lengths: how long it is; takes the new length, `BAD` for a sign that has no short escape.
        at: where in the arena to write, twice the bytes of all.

    Returns:
        Where the last one ends.
    """
    for i in range(starts.shape[0]):
        ahead(arena, starts, i)
        size = lengths[i]
        start = starts[i]
        plain = np.int64(0)
        while plain < size:
            b = arena[start + plain]
            if b < 32 or b == 34 or b == 92:
                break
            plain += 1
        if plain >= size:
            continue
        copy(arena, at, arena, start, plain)
        p = at + plain
        good = True
        for k in range(plain, size):
            b = arena[start + k]
            if b >= 32 and b != 34 and b != 92:
                arena[p] = b
                p += 1
                continue
            if b == 8:
                b = np.uint8(98)
            elif b == 9:
                b = np.uint8(116)
            elif b == 10:
                b = np.uint8(110)
            elif b == 12:
                b = np.uint8(102)
            elif b == 13:
                b = np.uint8(114)
            elif b < 32:
                good = False
                break
            arena[p] = 92
            arena[p + 1] = b
            p += 2
        starts[i] = at
        lengths[i] = p - at if good else BAD
        at = p
    return at


@compiled
def decimals(arena, starts, lengths, scale, at):
    """Unscaled digits of at most 8 bytes as numbers in plain digits.

    Args:
        arena: where the bytes are, and where the digits are written.
        starts: where each starts; takes where the digits do.
        lengths: how many bytes there are; takes how many digits, `BAD` for none and for more.
        scale: how many digits stand behind the point, at most 30.
        at: where in the arena to write, 64 bytes for each.

    Returns:
        Where the last one ends.
    """
    for i in range(starts.shape[0]):
        ahead(arena, starts, i)
        size = lengths[i]
        if size < 0:
            continue
        if size == 0 or size > 8:
            lengths[i] = BAD
            continue
        number = np.uint64(0)
        for k in range(size):
            number = (number << np.uint64(8)) | np.uint64(arena[starts[i] + k])
        minus = arena[starts[i]] > 127
        if minus:
            # The digits of the positive counterpart, which may be 2**63.
            spare = np.uint64(64 - 8 * size)
            number = (~number << spare) >> spare
            number += np.uint64(1)
        p = at + 64
        digit = 0
        while number > 0 or digit <= scale:
            if digit == scale and scale > 0:
                p -= 1
                arena[p] = 46
            p -= 1
            arena[p] = 48 + np.uint8(number % np.uint64(10))
            number //= np.uint64(10)
            digit += 1
        if minus:
            p -= 1
            arena[p] = 45
        starts[i] = p
        lengths[i] = at + 64 - p
        at += 64
    return at


# Writing


@compiled
def _put_varint(rest, arena, at):
    """Write a number in groups of seven bits, the lowest first; returns where it ends."""
    while rest > np.uint64(127):
        arena[at] = np.uint8(rest & np.uint64(127)) | 128
        rest >>= np.uint64(7)
        at += 1
    arena[at] = np.uint8(rest)
    return at + 1


@compiled
def varints(values, arena, starts, lengths, at):
    """Write integers as varints into the arena.

    Args:
        values: the integers.
        arena: takes them, 10 bytes for each at most.
        starts: takes where each starts.
        lengths: takes how long it is; nothing is written where it is below zero.
        at: where in the arena.

    Returns:
        Where the last one ends.
    """
    for i in range(values.shape[0]):
        if lengths[i] < 0:
            continue
        starts[i] = at
        at = _put_varint(np.uint64(values[i] << 1) ^ np.uint64(values[i] >> 63), arena, at)
        lengths[i] = at - starts[i]
    return at


@compiled
def unescaped(arena, starts, lengths, at):  # noqa: C901
    """Texts as they are, of those that stand as in JSON; without escapes they stay where they are.

    Args:
        arena: where the texts are, and where they are written.
        starts: where each starts; takes where the new one does.
        lengths: how long it is; takes the new length, `BAD` for other escapes than the shortest.
        at: where in the arena to write, as many bytes as all have.

    Returns:
        Where the last one ends.
    """
    for i in range(starts.shape[0]):
        ahead(arena, starts, i)
        size = lengths[i]
        start = starts[i]
        plain = np.int64(0)
        while plain < size and arena[start + plain] != 92:
            plain += 1
        if plain >= size:
            continue
        copy(arena, at, arena, start, plain)
        p = at + plain
        k = plain
        good = True
        while k < size:
            b = arena[start + k]
            k += 1
            if b == 92:
                b = arena[start + k] if k < size else np.uint8(0)
                k += 1
                if b == 98:
                    b = np.uint8(8)
                elif b == 116:
                    b = np.uint8(9)
                elif b == 110:
                    b = np.uint8(10)
                elif b == 102:
                    b = np.uint8(12)
                elif b == 114:
                    b = np.uint8(13)
                elif b != 34 and b != 92:
                    good = False
                    break
            arena[p] = b
            p += 1
        starts[i] = at
        lengths[i] = p - at if good else BAD
        at = p
    return at


@compiled
def dressed(arena, starts, lengths, sized, null, at):
    """Values with their length and the number of their branch before them.

    Args:
        arena: where the values are, and where they are written.
        starts: where each starts; takes where the new one does.
        lengths: how long it is, below zero for null; takes the new length, `BAD` for a null that
            cannot be.
        sized: whether the length stands before a value.
        null: which of the two branches null is; -1 where there is none.
        at: where in the arena to write, 11 bytes for each more than all have.

    Returns:
        Where the last one ends.
    """
    for i in range(starts.shape[0]):
        ahead(arena, starts, i)
        size = lengths[i]
        if size == BAD or (size == NULL_SIZE and null < 0):
            lengths[i] = BAD
            continue
        first = at
        if null >= 0:
            arena[at] = 2 * null if size == NULL_SIZE else 2 - 2 * null
            at += 1
        if size >= 0:
            if sized:
                at = _put_varint(np.uint64(size << 1), arena, at)
            copy(arena, at, arena, starts[i], size)
            at += size
        starts[i] = first
        lengths[i] = at - first
    return at


@compiled
def unscaled(arena, starts, lengths, scale, limit, lowest, at):  # noqa: C901
    """Numbers in plain digits as the bytes of their unscaled digits.

    Args:
        arena: where the numbers are, and where the bytes are written.
        starts: where each starts; takes where the bytes do.
        lengths: how long it is; takes how many bytes there are, `BAD` for another text, for one of
            more than 18 digits or more than `scale` behind the point, and out of range.
        scale: how many digits stand behind the point at most.
        limit: the number of unscaled digits that is too large, with either sign.
        lowest: the smallest number of unscaled digits.
        at: where in the arena to write, 8 bytes for each.

    Returns:
        Where the last one ends.
    """
    for i in range(starts.shape[0]):
        ahead(arena, starts, i)
        size = lengths[i]
        if size < 0:
            continue
        p = starts[i]
        end = p + size
        lengths[i] = BAD
        minus = size > 0 and arena[p] == 45
        if minus:
            p += 1
        value = np.int64(0)
        digits = 0
        behind = np.int64(-1)
        good = p < end
        while p < end:
            b = arena[p]
            p += 1
            if b == 46 and behind < 0 and digits > 0 and p < end:
                behind = 0
                continue
            if b < 48 or b > 57 or digits >= 18:
                good = False
                break
            if b == 48 and digits == 0 and p < end and arena[p] != 46:
                good = False
                break
            value = value * 10 + (np.int64(b) - 48)
            digits += 1
            if behind >= 0:
                behind += 1
        behind = max(behind, 0)
        if not good or digits == 0 or behind > scale or digits + scale - behind > 18:
            continue
        for _ in range(scale - behind):
            value *= 10
        if minus:
            if value == 0:
                continue
            value = -value
        if value >= limit or value <= -limit or value < lowest:
            continue
        starts[i] = at
        rest = value if value >= 0 else ~value
        count = 1
        while rest > 127:
            rest >>= 8
            count += 1
        for k in range(count):
            arena[at + k] = np.uint8((value >> (8 * (count - 1 - k))) & 255)
        lengths[i] = count
        at += count
    return at
