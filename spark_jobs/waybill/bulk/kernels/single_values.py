"""Finding where single values of JSON end."""

from __future__ import annotations

import numpy as np

from waybill.bulk.compiling import compiled
from waybill.bulk.raw_memory import first_marked, word
from waybill.bulk.value_kinds import ESCAPED, FALSE, INTEGER, NULL, NUMBER, PLAIN, POWER, TRUE

_ONES = np.uint64(0x0101010101010101)
_HIGH = np.uint64(0x8080808080808080)
_QUOTES = np.uint64(0x2222222222222222)
_BACKSLASHES = np.uint64(0x5C5C5C5C5C5C5C5C)
_BLANKS = np.uint64(0x2020202020202020)


@compiled
def text_end(data, p, end):
    """Where a text stops at the latest: the next quote, backslash or control character."""
    while p < end:
        bytes_ = word(data, p)
        quotes = bytes_ ^ _QUOTES
        slashes = bytes_ ^ _BACKSLASHES
        # A byte that is marked wrongly stands behind one that is marked rightly.
        marks = (
            ((quotes - _ONES) & ~quotes)
            | ((slashes - _ONES) & ~slashes)
            | ((bytes_ - _BLANKS) & ~bytes_)
        ) & _HIGH
        if marks:
            return min(p + first_marked(marks), end)
        p += 8
    return end


@compiled
def value_at(data, p, end):  # noqa: C901
    """A value that is no object and no array: its kind, where it stops, and what comes after it.

    Args:
        data: the arena; eight bytes behind `end` may be looked at.
        p: where the value begins, with its quote.
        end: where the message ends.

    Returns:
        Kind 0 if that is no such value, or not in its shortest notation.
    """
    c = data[p]
    if c == 34:
        kind = PLAIN
        p = text_end(data, p + 1, end)
        while p < end and data[p] == 92:
            kind = ESCAPED
            b = data[p + 1] if p + 1 < end else 0
            # Escapes as \/ and \u0041 have a shorter form; texts are compared.
            if not (b == 34 or b == 92 or b == 98 or b == 102 or b == 110 or b == 114 or b == 116):
                return 0, p, p
            p = text_end(data, p + 2, end)
        if p >= end or data[p] != 34:
            return 0, p, p
        return kind, p, p + 1
    if c == 45 or 48 <= c <= 57:
        kind = INTEGER
        if c == 45:
            p += 1
        first = p
        while p < end and 48 <= data[p] <= 57:
            p += 1
        if p == first or (data[first] == 48 and p - first > 1):
            return 0, p, p
        if c == 45 and data[first] == 48:
            kind = NUMBER
        if p < end and data[p] == 46:
            kind = NUMBER
            p += 1
            first = p
            while p < end and 48 <= data[p] <= 57:
                p += 1
            if p == first:
                return 0, p, p
        if p < end and (data[p] == 101 or data[p] == 69):
            kind = POWER
            p += 1
            if p < end and (data[p] == 43 or data[p] == 45):
                p += 1
            first = p
            while p < end and 48 <= data[p] <= 57:
                p += 1
            if p == first:
                return 0, p, p
        return kind, p, p
    if p + 4 <= end:
        if c == 110 and data[p + 1] == 117 and data[p + 2] == 108 and data[p + 3] == 108:
            return NULL, p + 4, p + 4
        if c == 116 and data[p + 1] == 114 and data[p + 2] == 117 and data[p + 3] == 101:
            return TRUE, p + 4, p + 4
        if (
            (c == 102 and p + 5 <= end and data[p + 1] == 97 and data[p + 2] == 108)
            and data[p + 3] == 115
            and data[p + 4] == 101
        ):
            return FALSE, p + 5, p + 5
    return 0, p, p


@compiled
def same_bytes(data, p, text, q, size):
    """Whether some bytes of two arrays are the same; eight bytes behind both may be looked at."""
    while size >= 8:
        if word(data, p) != word(text, q):
            return False
        p += 8
        q += 8
        size -= 8
    if size > 0:
        others = np.uint64(64 - 8 * size)
        if (word(data, p) ^ word(text, q)) << others != 0:
            return False
    return True
