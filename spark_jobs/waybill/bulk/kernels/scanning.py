"""Finding the values of JSON messages, and messages that are alike."""

from __future__ import annotations

import numpy as np

from waybill.bulk.compiling import compiled
from waybill.bulk.kinds import (
    DEEPEST,
    ESCAPED,
    FALSE,
    INTEGER,
    NULL,
    NULL_SIZE,
    NUMBER,
    PLAIN,
    TRUE,
)
from waybill.bulk.raw_memory import equal


@compiled
def scan(data, begins, ends, width, starts, stops, kinds, counts, forms):  # noqa: C901
    """Find the values of messages.

    Only JSON without blanks, with the shortest escapes in values and none in names, is taken;
    `counts` is -1 for other messages. Of what is taken two messages with the same `forms` most
    probably differ in nothing but values.

    Args:
        data: the arena.
        begins: where each message begins.
        ends: where it ends.
        width: how many values a message may have.
        starts: takes where each value starts, quotes not included.
        stops: takes where it stops.
        kinds: takes its kind.
        counts: takes the number of values.
        forms: takes a hash of everything but the values.
    """
    prime = np.uint64(0x100000001B3)
    one = np.uint64(1)
    for i in range(begins.shape[0]):
        p = begins[i]
        end = ends[i]
        form = np.uint64(0xCBF29CE484222325)
        stack = np.uint64(0)  # the lowest bit is set inside an object
        depth = 0
        found = 0
        good = True
        named = False  # whether a name comes next
        valued = True  # whether a value comes next
        while good:
            if p >= end or p < 0:
                good = p >= 0 and depth == 0 and not valued and not named
                break
            c = data[p]
            if named:
                good = c == 34
                p += 1
                while good and p < end and data[p] != 34:
                    b = data[p]
                    good = b != 92 and b >= 32
                    form = (form ^ np.uint64(b)) * prime
                    p += 1
                good = good and p + 1 < end and data[p + 1] == 58
                form = (form ^ np.uint64(58)) * prime
                p += 2
                named = False
                valued = True
            elif valued:
                valued = False
                if c == 123 or c == 91:
                    if depth >= DEEPEST:
                        good = False
                        break
                    form = (form ^ np.uint64(c)) * prime
                    p += 1
                    if p < end and data[p] == c + 2:
                        form = (form ^ np.uint64(c + 2)) * prime
                        p += 1
                    else:
                        depth += 1
                        stack <<= one
                        if c == 123:
                            stack |= one
                            named = True
                        else:
                            valued = True
                    continue
                if found >= width:
                    good = False
                    break
                start = p
                if c == 34:
                    kind = PLAIN
                    p += 1
                    start = p
                    while p < end and data[p] != 34:
                        b = data[p]
                        if b < 32:
                            good = False
                        if b == 92:
                            kind = ESCAPED
                            p += 1
                            b = data[p] if p < end else 0
                            # Escapes as \/ and \u0041 have a shorter form; texts are compared.
                            if not (
                                b == 34
                                or b == 92
                                or b == 98
                                or b == 102
                                or b == 110
                                or b == 114
                                or b == 116
                            ):
                                good = False
                        p += 1
                    if p >= end:
                        good = False
                    stop = p
                    p += 1
                elif c == 45 or 48 <= c <= 57:
                    kind = INTEGER
                    if c == 45:
                        p += 1
                    first = p
                    while p < end and 48 <= data[p] <= 57:
                        p += 1
                    if p == first or (data[first] == 48 and p - first > 1):
                        good = False
                    elif c == 45 and data[first] == 48:
                        kind = NUMBER
                    if p < end and data[p] == 46:
                        kind = NUMBER
                        p += 1
                        first = p
                        while p < end and 48 <= data[p] <= 57:
                            p += 1
                        if p == first:
                            good = False
                    if p < end and (data[p] == 101 or data[p] == 69):
                        good = False  # an exponent has no place in plain digits
                    stop = p
                else:
                    size = 4
                    if c == 110:
                        kind = NULL
                        word = (117, 108, 108, 0)
                    elif c == 116:
                        kind = TRUE
                        word = (114, 117, 101, 0)
                    elif c == 102:
                        kind = FALSE
                        word = (97, 108, 115, 101)
                        size = 5
                    else:
                        good = False
                        break
                    if p + size > end:
                        good = False
                        break
                    for k in range(size - 1):
                        if data[p + 1 + k] != word[k]:
                            good = False
                    p += size
                    stop = p
                starts[i, found] = start
                stops[i, found] = stop
                kinds[i, found] = kind
                found += 1
                form = (form ^ one) * prime
            elif depth == 0:
                good = False
            elif c == 44:
                form = (form ^ np.uint64(44)) * prime
                p += 1
                if stack & one:
                    named = True
                else:
                    valued = True
            elif (c == 125 and stack & one) or (c == 93 and not (stack & one)):
                form = (form ^ np.uint64(c)) * prime
                p += 1
                depth -= 1
                stack >>= one
            else:
                good = False
        counts[i] = found if good else -1
        forms[i] = form


