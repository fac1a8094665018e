"""The values of messages of several forms, all that are read the same way converted in bulk.

A block may have dozens of forms with a few hundred messages each: calling what converts for each
column of each of them would take longer than the converting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from waybill.bulk import kernels
from waybill.bulk.arena import Places, Texts
from waybill.bulk.column_codecs import ColumnReader, numbers
from waybill.bulk.field_map import ColumnSlot, IntegerSlot
from waybill.bulk.value_kinds import BAD

if TYPE_CHECKING:
    from waybill.bulk.arena import Arena, Mask
    from waybill.bulk.block import Scanned

How = ColumnReader | IntegerSlot | None
"""How a value is read: as a column, as a number (whatever its slot), or as it stands."""


def how_of(slot: int | ColumnSlot | IntegerSlot) -> tuple[int, How]:
    """The slot of a value, and how it is read."""
    if isinstance(slot, ColumnSlot):
        return slot.slot, slot.take
    if isinstance(slot, IntegerSlot):
        return slot.slot, slot._replace(slot=0)
    return slot, None


class Asked(NamedTuple):
    """The values of messages of one form.

    Attributes:
        slots: which values of each message.
        texts: what they stand in.
        places: which messages.
    """

    slots: Places
    texts: Scanned
    places: Places


class Group(NamedTuple):
    """Messages of forms whose values are read the same way, though they stand at other places.

    Attributes:
        hows: how each value is read.
        asked: the messages, form by form.
    """

    hows: tuple[How, ...]
    asked: list[Asked]


class Gathered(NamedTuple):
    """The values of the messages of a group.

    Attributes:
        places: which messages.
        values: one after the other as they were asked for: texts, or numbers.
        bad: which messages have a value that is converted exactly.
    """

    places: Places
    values: list[Any]
    bad: Mask


class _Read(NamedTuple):
    """All values of a block that are read one way: texts or numbers, and which are bad if any."""

    values: Texts | Places
    bad: Mask | None


class _Plan:
    """Where the values of a group are among those that are read the same way.

    Attributes:
        size: how many messages there are.
        own: for each value the number of the first one that stands at the same place of each
            message and is read the same way.
        begins: for each value where its messages begin.
    """

    def __init__(self, group: Group, sizes: dict[How, int]) -> None:
        self.size = sum(len(asked.places) for asked in group.asked)
        columns = np.stack([asked.slots for asked in group.asked]).T
        known: dict[tuple[How, bytes], int] = {}
        self.own = [
            known.setdefault((how, column.tobytes()), number)
            for number, (how, column) in enumerate(zip(group.hows, columns, strict=True))
        ]
        self.begins: list[int] = []
        for number, how in enumerate(group.hows):
            if self.own[number] != number:
                self.begins.append(self.begins[self.own[number]])
                continue
            begin = sizes.get(how, 0)
            self.begins.append(begin)
            sizes[how] = begin + self.size

    def fill(self, group: Group, firsts: dict[How, int], starts: Places, lengths: Places) -> None:
        """Find the values."""
        first = [number for number, own in enumerate(self.own) if own == number]
        targets = np.array(
            [firsts[group.hows[number]] + self.begins[number] for number in first], np.int64
        )
        for slots, texts, places in group.asked:
            kernels.in_slots(
                *(texts.starts, texts.stops, texts.kinds, places, slots[first]),
                *(targets, starts, lengths),
            )
            targets += len(places)

    def gathered(self, group: Group, read: dict[How, _Read]) -> Gathered:
        """The values, read."""
        bad = np.zeros(self.size, np.bool_)
        values: list[Any] = []
        for number, (how, begin) in enumerate(zip(group.hows, self.begins, strict=True)):
            if self.own[number] != number:
                values.append(values[self.own[number]])
                continue
            found, read_values = read[how]
            mine = slice(begin, begin + self.size)
            if isinstance(found, Texts):
                values.append(Texts(found.starts[mine], found.lengths[mine]))
            else:
                values.append(found[mine])
            if read_values is not None:
                bad |= read_values[mine]
        places = [asked.places for asked in group.asked]
        return Gathered(places[0] if len(places) == 1 else np.concatenate(places), values, bad)


def gathered(arena: Arena, groups: Sequence[Group]) -> list[Gathered]:
    """The values of messages, group by group.

    Args:
        arena: what all of them are in.
        groups: which values of which messages.
    """
    sizes: dict[How, int] = {}
    plans = [_Plan(group, sizes) for group in groups]
    firsts, total = {}, 0
    for how, size in sizes.items():
        firsts[how] = total
        total += size
    starts, lengths = np.empty(total, np.int64), np.empty(total, np.int64)
    for plan, group in zip(plans, groups, strict=True):
        plan.fill(group, firsts, starts, lengths)
    read = {}
    for how, size in sizes.items():
        mine = slice(firsts[how], firsts[how] + size)
        read[how] = _read(arena, Texts(starts[mine], lengths[mine]), how)
    return [plan.gathered(group, read) for plan, group in zip(plans, groups, strict=True)]


def _read(arena: Arena, texts: Texts, how: How) -> _Read:
    if how is None:
        return _Read(texts, None)
    if isinstance(how, ColumnReader):
        texts = how.read(arena, texts)
        return _Read(texts, _any(texts.lengths == BAD))
    if how.convert is not None:
        texts = how.convert(arena, texts)
    found, _, lengths = numbers(arena, texts)
    bad = _any((lengths < 0) | (found < how.lowest) | (found > how.highest))
    return _Read(found * how.factor, bad)


def _any(bad: Mask) -> Mask | None:
    return bad if bad.any() else None
