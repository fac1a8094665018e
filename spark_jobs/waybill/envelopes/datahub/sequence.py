"""The sequence ids of written DataHub messages: the source's own, or one made from the position.

DataWorks makes an id of 19 digits: ten for the second in which its task began, nine for a counter
that goes on from there (DataHub message formats, the samples of both kinds of topic:
1605339516000000004 to 1605339516000000035 for changes of three quarters of an hour). Waybill keeps
that form and lets the position in the source topic be the counter: nothing has to be remembered, so
an id is the same on every rerun and in every task, and the next batch goes on where the last one
ended. A counter that needs more than nine digits runs over into the seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from waybill.envelopes.protocol import Settings
from waybill.order import AFTER, position_number

if TYPE_CHECKING:
    from waybill.records import Change

COUNTER = 10**9
FIRST_SECOND, LAST_SECOND = 1_000_000_000, 4_000_000_000
"""The first second of ten digits, and one that leaves room for the counter in 64 bits."""


class SequenceSettings(Settings):
    """What making sequence ids needs to be told."""

    sequence_start: int = Field(
        default=FIRST_SECOND,
        ge=FIRST_SECOND,
        le=LAST_SECOND,
        description="The second (since 1970) at which sequence ids begin that are made because "
        "the source has none of one number. Keep it for the life of the topic; a topic that went "
        "on from another tool needs a second later than the ids in it.",
    )


class SequenceIds:
    """Writes sequence ids.

    Args:
        settings: where ids begin that have to be made.
    """

    def __init__(self, settings: SequenceSettings) -> None:
        self.start = settings.sequence_start * COUNTER

    def of(self, change: Change, losses: list[str]) -> str:
        """The source's own id where it is one number, else one made from the position.

        A made id grows with the position inside a partition, and is another one in each partition,
        so that halves of two updates cannot be mistaken for one.

        Raises:
            Refusal: the message holds more changes than an id can tell apart.
        """
        sequence = change.sequence
        if sequence is not None:
            if len(sequence) == 1 and change.rank <= AFTER and sequence[0] >= 0:
                return str(sequence[0])
            losses.append("sequence_id")
        message = change.message
        return str(self.start + position_number(message.partition, message.offset, change.index))
