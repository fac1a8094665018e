"""Numbers and texts of numbers."""

from __future__ import annotations

import numpy as np

from waybill.bulk.compiling import compiled
from waybill.bulk.raw_memory import ahead, word
from waybill.bulk.value_kinds import BAD

_MINUS, _ZERO = 45, 48
_LARGEST = np.uint64(2**63 - 1)
_TENS = np.array([10**power for power in range(9)], np.uint64)
_ZEROS = np.uint64(0x3030303030303030)
_HALVES = np.uint64(0xF0F0F0F0F0F0F0F0)
_SIXES = np.uint64(0x0606060606060606)


@compiled
def _few_digits(arena, p, size):
    """Whether up to eight bytes are digits, and their number; all eight are looked at together."""
    others = np.uint64(64 - 8 * size)
    # The digits come last, behind zeros: the first byte is the lowest, and is worth the most.
    bytes_ = (word(arena, p) << others) | (
        _ZEROS >> np.uint64(8 * size) if size < 8 else np.uint64(0)
    )
    high = (bytes_ & _HALVES) | (((bytes_ + _SIXES) & _HALVES) >> np.uint64(4))
    if high != np.uint64(0x3333333333333333):
        return False, np.uint64(0)
    bytes_ = (bytes_ & np.uint64(0x0F0F0F0F0F0F0F0F)) * np.uint64(2561) >> np.uint64(8)
    bytes_ = (bytes_ & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(6553601) >> np.uint64(16)
    number = (bytes_ & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(42949672960001) >> np.uint64(32)
    return True, number


@compiled
def integers(arena, starts, lengths, most, values):
    """Integers of texts in plain digits; `lengths` becomes `BAD` for other texts and longer ones.

    Args:
        arena: where the texts are; eight bytes behind them may be looked at.
        starts: where each starts.
        lengths: how long it is; below zero where there is none, which gives 0.
        most: how many digits are taken, at most 19; those beyond 2**63 - 1 are not.
        values: takes the integers.
    """
    for i in range(starts.shape[0]):
        ahead(arena, starts, i)
        size = lengths[i]
        values[i] = 0
        if size < 0:
            continue
        p = starts[i]
        minus = size > 0 and arena[p] == _MINUS
        if minus:
            p += 1
            size -= 1
        good = 0 < size <= most and not (arena[p] == _ZERO and (size > 1 or minus))
        value = np.uint64(0)
        while good and size > 0:
            step = min(size, 8)
            good, part = _few_digits(arena, p, step)
            value = value * _TENS[step] + part
            p += step
            size -= step
        if good and value <= _LARGEST:
            values[i] = -np.int64(value) if minus else np.int64(value)
        else:
            lengths[i] = BAD


@compiled
def digits(values, arena, at, starts, lengths):
    """Write integers in plain digits into the arena.

    Args:
        values: the integers.
        arena: takes the digits, 20 bytes for each.
        at: where in it.
        starts: takes where each starts.
        lengths: takes how long it is; nothing is written where it is below zero.
    """
    for i in range(values.shape[0]):
        if lengths[i] < 0:
            continue
        value = values[i]
        minus = value < 0
        # The smallest integer has no positive counterpart with sign.
        rest = np.uint64(-(value + 1)) + np.uint64(1) if minus else np.uint64(value)
        p = at + 20
        while True:
            p -= 1
            arena[p] = 48 + np.uint8(rest % np.uint64(10))
            rest //= np.uint64(10)
            if rest == 0:
                break
        if minus:
            p -= 1
            arena[p] = 45
        starts[i] = p
        lengths[i] = at + 20 - p
        at += 20


@compiled
def plain_decimals(arena, starts, lengths, whole, scale):
    """Mark texts as `BAD` that are no numbers in plain digits of a certain size.

    Args:
        arena: where the texts are.
        starts: where each starts.
        lengths: how long it is; becomes `BAD`.
        whole: how many digits may stand before the point; a single 0 always may.
        scale: how many may stand behind it.
    """
    for i in range(starts.shape[0]):
        ahead(arena, starts, i)
        size = lengths[i]
        if size < 0:
            continue
        p = starts[i]
        end = p + size
        if size > 0 and arena[p] == 45:
            p += 1
        first = p
        while p < end and 48 <= arena[p] <= 57:
            p += 1
        good = p > first
        if good:
            zero = arena[first] == 48
            good = p - first == 1 if zero else p - first <= whole
        if good and p < end:
            good = arena[p] == 46 and 0 < end - p - 1 <= scale
            p += 1
            while good and p < end:
                good = 48 <= arena[p] <= 57
                p += 1
        if not good:
            lengths[i] = BAD


@compiled
def short_floats(arena, starts, lengths):  # noqa: C901
    """Mark texts as `BAD` that may not be what Python writes for the float64 that they stand for.

    A number of at most 15 digits is the shortest text of its float64. Python writes it in plain
    digits from 0.0001 on, always with a point, and with no more zeros behind it than it takes.
    """
    for i in range(starts.shape[0]):
        ahead(arena, starts, i)
        size = lengths[i]
        if size < 0:
            continue
        p = starts[i]
        end = p + size
        if size > 0 and arena[p] == 45:
            p += 1
        first = p
        point = np.int64(-1)
        other = np.int64(-1)  # where the first digit but 0 stands
        good = 3 <= end - p <= 16
        while good and p < end:
            byte = arena[p]
            if byte == 46 and point < 0:
                point = p
            elif byte < 48 or byte > 57:
                good = False
            elif byte != 48 and other < 0:
                other = p
            p += 1
        good = good and point > first and end - point > 1
        if good:
            good = arena[first] != 48 or point - first == 1
        if good:
            good = arena[end - 1] != 48 or end - point == 2
        if good and other > point:
            good = other - point <= 4
        if not good:
            lengths[i] = BAD


@compiled
def words(arena, starts, lengths):
    """Mark texts as `BAD` that are neither `true` nor `false`."""
    for i in range(starts.shape[0]):
        ahead(arena, starts, i)
        p = starts[i]
        good = lengths[i] < 0
        if lengths[i] == 4:
            good = (
                arena[p] == 116
                and arena[p + 1] == 114
                and arena[p + 2] == 117
                and arena[p + 3] == 101
            )
        elif lengths[i] == 5:
            good = (
                arena[p] == 102
                and arena[p + 1] == 97
                and arena[p + 2] == 108
                and arena[p + 3] == 115
                and arena[p + 4] == 101
            )
        if not good:
            lengths[i] = BAD


@compiled
def number_in_text(arena, starts, lengths, opening, marks, which):  # noqa: C901
    """Find one of the numbers of texts that are an opening and then numbers with marks before them.

    Args:
        arena: where the texts are.
        starts: where each starts; takes where the digits of the number do, leading zeros left out.
        lengths: how long it is; takes how many digits there are, `BAD` where a text is another one.
        opening: the bytes before the first mark.
        marks: the byte before each number; 0 where there is none.
        which: which of the numbers.
    """
    for i in range(starts.shape[0]):
        ahead(arena, starts, i)
        if lengths[i] < 0:
            continue
        p = starts[i]
        end = p + lengths[i]
        good = end - p >= opening.shape[0]
        if good:
            for k in range(opening.shape[0]):
                if arena[p + k] != opening[k]:
                    good = False
                    break
            p += opening.shape[0]
        found = p
        size = np.int64(0)
        for k in range(marks.shape[0]):
            if not good:
                break
            if marks[k] != 0:
                good = p < end and arena[p] == marks[k]
                p += 1
            first = p
            while good and p < end and 48 <= arena[p] <= 57:
                p += 1
            good = good and p > first
            if k == which:
                while first < p - 1 and arena[first] == 48:
                    first += 1
                found = first
                size = p - first
        if good and p == end:
            starts[i] = found
            lengths[i] = size
        else:
            lengths[i] = BAD


@compiled
def padded_digits(values, width, arena, at, starts, lengths):
    """Write integers from 0 on with leading zeros into the arena.

    Args:
        values: the integers.
        width: how many digits are written; more than the largest integer has.
        arena: takes them, `width` bytes for each.
        at: where in it.
        starts: takes where each starts.
        lengths: takes how long it is; `BAD` for an integer below 0.
    """
    for i in range(values.shape[0]):
        value = values[i]
        if value < 0:
            lengths[i] = BAD
            continue
        for k in range(width):
            arena[at + width - 1 - k] = 48 + value % 10
            value //= 10
        starts[i] = at
        lengths[i] = width
        at += width
