"""What messages of the same shape have in common: the bytes between their values."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from waybill.bulk import kernels
from waybill.bulk.arena import BEHIND, Mask, Places, Texts
from waybill.bulk.value_kinds import ESCAPED

if TYPE_CHECKING:
    from collections.abc import Collection

    from waybill.bulk.block import Scanned


class Place:
    """One message of a block.

    Attributes:
        value: its bytes.
        kinds: the kind of each value.
    """

    def __init__(self, block: Scanned, number: int) -> None:
        self.value = block.bytes_of(number)
        count = int(block.counts[number])
        self.kinds: list[int] = block.kinds[number, :count].tolist()
        begin = int(block.begins[number])
        self._starts = (block.starts[number, :count] - begin).tolist()
        self._stops = (block.stops[number, :count] - begin).tolist()

    def text(self, slot: int) -> bytes:
        """The bytes of a value, without quotes."""
        return self.value[self._starts[slot] : self._stops[slot]]

    def spans(self) -> list[tuple[int, int]]:
        """Where each value stands, with its quotes, or with its branch and length."""
        found = []
        for kind, start, stop in zip(self.kinds, self._starts, self._stops, strict=True):
            head = int(kernels.head_size(kind, stop - start))
            found.append((start - head, stop + (1 if kind <= ESCAPED else 0)))
        return found


class Skeleton:
    """The bytes of a message around its values.

    Args:
        place: the message.
        allowed: for each value the kinds that it may have, as bits.
        free: the values that may differ.
    """

    def __init__(self, place: Place, allowed: list[int], free: Collection[int]) -> None:
        text, cuts = bytearray(), [0]
        at = 0
        for start, stop in place.spans():
            text += place.value[at:start]
            cuts.append(len(text))
            at = stop
        text += place.value[at:]
        cuts.append(len(text))
        spans = np.full((len(allowed), 2), -1, np.int64)
        for slot in set(range(len(allowed))) - set(free):
            held = place.text(slot)
            spans[slot] = len(text), len(text) + len(held)
            text += held
        self.text = np.frombuffer(bytes(text) + BEHIND, np.uint8)
        self.cuts = np.array(cuts, np.int64)
        self.allowed = np.array(allowed, np.int64)
        self.constants = spans

    def steps(self) -> list[tuple[bytes, int, bytes | None]]:
        """For each value: what stands before it, its kinds, and what it is if constant."""
        text = self.text.tobytes()
        held = [None if first < 0 else text[first:end] for first, end in self.constants.tolist()]
        before = [text[first:end] for first, end in pairwise(self.cuts[:-1].tolist())]
        return list(zip(before, self.allowed.tolist(), held, strict=True))

    @property
    def last(self) -> bytes:
        """What stands behind the last value."""
        return self.text[self.cuts[-2] : self.cuts[-1]].tobytes()

    def fits(self, block: Scanned, rows: Places) -> Mask:
        """Which of some messages have these bytes around their values."""
        fits = np.empty(len(rows), np.bool_)
        if len(self.allowed) > block.starts.shape[1]:
            fits[:] = False
            return fits
        kernels.fitting(
            *(block.arena.data, block.begins, block.ends, block.starts, block.stops, block.kinds),
            *(block.counts, rows, self.text, self.cuts, self.allowed, self.constants, fits),
        )
        return fits


def values(block: Scanned, places: Places, slot: int) -> Texts:
    """One value of some messages."""
    starts, lengths = several_values(block, places, [slot])
    return Texts(starts[0], lengths[0])


def several_values(block: Scanned, places: Places, slots: list[int]) -> tuple[Places, Places]:
    """Where some values of some messages start, and how long they are: an array for each value."""
    size, count = len(places), len(slots)
    starts, lengths = np.empty((2, count, size), np.int64)
    targets = np.arange(0, count * size, size) if size else np.zeros(count, np.int64)
    kernels.in_slots(
        *(block.starts, block.stops, block.kinds, places, np.array(slots, np.int64), targets),
        *(starts.reshape(-1), lengths.reshape(-1)),
    )
    return starts, lengths
