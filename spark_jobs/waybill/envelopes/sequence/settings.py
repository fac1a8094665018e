"""Settings for reading sequence ids where a format's document says who has one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from waybill.errors import Refusal
from waybill.protocol import Settings

if TYPE_CHECKING:
    from waybill.records import Change


class SequencedReadSettings(Settings):
    """Settings of formats whose changes have a sequence id and whose full rows have none."""

    sequence_ids: Literal["in_messages", "none"] = Field(
        default="in_messages",
        description="`in_messages`: changes have a sequence id, as the envelope's document "
        "says, and one without it is refused. `none`: the producer was set to write none in the "
        "whole topic; then the position orders all of it, and a message with one is refused.",
    )

    @property
    def has_ids(self) -> bool:
        """Whether changes may have sequence ids."""
        return self.sequence_ids != "none"


def without_id(field: str, what: str) -> Refusal:
    """The refusal of a change that lacks its sequence id.

    Args:
        field: where the id stands.
        what: the change, as the format names it.
    """
    return Refusal(
        "sequence",
        f"{what} without {field} cannot be ordered among the changes that have one; where the "
        "whole topic has none, set sequence_ids: none in the settings of the source",
    )


def with_id(field: str) -> Refusal:
    """The refusal of a change that has a sequence id although the topic was said to have none."""
    return Refusal(
        "sequence",
        f"{field} is there although sequence_ids: none says that the topic has none: leave the "
        "setting out",
    )


def settled(change: Change, field: str, in_messages: bool, timed: bool = False) -> Change:
    """A row of OMS as its sequence id, or the lack of one, tells it to be.

    OMS has sequence ids "for incremental data only" (OceanBase documentation, Data formats,
    `storeDataSequence` and `scn`), so an INSERT without one is a row of a full synchronization,
    which is older than every change. An update or a delete is always incremental.

    Args:
        change: the row as it stands in the message.
        field: where the id stands.
        in_messages: whether changes of the topic have one.
        timed: whether `timestamp` too is there for incremental data only.

    Raises:
        Refusal: kind `sequence`; an increment lacks its id, or an id is there in spite of the
            setting.
    """
    if change.sequence is not None:
        if not in_messages:
            raise with_id(field)
    elif in_messages and not change.full_row:
        operation = change.operation
        if operation != "insert" or (timed and change.source_time is not None):
            what = "INSERT with a timestamp" if operation == "insert" else operation.upper()
            raise without_id(field, what)
        change.operation, change.full_row = "read", True
    return change
