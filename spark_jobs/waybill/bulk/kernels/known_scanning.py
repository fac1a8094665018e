"""Finding the values of messages whose form is known already."""

from __future__ import annotations

from waybill.bulk.compiling import compiled
from waybill.bulk.kernels.single_values import same_bytes, value_at
from waybill.bulk.value_kinds import ESCAPED


@compiled
def scan_known(  # noqa: C901
    data,
    begins,
    ends,
    text,
    cuts,
    slots,
    allowed,
    counts,
    shared,
    constants,
    firsts,
    order,
    starts,
    stops,
    kinds,
    known,
):
    """Find the values of messages that have one of some forms.

    What two forms have in common is looked at once: a message that has not the one is looked at
    for the other from the place on where they differ.

    Args:
        data: the arena; eight bytes behind the messages may be looked at.
        begins: where each message begins; below zero where there is none.
        ends: where it ends.
        text: what stands between the values of forms that differ from message to message, one
            form behind the other, with eight bytes behind.
        cuts: for each form where in `text` the part before each such value begins, then, where the
            last part begins and ends.
        slots: for each form which of all values each of these is.
        allowed: the kinds that it may have, as bits.
        counts: for each form how many such values it has.
        shared: for each form and each other one, how many of these they begin with that stand
            between the same bytes and are allowed the same.
        constants: values that are the same in all messages of a form: behind which of those that
            differ each stands (-1 for none), which of all values it is, where it starts and stops
            from there on, its kind.
        firsts: where those of each form begin in `constants`, and where the last ones end.
        order: the forms, the likeliest first.
        starts: takes where each value starts, quotes not included.
        stops: takes where it stops.
        kinds: takes its kind.
        known: takes the number of the form of each message, -1 where it has none of them.
    """
    forms = counts.shape[0]
    last = order[0]
    for i in range(begins.shape[0]):
        known[i] = -1
        begin = begins[i]
        end = ends[i]
        if begin < 0:
            continue
        tried = -1
        found = 0
        # The form of the message before is the likeliest.
        for attempt in range(-1, forms):
            form = last if attempt < 0 else order[attempt]
            if attempt >= 0 and form == last:
                continue
            p = begin
            if tried >= 0:
                found = min(found, shared[tried, form])
                if found > 0:
                    slot = slots[tried, found - 1]
                    p = stops[i, slot] + (1 if kinds[i, slot] <= ESCAPED else 0)
            tried = form
            count = counts[form]
            while found < count:
                at = cuts[form, found]
                size = cuts[form, found + 1] - at
                if end - p <= size or not same_bytes(data, p, text, at, size):
                    break
                p += size
                kind, stop, after = value_at(data, p, end)
                if not (allowed[form, found] >> kind) & 1:
                    break
                slot = slots[form, found]
                starts[i, slot] = p + 1 if kind <= ESCAPED else p
                stops[i, slot] = stop
                kinds[i, slot] = kind
                p = after
                found += 1
            if found < count:
                continue
            at = cuts[form, count]
            size = cuts[form, count + 1] - at
            if end - p == size and same_bytes(data, p, text, at, size):
                known[i] = form
                last = form
                break
        form = known[i]
        if form < 0:
            continue
        for t in range(firsts[form], firsts[form + 1]):
            base = begin
            if constants[t, 0] >= 0:
                slot = slots[form, constants[t, 0]]
                base = stops[i, slot] + (1 if kinds[i, slot] <= ESCAPED else 0)
            slot = constants[t, 1]
            starts[i, slot] = base + constants[t, 2]
            stops[i, slot] = base + constants[t, 3]
            kinds[i, slot] = constants[t, 4]
