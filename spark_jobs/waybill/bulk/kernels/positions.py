"""Numbers in the positions of sources' logs."""

from __future__ import annotations

import numpy as np

from waybill.bulk.compiling import compiled
from waybill.bulk.raw_memory import ahead
from waybill.bulk.value_kinds import BAD


@compiled
def _after_file(arena, p, end):
    """Where the digits of a binlog's file begin, behind its name and a point; -1 for none."""
    if p >= end or not (65 <= arena[p] <= 90 or 97 <= arena[p] <= 122):
        return np.int64(-1)
    while p < end and (
        65 <= arena[p] <= 90
        or 97 <= arena[p] <= 122
        or 48 <= arena[p] <= 57
        or arena[p] == 95
        or arena[p] == 45
    ):
        p += 1
    return p + 1 if p < end and arena[p] == 46 else np.int64(-1)


@compiled
def numbers_of(arena, starts, lengths, file, longest, begins, sizes):  # noqa: C901
    """Find the numbers of positions that are numbers, without zeros in front.

    Args:
        arena: where the texts are.
        starts: where each starts.
        lengths: how long it is.
        file: whether a binlog's file stands in front, and colons between numbers, not points.
        longest: how long a position may be.
        begins: takes where each number of each starts: a row for each number.
        sizes: takes how long it is; `BAD` where a position does not have so many of them.
    """
    count = begins.shape[0]
    for i in range(starts.shape[0]):
        ahead(arena, starts, i)
        size = lengths[i]
        p = starts[i]
        end = p + size
        good = 0 < size <= longest
        if good and file:
            p = _after_file(arena, p, end)
            good = p >= 0
        part = 0
        while good:
            first = p
            while p < end and 48 <= arena[p] <= 57:
                p += 1
            good = p > first and part < count
            if file:
                good = good and (part > 0 or p - first <= 18)
                while first < p - 1 and arena[first] == 48:
                    first += 1
            elif good:
                good = arena[first] != 48 or p - first == 1
            if good:
                begins[part, i] = first
                sizes[part, i] = p - first
            part += 1
            if p == end:
                break
            good = good and arena[p] == (58 if file else 46)
            p += 1
        if not good or part != count or (file and part < 2):
            for k in range(count):
                begins[k, i] = 0
                sizes[k, i] = BAD


@compiled
def one_of_log(arena, starts, lengths, count, wanted, longest, values):  # noqa: C901
    """One of the numbers of PostgreSQL's positions, `0/7C007178.3.0/7C007178`.

    Args:
        arena: where the texts are.
        starts: where each starts.
        lengths: how long it is; becomes `BAD` for other texts.
        count: how many numbers there are.
        wanted: which one is asked for.
        longest: how long a position may be.
        values: takes them.
    """
    for i in range(starts.shape[0]):
        ahead(arena, starts, i)
        values[i] = 0
        size = lengths[i]
        if size < 0:
            continue
        p = starts[i]
        end = p + size
        good = 0 < size <= longest
        part = 0
        while good:
            first = p
            high = np.int64(0)
            plain = np.int64(0)
            digits = True
            while p < end and p - first < 18:
                c = np.int64(arena[p])
                if 48 <= c <= 57:
                    plain = plain * 10 + c - 48
                    high = high * 16 + c - 48 if p - first < 8 else high
                elif 65 <= c <= 70 and p - first < 8:
                    digits = False
                    high = high * 16 + c - 55
                else:
                    break
                p += 1
            good = p > first
            if good and p < end and arena[p] == 47:
                good = p - first <= 8 and high < 2**31
                p += 1
                first = p
                low = np.int64(0)
                while p < end and p - first < 8:
                    c = np.int64(arena[p])
                    if 48 <= c <= 57:
                        low = low * 16 + c - 48
                    elif 65 <= c <= 70:
                        low = low * 16 + c - 55
                    else:
                        break
                    p += 1
                good = good and p > first
                plain = high * np.int64(2**32) + low
            elif good:
                good = digits and part > 0 and (arena[first] != 48 or p - first == 1)
            if part == wanted:
                values[i] = plain
            part += 1
            if p == end:
                break
            good = good and arena[p] == 46
            p += 1
        if not good or part != count:
            lengths[i] = BAD


@compiled
def file_alone(arena, starts, lengths, longest):
    """Leave of positions of a binlog in full the number of its file, without zeros in front.

    Args:
        arena: where the texts are.
        starts: where each starts; takes where the number does.
        lengths: how long it is; `BAD` for other texts, and where numbers alone follow the file.
        longest: how long a position may be.
    """
    for i in range(starts.shape[0]):
        ahead(arena, starts, i)
        size = lengths[i]
        if size < 0:
            continue
        end = starts[i] + size
        p = np.int64(-1)
        if size <= longest:
            p = _after_file(arena, starts[i], end)
        first = p
        good = p >= 0
        while good and p < end and 48 <= arena[p] <= 57:
            p += 1
        good = good and 0 < p - first <= 18 and p < end and arena[p] == 58
        last = p
        other = False
        while good and p < end:
            good = arena[p] < 128
            other = other or not 48 <= arena[p] <= 58
            p += 1
        if not good or not other:
            lengths[i] = BAD
            continue
        while first < last - 1 and arena[first] == 48:
            first += 1
        starts[i] = first
        lengths[i] = last - first


@compiled
def without_zeros(arena, starts, lengths):
    """Leave out zeros in front of digits."""
    for i in range(starts.shape[0]):
        ahead(arena, starts, i)
        while lengths[i] > 1 and arena[starts[i]] == 48:
            starts[i] += 1
            lengths[i] -= 1
