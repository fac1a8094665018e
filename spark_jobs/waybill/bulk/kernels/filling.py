"""Putting texts between and behind others."""

from __future__ import annotations

import numpy as np

from waybill.bulk.compiling import compiled
from waybill.bulk.kernels.single_values import alike
from waybill.bulk.kinds import BAD
from waybill.bulk.raw_memory import copy, put_word, word

_SHORT = 48
"""Longer texts are copied as C does it: calling it takes longer than copying a short one."""


@compiled
def _put(out, p, source, start, size):
    """Copy some bytes; up to seven behind them may be overwritten, and read from the source."""
    if size > _SHORT:
        copy(out, p, source, start, size)
        return
    end = start + size
    while start < end:
        put_word(out, p, word(source, start))
        p += 8
        start += 8


@compiled
def fill(arena, text, cuts, starts, lengths, quoted):
    """Write messages: texts with values between them.

    Args:
        arena: where the values are; seven bytes behind each may be looked at.
        text: what stands between the values, with seven bytes behind it.
        cuts: where in it the part before each value begins, and where the last part begins and
            ends.
        starts: for each value of each message where it starts.
        lengths: how long it is; below zero for null.
        quoted: for each value whether it is a text, which stands between quotes.

    Returns:
        The messages one after the other, and where each begins and the last ends.
    """
    values, rows = starts.shape
    offsets = np.empty(rows + 1, np.int64)
    total = 0
    fixed = cuts[values + 1] - cuts[0]
    for i in range(rows):
        offsets[i] = total
        total += fixed
        for s in range(values):
            size = lengths[s, i]
            total += 4 if size < 0 else size + 2 if quoted[s] else size
    offsets[rows] = total
    out = np.empty(total + 8, np.uint8)  # what stands behind the last piece is cut off
    p = 0
    for i in range(rows):
        for s in range(values + 1):
            size = cuts[s + 1] - cuts[s]
            _put(out, p, text, cuts[s], size)
            p += size
            if s == values:
                break
            size = lengths[s, i]
            if size < 0:
                out[p] = 110
                out[p + 1] = 117
                out[p + 2] = 108
                out[p + 3] = 108
                p += 4
                continue
            if quoted[s]:
                out[p] = 34
                p += 1
            _put(out, p, arena, starts[s, i], size)
            p += size
            if quoted[s]:
                out[p] = 34
                p += 1
    return out[:total], offsets


@compiled
def lines(data, offsets, order):
    """Some of the texts that stand one after the other, a line each."""
    total = 0
    for i in range(order.shape[0]):
        total += offsets[order[i] + 1] - offsets[order[i]] + 1
    out = np.empty(total, np.uint8)
    p = 0
    for i in range(order.shape[0]):
        start = offsets[order[i]]
        size = offsets[order[i] + 1] - start
        copy(out, p, data, start, size)
        p += size
        out[p] = 10
        p += 1
    return out


@compiled
def join_texts(arena, starts, lengths, other_starts, other_lengths, made, sizes, at):
    """Write two texts of each row behind each other into the arena.

    Args:
        arena: where the texts are, and where they are written.
        starts: where each first text starts.
        lengths: how long it is.
        other_starts: where each second text starts.
        other_lengths: how long it is.
        made: takes where each new text starts.
        sizes: takes how long it is; `BAD` where one of the two is below zero.
        at: where in the arena to write.

    Returns:
        Where the last one ends.
    """
    for i in range(starts.shape[0]):
        one, other = lengths[i], other_lengths[i]
        if one < 0 or other < 0:
            sizes[i] = BAD
            continue
        copy(arena, at, arena, starts[i], one)
        copy(arena, at + one, arena, other_starts[i], other)
        made[i] = at
        sizes[i] = one + other
        at += one + other
    return at


@compiled
def same_texts(arena, starts, lengths, other_starts, other_lengths, same):
    """Tell for each row whether two values are the same."""
    for i in range(starts.shape[0]):
        size = lengths[i]
        same[i] = size == other_lengths[i] and (
            size <= 0
            or starts[i] == other_starts[i]
            or alike(arena, starts[i], arena, other_starts[i], size)
        )


@compiled
def holds(arena, starts, lengths, byte, found):
    """Tell which texts hold a byte."""
    for i in range(starts.shape[0]):
        found[i] = False
        for k in range(lengths[i]):
            if arena[starts[i] + k] == byte:
                found[i] = True
                break
