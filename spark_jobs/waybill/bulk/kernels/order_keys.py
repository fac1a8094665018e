"""The keys that order changes, as `waybill.order` writes and reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from waybill.bulk.compiling import compiled

if TYPE_CHECKING:
    from waybill.bulk.arena import Bytes, Places


@compiled
def _order_number(value, out, p):
    """Write an integer from 0 on as `order.order_number` does; returns where it ends."""
    digits = 1
    rest = value
    while rest >= 10:
        rest //= 10
        digits += 1
    if digits < 10:
        out[p] = 49
        out[p + 1] = 48 + digits
        p += 2
    else:
        out[p] = 50
        out[p + 1] = 48 + digits // 10
        out[p + 2] = 48 + digits % 10
        p += 3
    for k in range(digits):
        out[p + digits - 1 - k] = 48 + value % 10
        value //= 10
    return p + digits


def order_keys(
    parts: Places, kind: int, rank: int, partitions: Places, offsets: Places
) -> tuple[Bytes, Places]:
    """Order keys of changes that are alone in their messages, as `order.order_key` writes them.

    Args:
        parts: the parts of the sequence ids, from 0 on: a row for each part.
        kind: the byte of a full row or of a change.
        rank: place inside one sequence id.
        partitions: partitions of the messages.
        offsets: their offsets, from 0 on.

    Returns:
        The keys one after the other, and where each begins and the last ends.
    """
    rows = len(offsets)
    bounds = np.empty(rows + 1, np.int64)
    out = np.empty(rows * (40 + 24 * (len(parts) + 2)), np.uint8)
    size = _order_keys(parts, kind, rank, partitions, offsets, out, bounds)
    return out[:size].copy(), bounds


@compiled
def _order_keys(parts, kind, rank, partitions, offsets, out, bounds):
    """Write what `order_keys` returns; returns where it ends."""
    rows = offsets.shape[0]
    p = 0
    for i in range(rows):
        bounds[i] = p
        out[p] = kind
        out[p + 1] = 47
        p += 2
        for k in range(parts.shape[0]):
            if k > 0:
                out[p] = 58
                p += 1
            p = _order_number(parts[k, i], out, p)
        out[p] = 47
        p = _order_number(rank, out, p + 1)
        out[p] = 47
        p = _order_number(partitions[i], out, p + 1)
        out[p] = 58
        p = _order_number(offsets[i], out, p + 1)
        out[p] = 58
        p = _order_number(np.int64(0), out, p + 1)
    bounds[rows] = p
    return p


@compiled
def read_order_keys(data, begins, ends, parts, counts, ranks, full):
    """Sequence ids of order keys, as `order.read_order_key` reads them.

    Args:
        data: where the keys are.
        begins: where each begins.
        ends: where it ends.
        parts: takes the parts of the sequence ids: a row for each part.
        counts: takes how many parts there are; -1 where a key has more, or larger ones.
        ranks: takes the ranks.
        full: takes whether they are full rows.
    """
    for i in range(begins.shape[0]):
        p = begins[i]
        end = ends[i]
        full[i] = data[p] == 48
        p += 2
        found = 0
        good = True
        while good and p < end and data[p] != 47:
            if data[p] == 58:
                p += 1
            if found >= parts.shape[0] or data[p] == 45:
                good = False
                break
            width = np.int64(data[p]) - 48
            size = np.int64(0)
            for k in range(width):
                size = size * 10 + np.int64(data[p + 1 + k]) - 48
            p += 1 + width
            if size > 19:
                good = False
                break
            value = np.int64(0)
            for k in range(size):
                digit = np.int64(data[p + k]) - 48
                if value > (np.int64(2**63 - 1) - digit) // 10:
                    good = False
                    break
                value = value * 10 + digit
            p += size
            parts[found, i] = value
            found += 1
        # A rank has few digits: its length of length and its length are one digit each.
        if good and p + 3 < end and data[p + 1] == 49 and data[p + 2] == 49:
            ranks[i] = np.int64(data[p + 3]) - 48
        else:
            good = False
        counts[i] = found if good else -1
