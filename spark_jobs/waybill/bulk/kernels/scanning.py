"""Finding the values of JSON messages, and messages of one form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from waybill.bulk.compiling import compiled
from waybill.bulk.kernels.single_values import same_bytes, value_at
from waybill.bulk.value_kinds import (
    BYTES,
    DEEPEST,
    ESCAPED,
    NULL,
    NULL_SIZE,
    OPTIONAL,
    STRING,
    VOID,
)

if TYPE_CHECKING:
    from waybill.bulk.arena import Places


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
                start = p + 1 if c == 34 else p
                kind, stop, p = value_at(data, p, end)
                if kind == 0:
                    good = False
                    break
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
def head_size(kind, size):
    """How many bytes before a value belong to it: a quote, or the branch and length of Avro."""
    if kind <= ESCAPED:
        return 1
    if kind < VOID:
        return 0
    if kind == VOID:
        return 1
    head = 0
    if kind > STRING:
        head = 1
        kind -= OPTIONAL
    if kind >= BYTES:
        rest = size >> 6
        head += 1
        while rest > 0:
            rest >>= 7
            head += 1
    return head


@compiled
def fitting(
    data, begins, ends, starts, stops, kinds, counts, rows, text, cuts, allowed, constants, fits
):
    """Find the messages that have a form, byte for byte.

    Args:
        data: the arena.
        begins: where each message begins.
        ends: where it ends.
        starts: where each value starts.
        stops: where it stops.
        kinds: its kind.
        counts: how many values each message has.
        rows: which messages to look at.
        text: what stands between the values, and the values that are always the same; seven bytes
            behind both are looked at.
        cuts: where in `text` the part before each value begins, then, where the last part begins
            and ends.
        allowed: for each value the kinds it may have, as bits.
        constants: for each value where in `text` it stands and ends if it is always the same, else
            -1.
        fits: takes whether each of `rows` has the form.
    """
    values = allowed.shape[0]
    for r in range(rows.shape[0]):
        i = rows[r]
        p = begins[i]
        good = counts[i] == values
        if not good:
            fits[r] = False
            continue
        for s in range(values):
            kind = np.int64(kinds[i, s])
            head = head_size(kind, np.int64(stops[i, s] - starts[i, s]))
            size = cuts[s + 1] - cuts[s]
            if starts[i, s] - head - p != size or not (allowed[s] >> kind) & 1:
                good = False
                break
            if not same_bytes(data, p, text, cuts[s], size):
                good = False
                break
            if constants[s, 0] >= 0:
                size = constants[s, 1] - constants[s, 0]
                if stops[i, s] - starts[i, s] != size or not same_bytes(
                    data, starts[i, s], text, constants[s, 0], size
                ):
                    good = False
                    break
            p = stops[i, s] + (1 if kind <= ESCAPED else 0)
        if good:
            size = cuts[values + 1] - cuts[values]
            good = ends[i] - p == size and same_bytes(data, p, text, cuts[values], size)
        fits[r] = good


@compiled
def in_slots(starts, stops, kinds, places, slots, targets, found, lengths):
    """Where some values of some messages start and how long they are; -1 for null.

    Args:
        starts: where each value of each message starts.
        stops: where it stops.
        kinds: its kind.
        places: which messages.
        slots: which of their values.
        targets: for each of these where in the next two it goes for the first message; those of
            the others follow.
        found: takes where each starts.
        lengths: takes how long each is.
    """
    for i in range(places.shape[0]):
        place = places[i]
        for s in range(slots.shape[0]):
            slot = slots[s]
            start = starts[place, slot]
            kind = kinds[place, slot]
            found[targets[s] + i] = start
            if kind in (NULL, VOID):
                lengths[targets[s] + i] = NULL_SIZE
            else:
                lengths[targets[s] + i] = stops[place, slot] - start


def grouped(forms: Any, counts: Any) -> tuple[Any, Places, Places]:
    """Messages by their form, in their order.

    Args:
        forms: the form of each message.
        counts: below zero for a message that is in no group.

    Returns:
        The forms, the numbers of their messages one form after the other, and where each ends.
    """
    size = 64
    while size < 2 * len(forms):
        size *= 2
    table = np.full(size, -1, np.int32)
    known = np.empty(len(forms), np.uint64)
    sizes = np.zeros(len(forms), np.int64)
    group = np.empty(len(forms), np.int32)
    found = _group(forms, counts, table, known, sizes, group)
    ends = np.cumsum(sizes[:found])
    order = np.empty(ends[-1] if found else 0, np.int64)
    _order(group, ends - sizes[:found], order)
    return known[:found].copy(), order, ends


@compiled
def _group(forms, counts, table, known, sizes, group):
    """Find the group of each message; returns how many there are.

    Args:
        forms: as `grouped` has them.
        counts: as `grouped` has them.
        table: -1 at two places for each message or more, as many as a power of two.
        known: takes the form of each group.
        sizes: takes how many messages it has; zeros.
        group: takes the group of each message, -1 for none.
    """
    last = table.shape[0] - 1
    found = 0
    for i in range(forms.shape[0]):
        if counts[i] < 0:
            group[i] = -1
            continue
        at = np.int64(forms[i] & np.uint64(last))
        while table[at] >= 0 and known[table[at]] != forms[i]:
            at = (at + 1) & last
        if table[at] < 0:
            table[at] = found
            known[found] = forms[i]
            found += 1
        group[i] = table[at]
        sizes[table[at]] += 1
    return found


@compiled
def _order(numbers, places, order):
    """Write the place of each number that is not below zero where the next of its kind goes."""
    for i in range(numbers.shape[0]):
        if numbers[i] >= 0:
            order[places[numbers[i]]] = i
            places[numbers[i]] += 1


def in_order(numbers: Places, size: int) -> Places:
    """The order that sorts numbers below `size`; equal ones stay as they come."""
    counts = np.bincount(numbers, minlength=size)
    order = np.empty(len(numbers), np.int64)
    _order(numbers, np.cumsum(counts) - counts, order)
    return order
