"""One integer for a sequence id of several parts, which orders changes as the parts do.

The first part takes the leading digits. Each further part has a fixed number of decimal digits and
is written as its value plus one, so that a part that is absent, or -1 for "before all", is 0 and
sorts below every value. Decimal digits, not bits: whoever looks at an id can read the parts in it.

A number that does not fit its digits is an error and never runs over into its neighbour.
"""

from __future__ import annotations

import msgspec

from waybill.errors import Refusal
from waybill.order import MAX_INDEX, MAX_OFFSET, position_number

POSITION_DIGITS = 19
"""Digits of partition, offset and index: four, ten and five."""
WIDE = 20
"""Digits of a part of which nothing is known: as many as 64 bits without sign have."""
PLACES: int = 10**POSITION_DIGITS


class SequenceLayout(msgspec.Struct, frozen=True):
    """How the sequence ids of one kind of source become one integer.

    Attributes:
        parts: what the parts are, strongest first; ids with fewer of them lack the last ones.
        digits: digits of each part behind the first; 0 for a part that is always 0 or absent and
            is left out, so that the first one stays as it is.
        first: below this the first part stays as long as the source's numbers are usual ones. It
            decides, before anything is written, whether ids fit a target.
        shared: whether several changes of a row may have the same id, so that the position in the
            topic decides between them and has to be part of the written one.
        below_zero: whether rows with a negative id are those of an initial load.
        connector: the connectors of Debezium that this is for; empty for all others.
    """

    parts: tuple[str, ...]
    digits: tuple[int, ...] = ()
    first: int = 2**63
    shared: bool = False
    below_zero: bool = False
    connector: tuple[str, ...] = ()

    @property
    def factor(self) -> int:
        """What the first part is multiplied by."""
        return int(10 ** sum(self.digits)) * (PLACES if self.shared else 1)

    def fits(self, largest: int) -> bool:
        """Whether ids are at most `largest` as long as the source's numbers are usual ones."""
        return self.first * self.factor - 1 <= largest

    def keeps(self, sequence: tuple[int, ...]) -> bool:
        """Whether a sequence is one true number, which is written as it is."""
        return not self.shared and (len(sequence) == 1 or not any(self.digits))


OWN = (0,)
"""What stands behind a number that other messages of its source may lack."""

ONE_NUMBER = SequenceLayout(("sequence id",))
"""Sources whose ids are one integer."""

OPTIONAL_NUMBER = SequenceLayout(("sequence id",), (0,))
"""Sources whose ids are one integer that some messages lack; see `optional`."""

SHARED_WINDOWS = SequenceLayout(("window",), (), 10**15, shared=True)
"""Databus: all changes of a window have its number."""


def optional(number: int) -> tuple[int, ...]:
    """The sequence of a number that other messages of the source may lack."""
    return (number, *OWN)


def pack(sequence: tuple[int, ...], layout: SequenceLayout) -> int:
    """The one integer of a sequence id, without a position.

    Raises:
        Refusal: kind `encoding`; a part is larger than its digits allow, or there are more parts.
    """
    first, *rest = sequence
    if first < 0:
        sentence = f"{_name(layout, 0)} of the sequence id is {first}, and no written id is below 0"
        raise Refusal("encoding", sentence)
    if len(sequence) == 1 and not layout.shared:
        return first
    if len(rest) > len(layout.digits):
        raise Refusal(
            "encoding",
            f"the sequence id has {len(sequence)} parts, and sequence_digits has digits for "
            f"{len(layout.digits)} behind the first: add to sequence_digits of the target",
        )
    number: int = first
    for place, width in enumerate(layout.digits):
        value = rest[place] + 1 if place < len(rest) else 0
        if width == 0:
            if value > 1:
                raise _beyond(layout, place, rest[place], 0)
            continue
        if not 0 <= value < 10**width:
            raise _beyond(layout, place, rest[place], 10**width - 2)
        scale: int = 10**width
        number = number * scale + value
    return number


def unpack(number: int, layout: SequenceLayout) -> tuple[int, ...]:
    """The sequence id that `pack` made a number of; absent parts are -1, left out ones 0."""
    parts: list[int] = []
    for width in reversed(layout.digits):
        if width == 0:
            parts.append(0)
            continue
        number, value = divmod(number, 10**width)
        parts.append(value - 1)
    return (number, *reversed(parts))


def placed(number: int, partition: int, offset: int, index: int) -> int:
    """A number that several changes share, with their positions behind it.

    Raises:
        Refusal: kind `encoding`; the position is beyond what the digits can tell apart.
    """
    if not 0 <= offset < MAX_OFFSET or not 0 <= partition < MAX_INDEX // 10:
        raise Refusal(
            "encoding",
            f"partition {partition}, offset {offset} cannot follow a sequence id that "
            f"several changes share: there is room for {MAX_INDEX // 10} partitions and "
            f"{MAX_OFFSET} offsets",
        )
    return number * PLACES + position_number(partition, offset, index)


def _name(layout: SequenceLayout, place: int) -> str:
    return layout.parts[place] if place < len(layout.parts) else f"part {place + 1}"


def _beyond(layout: SequenceLayout, place: int, value: int, limit: int) -> Refusal:
    return Refusal(
        "encoding",
        f"{_name(layout, place + 1)} of the sequence id is {value} and has room up to {limit}: "
        "give it more digits in sequence_digits of the target, for the whole topic",
    )
