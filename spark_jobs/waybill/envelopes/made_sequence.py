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

An id of a source and a made one cannot be compared, so one stream must not hold both. Where a
source's number may be missing (full rows, a setting), it is read with `optional`, and no other
format takes it as it is. Where only events may lack it (`goes_without`), they are written without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from waybill.envelopes.protocol import Settings
from waybill.order import position_number
from waybill.records import ROW_OPERATIONS

if TYPE_CHECKING:
    from waybill.records import Change

FIRST_SECOND, LAST_SECOND = 1_000_000_000, 4_000_000_000
"""The first second of ten digits, and one that leaves room for the counter in 64 bits."""

DATAWORKS_DIGITS, OMS_DIGITS = 9, 5
"""Digits of the counter."""

OWN = (0,)
"""What stands behind a number that other messages of its source may lack."""

_KEPT = (b'{"streamx":', b'{"oms":')
"""How `extra` begins of sources whose numbers targets keep although some messages have none."""


def optional(number: int) -> tuple[int, ...]:
    """The sequence of a number that other messages of the source may lack.

    It has two parts, so that no other format takes it as it is and makes ids for the messages
    without one; the format itself writes the number again and leaves it out again.
    """
    return (number, *OWN)


def came_without(change: Change) -> bool:
    """Whether a change has no number although its source has them, and targets keep those.

    DataHub's document asks for `sequenceId` in row changes only ("DML operations"); OMS has
    `storeDataSequence` only where `sequenceEnabled` is true.
    """
    extra = change.extra
    return change.sequence is None and extra is not None and extra.startswith(_KEPT)


def goes_without(change: Change) -> bool:
    """Whether an event stays without a number because a made one could stand above later rows.

    A TRUNCATE there would take away rows that were written after it.
    """
    return change.operation not in ROW_OPERATIONS and came_without(change)


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

    def of(self, change: Change, losses: list[str]) -> int:
        """The id of a change: it grows with the position, and differs between partitions.

        It is counted where it takes the place of the source's own, or stands among such.

        Raises:
            Refusal: the message holds more changes than an id can tell apart.
        """
        if change.sequence is not None or came_without(change):
            losses.append("sequence_id")
        message = change.message
        return self.start + position_number(message.partition, message.offset, change.index)
