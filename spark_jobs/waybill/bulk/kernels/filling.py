"""Putting texts between and behind others."""

from __future__ import annotations

from waybill.bulk.compiling import compiled
from waybill.bulk.kernels.single_values import same_bytes
from waybill.bulk.raw_memory import ahead, copy, put_word, word
from waybill.bulk.value_kinds import BAD

_SHORT = 48
"""Longer texts are copied as C does it: calling it takes longer than copying a short one."""


@compiled
def _put(out, p, source, start, size, limit):
    """Copy some bytes; up to seven behind them may be overwritten, but none from `limit` on.

    As many may be read behind them from the source.
    """
    if size > _SHORT or p + size + 7 > limit:
        copy(out, p, source, start, size)
        return
    end = start + size
    while start < end:
        put_word(out, p, word(source, start))
        p += 8
        start += 8


@compiled
def filled_sizes(cuts, lengths, quoted, sizes):
    """How many bytes the messages take that `fill` writes, which `sizes` takes."""
    values, rows = lengths.shape
    sizes[:] = cuts[values + 1] - cuts[0]
    for s in range(values):
        around = 2 if quoted[s] else 0
        for i in range(rows):
            size = lengths[s, i]
            sizes[i] += 4 if size < 0 else size + around


@compiled
def fill(arena, text, cuts, starts, lengths, quoted, sizes, out, places):
    """Write messages: texts with values between them.

    Args:
        arena: where the values are; seven bytes behind each may be looked at.
        text: what stands between the values, with seven bytes behind it.
        cuts: where in it the part before each value begins, and where the last part begins and
            ends.
        starts: for each value of each message where it starts.
        lengths: how long it is; below zero for null.
        quoted: for each value whether it is a text, which stands between quotes.
        sizes: how long each message is.
        out: takes the messages.
        places: where in it each begins.
    """
    values, rows = starts.shape
    for i in range(rows):
        p = places[i]
        limit = p + sizes[i]
        for s in range(values + 1):
            size = cuts[s + 1] - cuts[s]
            _put(out, p, text, cuts[s], size, limit)
            p += size
            if s == values:
                break
            ahead(arena, starts[s], i)
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
            _put(out, p, arena, starts[s, i], size, limit)
            p += size
            if quoted[s]:
                out[p] = 34
                p += 1


@compiled
def put(data, starts, sizes, out, places):
    """Copy texts, each to its place; those of a size below zero are none."""
    for i in range(starts.shape[0]):
        if sizes[i] > 0:
            copy(out, places[i], data, starts[i], sizes[i])


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
        ahead(arena, starts, i)
        ahead(arena, other_starts, i)
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
        ahead(arena, starts, i)
        ahead(arena, other_starts, i)
        size = lengths[i]
        same[i] = size == other_lengths[i] and (
            size <= 0
            or starts[i] == other_starts[i]
            or same_bytes(arena, starts[i], arena, other_starts[i], size)
        )


@compiled
def holds(arena, starts, lengths, byte, found):
    """Tell which texts hold a byte."""
    for i in range(starts.shape[0]):
        ahead(arena, starts, i)
        found[i] = False
        for k in range(lengths[i]):
            if arena[starts[i] + k] == byte:
                found[i] = True
                break
