"""The sequence ids of written DataHub messages: the source's own, or one made from the position."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.envelopes.made_sequence import DATAWORKS_DIGITS, MadeSequence
from waybill.order import AFTER

if TYPE_CHECKING:
    from waybill.envelopes.made_sequence import SequenceSettings
    from waybill.records import Change


class SequenceIds:
    """Writes sequence ids.

    Args:
        settings: where ids begin that have to be made.
    """

    def __init__(self, settings: SequenceSettings) -> None:
        self._made = MadeSequence(settings, DATAWORKS_DIGITS)

    def of(self, change: Change, losses: list[str]) -> str:
        """The source's own id where it is one number, else one made from the position.

        A number of several parts, or that other messages of its source may lack, is not taken: ids
        made for the others could not be compared with it (see `made_sequence`). The halves of an
        update share it, and no two updates do.

        Raises:
            Refusal: the message holds more changes than an id can tell apart.
        """
        sequence, rank = change.sequence, change.rank
        if sequence is not None and len(sequence) == 1 and sequence[0] >= 0 and rank <= AFTER:
            return str(sequence[0])
        return str(self._made.of(change, losses))
