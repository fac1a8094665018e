"""Forms that messages are looked at for first: what they have is then found in one go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from waybill.bulk import kernels
from waybill.bulk.arena import BEHIND
from waybill.bulk.block import JSON, LARGEST, WIDTH, Path, Scanned, Scanner, leave_out_broken
from waybill.bulk.value_kinds import ESCAPED

if TYPE_CHECKING:
    from waybill.bulk.arena import Places
    from waybill.bulk.constant_bytes import Skeleton

MOST = 32
"""More forms are not tried one after the other."""


class Candidates(Scanner):
    """Finds the values of JSON texts, of those that have one of some forms the fastest.

    Attributes:
        forms: the forms, in the order in which they were met.
    """

    def __init__(self) -> None:
        self.forms: list[Skeleton] = []
        self._looks: list[int] = []
        self._packed: _Packed | None = None

    def add(self, form: Skeleton, look: int) -> None:
        """One more form; one of very many values is not taken, nor are too many of them.

        Args:
            form: the form.
            look: what `Scanned.forms` tells of texts that have it.
        """
        if len(self.forms) < MOST and len(form.allowed) <= WIDTH:
            self.forms.append(form)
            self._looks.append(look)
            self._packed = None

    def changed(self) -> None:
        """One of the forms is another one now."""
        self._packed = None

    def scan(self, texts: Scanned) -> None:
        """See `Scanner.scan`; `texts.known` becomes the number of the form of each text, or -1."""
        if not self.forms or texts.arena.size > LARGEST:
            JSON.scan(texts)
            return
        if self._packed is None:
            self._packed = _Packed(self.forms, self._looks)
        texts.room(self._packed.width)
        begins = texts.begins if texts.apart is None else np.where(texts.apart, -1, texts.begins)
        known = self._packed.scan(texts, begins)
        there = known >= 0
        if 2 * int(there.sum()) < texts.size:
            JSON.scan(texts)  # messages may have more values now, too
            return
        if not there.all():
            texts.widen(WIDTH)
            kernels.scan(
                *(texts.arena.data, np.where(there, -1, begins), texts.ends, WIDTH),
                *(texts.starts, texts.stops, texts.kinds, texts.counts, texts.forms),
            )
        texts.counts[there] = self._packed.values[known[there]]
        texts.forms[there] = self._packed.looks[known[there]]
        leave_out_broken(texts)
        known[texts.counts < 0] = -1
        texts.known = known

    def paths(self, value: bytes) -> list[Path]:
        """See `Scanner.paths`."""
        return JSON.paths(value)


class _Packed:
    """Forms as arrays.

    Attributes:
        values: how many values each has.
        looks: what `Scanned.forms` tells of it.
        width: how many values the one with the most has.
    """

    def __init__(self, forms: list[Skeleton], looks: list[int]) -> None:
        self.values = np.array([len(form.allowed) for form in forms], np.int64)
        self.looks = np.array(looks, np.uint64)
        self.width = int(self.values.max())
        plans = [_Plan(form) for form in forms]
        width = max(len(plan.slots) for plan in plans)
        self._cuts = np.zeros((len(forms), width + 2), np.int64)
        self._slots = np.zeros((len(forms), width), np.int64)
        self._allowed = np.zeros((len(forms), width), np.int64)
        text = bytearray()
        for number, plan in enumerate(plans):
            count = len(plan.slots)
            sizes = [len(part) for part in plan.parts]
            self._cuts[number, : count + 2] = len(text) + np.cumsum([0, *sizes])
            self._slots[number, :count] = plan.slots
            self._allowed[number, :count] = plan.allowed
            text += b"".join(plan.parts)
        self._text = np.frombuffer(bytes(text) + BEHIND, np.uint8)
        self._counts = np.array([len(plan.slots) for plan in plans], np.int64)
        self._shared = np.array([[one.shared(other) for other in plans] for one in plans], np.int64)
        packed = [one for plan in plans for one in plan.constants]
        self._constants = np.array(packed, np.int64).reshape(len(packed), 5)
        self._firsts = np.cumsum([0, *(len(plan.constants) for plan in plans)])
        self._met = np.zeros(len(forms), np.int64)

    def scan(self, texts: Scanned, begins: Places) -> Places:
        """Find the values of texts that have one of the forms; the number of each one's form."""
        known = np.empty(texts.size, np.int64)
        kernels.scan_known(
            *(texts.arena.data, begins, texts.ends, self._text, self._cuts, self._slots),
            *(self._allowed, self._counts, self._shared, self._constants, self._firsts),
            np.argsort(-self._met, kind="stable"),
            *(texts.starts, texts.stops, texts.kinds, known),
        )
        self._met += np.bincount(known[known >= 0], minlength=len(self._met))
        return known


class _Plan:
    """A form as what differs from message to message and what stands between.

    Attributes:
        parts: the bytes before each value that differs, and behind the last one.
        slots: which of all values each of these is.
        allowed: the kinds that it may have, as bits.
        constants: the other values, see `kernels.scan_known`.
    """

    def __init__(self, form: Skeleton) -> None:
        self.parts: list[bytes] = []
        self.slots: list[int] = []
        self.allowed: list[int] = []
        self.constants: list[tuple[int, int, int, int, int]] = []
        part = b""
        for slot, (before, allowed, held) in enumerate(form.steps()):
            part += before
            if held is None:
                self.parts.append(part)
                self.slots.append(slot)
                self.allowed.append(allowed)
                part = b""
                continue
            kind = allowed.bit_length() - 1
            quote = b'"' if kind <= ESCAPED else b""
            start = len(part) + len(quote)
            self.constants.append((len(self.slots) - 1, slot, start, start + len(held), kind))
            part += quote + held + quote
        self.parts.append(part + form.last)

    def shared(self, other: _Plan) -> int:
        """With how many values both begin that stand between the same bytes, of the same kinds."""
        count = 0
        mine, others = (zip(one.parts, one.allowed, strict=False) for one in (self, other))
        for one, another in zip(mine, others, strict=False):
            if one != another:
                break
            count += 1
        return count
