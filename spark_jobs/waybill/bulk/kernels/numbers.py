"""Numbers and texts of numbers."""

from __future__ import annotations

import numpy as np

from waybill.bulk.compiling import compiled
from waybill.bulk.kinds import BAD


@compiled
def integers(arena, starts, lengths, most, values):
    """Integers of texts in plain digits; `lengths` becomes `BAD` for other texts and longer ones.

    Args:
        arena: where the texts are.
        starts: where each starts.
        lengths: how long it is; below zero where there is none, which gives 0.
        most: how many digits are taken, at most 19; those beyond 2**63 - 1 are not.
        values: takes the integers.
    """
    largest = np.int64(2**63 - 1)
    for i in range(starts.shape[0]):
        size = lengths[i]
        values[i] = 0
        if size < 0:
            continue
        p = starts[i]
        end = p + size
        minus = size > 0 and arena[p] == 45
        if minus:
            p += 1
        good = 0 < end - p <= most and not (arena[p] == 48 and (end - p > 1 or minus))
        short = p + 18
        value = np.int64(0)
        if good:
            while p < end:
                digit = np.int64(arena[p]) - 48
                if digit < 0 or digit > 9:
                    good = False
                    break
                if p >= short and value > (largest - digit) // 10:
                    good = False
                    break
                value = value * 10 + digit
                p += 1
        if good:
            values[i] = -value if minus else value
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
