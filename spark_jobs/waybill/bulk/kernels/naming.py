"""Finding which of some known names values of messages are."""

from __future__ import annotations

import numpy as np

from waybill.bulk.compiling import compiled
from waybill.bulk.kernels.single_values import same_bytes


@compiled
def find_names(data, starts, stops, rows, slots, text, cuts, table, found):
    """Find the number of the names that values of messages are.

    Args:
        data: the arena; eight bytes behind the messages may be looked at.
        starts: where each value of each message starts.
        stops: where it stops.
        rows: which messages.
        slots: which of their values are names.
        text: the known names, one behind the other, with eight bytes behind.
        cuts: for each number where in `text` each of its names begins, then, where the last ends.
        table: numbers by the hash of their names, -1 where there is none; its size is a power of
            two, and larger than there are numbers.
        found: takes the number of each of `rows`, -1 where the names are not known.
    """
    prime = np.uint64(0x100000001B3)
    last = np.int64(table.shape[0] - 1)
    for r in range(rows.shape[0]):
        i = rows[r]
        code = np.uint64(0xCBF29CE484222325)
        for s in range(slots.shape[0]):
            for p in range(starts[i, slots[s]], stops[i, slots[s]]):
                code = (code ^ np.uint64(data[p])) * prime
            code = (code ^ np.uint64(34)) * prime
        at = np.int64(code >> np.uint64(32)) & last
        found[r] = -1
        while table[at] >= 0:
            number = table[at]
            good = True
            for s in range(slots.shape[0]):
                start = np.int64(starts[i, slots[s]])
                size = np.int64(stops[i, slots[s]]) - start
                first = cuts[number, s]
                if cuts[number, s + 1] - first != size or not same_bytes(
                    data, start, text, first, size
                ):
                    good = False
                    break
            if good:
                found[r] = number
                break
            at = (at + 1) & last


@compiled
def place_names(text, cuts, table):
    """Fill the table of `find_names`, which is empty."""
    prime = np.uint64(0x100000001B3)
    last = np.int64(table.shape[0] - 1)
    for number in range(cuts.shape[0]):
        code = np.uint64(0xCBF29CE484222325)
        for s in range(cuts.shape[1] - 1):
            for p in range(cuts[number, s], cuts[number, s + 1]):
                code = (code ^ np.uint64(text[p])) * prime
            code = (code ^ np.uint64(34)) * prime
        at = np.int64(code >> np.uint64(32)) & last
        while table[at] >= 0:
            at = (at + 1) & last
        table[at] = number