@compiled
def fitting(data, begins, ends, starts, stops, kinds, rows, text, cuts, allowed, told, fits):
    """Find the messages that have a form, byte for byte.

    Args:
        data: the arena.
        begins: where each message begins.
        ends: where it ends.
        starts: where each value starts.
        stops: where it stops.
        kinds: its kind.
        rows: which messages to look at.
        text: what stands between the values, and the values that are always the same.
        cuts: where in `text` the part before each value begins, then, where the last part begins
            and ends.
        allowed: for each value the kinds it may have, as bits.
        told: for each value where in `text` it stands and ends if it is always the same, else -1.
        fits: takes whether each of `rows` has the form.
    """
    values = allowed.shape[0]
    for r in range(rows.shape[0]):
        i = rows[r]
        p = begins[i]
        good = True
        for s in range(values):
            kind = kinds[i, s]
            quote = 1 if kind <= ESCAPED else 0
            size = cuts[s + 1] - cuts[s]
            if starts[i, s] - quote - p != size or not (allowed[s] >> kind) & 1:
                good = False
                break
            if not equal(data, p, text, cuts[s], size):
                good = False
                break
            if told[s, 0] >= 0:
                size = told[s, 1] - told[s, 0]
                if stops[i, s] - starts[i, s] != size or not equal(
                    data, starts[i, s], text, told[s, 0], size
                ):
                    good = False
                    break
            p = stops[i, s] + quote
        if good:
            size = cuts[values + 1] - cuts[values]
            good = ends[i] - p == size and equal(data, p, text, cuts[values], size)
        fits[r] = good


@compiled
def in_slot(starts, stops, kinds, places, slot, found, lengths):
    """Where one value of some messages starts and how long it is; -1 for null.

    Args:
        starts: where each value of each message starts.
        stops: where it stops.
        kinds: its kind.
        places: which messages.
        slot: which of their values.
        found: takes where it starts.
        lengths: takes how long it is.
    """
    for i in range(places.shape[0]):
        place = places[i]
        found[i] = starts[place, slot]
        if kinds[place, slot] == NULL:
            lengths[i] = NULL_SIZE
        else:
            lengths[i] = stops[place, slot] - starts[place, slot]


@compiled
def grouped(forms, counts):
    """Messages by their form, in their order.

    Args:
        forms: the form of each message.
        counts: below zero for a message that is in no group.

    Returns:
        The forms, the numbers of their messages one form after the other, and where each ends.
    """
    size = np.int64(64)
    while size < 2 * forms.shape[0]:
        size *= 2
    table = np.full(size, -1, np.int32)
    known = np.empty(forms.shape[0], np.uint64)
    sizes = np.zeros(forms.shape[0], np.int64)
    group = np.empty(forms.shape[0], np.int32)
    found = 0
    for i in range(forms.shape[0]):
        if counts[i] < 0:
            group[i] = -1
            continue
        at = np.int64(forms[i] & np.uint64(size - 1))
        while table[at] >= 0 and known[table[at]] != forms[i]:
            at = (at + 1) & (size - 1)
        if table[at] < 0:
            table[at] = found
            known[found] = forms[i]
            found += 1
        group[i] = table[at]
        sizes[table[at]] += 1
    ends = np.cumsum(sizes[:found])
    at_of = ends - sizes[:found]
    order = np.empty(ends[found - 1] if found > 0 else 0, np.int64)
    for i in range(forms.shape[0]):
        if group[i] >= 0:
            order[at_of[group[i]]] = i
            at_of[group[i]] += 1
    return known[:found].copy(), order, ends


@compiled
def in_order(numbers, size):
    """The order that sorts numbers below `size`; equal ones stay as they come."""
    at = np.zeros(size + 1, np.int64)
    for i in range(numbers.shape[0]):
        at[numbers[i] + 1] += 1
    for i in range(size):
        at[i + 1] += at[i]
    order = np.empty(numbers.shape[0], np.int64)
    for i in range(numbers.shape[0]):
        order[at[numbers[i]]] = i
        at[numbers[i]] += 1
    return order
