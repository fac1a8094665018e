"""The sequence of written OMS messages where the source's own is none of one number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from waybill.envelopes.made_sequence import OMS_DIGITS, MadeSequence

if TYPE_CHECKING:
    from waybill.envelopes.made_sequence import SequenceSettings
    from waybill.records import Change


class SequenceIds:
    """Makes the sequence of changes.

    Args:
        settings: where ids begin.
        digits: digits of the counter: five by OMS's documentation.
    """

    def __init__(self, settings: SequenceSettings, digits: int = OMS_DIGITS) -> None:
        self._made = MadeSequence(settings, digits)

    def of(self, change: Change, losses: list[str]) -> int | UnsetType:
        """An id from the position; none for a full row: without one it is older than every change.

        Raises:
            Refusal: the message holds more changes than an id can tell apart.
        """
        if change.full_row and change.operation == "read":
            if change.sequence is not None:
                losses.append("sequence_id")
            return UNSET
        return self._made.of(change, losses)
