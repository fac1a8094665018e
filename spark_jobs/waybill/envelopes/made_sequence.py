"""Sequence ids for targets that order changes by a number which the source does not give.

Such ids are a second since 1970 in ten digits and a counter of a fixed number of digits, as the
tools make them that write these envelopes:

- 9 digits of counter in DataWorks' messages (DataHub message formats, the samples of both kinds of
  topic: 1605339516000000004 to 1605339516000000035 for changes of three quarters of an hour, so the
  second is the one in which the task began). What documents no form of its own follows it:
  Databus's windows and `scn` of OMS DataWorks 2.0.
- 5 digits in OMS Default, DefaultExtendColumnType and SharePlex: "timestamp + sequence number",
  where the number "does not exceed five digits" (OMS data formats, `storeDataSequence`, `scn`).
  All digits are written, so that no two ids look the same or change places.

The counter is the position in the source topic: partition, offset, and five digits of the index in
the message. Nothing has to be remembered, so an id is the same on every rerun and in every task,
ids grow strictly inside a partition, and the next batch goes on where the last one ended. A counter
that needs more digits runs over into the seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from waybill.envelopes.protocol import Settings
from waybill.order import position_number

if TYPE_CHECKING:
    from waybill.records import Change

FIRST_SECOND, LAST_SECOND = 1_000_000_000, 4_000_000_000
"""The first second of ten digits, and one that leaves room for the counter in 64 bits."""

DATAWORKS_DIGITS, OMS_DIGITS = 9, 5
"""Digits of the counter."""


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


class MadeSequence:
    """Makes the ids of one target.

    Args:
        settings: where ids begin.
        digits: digits of the counter.
    """

    def __init__(self, settings: SequenceSettings, digits: int) -> None:
        self.start: int = settings.sequence_start * 10**digits

    def of(self, change: Change) -> int:
        """The id of a change: it grows with the position, and differs between partitions.

        Raises:
            Refusal: the message holds more changes than an id can tell apart.
        """
        message = change.message
        return self.start + position_number(message.partition, message.offset, change.index)
