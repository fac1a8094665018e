"""What messages do to their tables, and with which sequence ids they have to say so.

An id depends on the target: it is the source's as it stands, or its parts as one number, or made
from the position, or none (docs/order.md). The encoder that takes one change after the other says
which. So where a target has ids, changes are written once more in the gate: either the messages
are the same bytes, or the ids in them are held against those in the new ones. Where messages also
say where a window of changes ends (Databus), which no row shows, they have to be the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from waybill.batches.encoding import MessageBatches
from waybill.counting import counted
from waybill.envelopes import registry
from waybill.envelopes.pairs import join
from waybill.errors import Refusal
from waybill.records import Message
from waybill.validate.digest import (
    Digests,
    Effect,
    broken,
    difference,
    digests,
    effects_of,
    with_ids,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from waybill.protocol import Decoder, Encoder, Settings
    from waybill.records import Change, TableSchema
    from waybill.spec.endpoints import Source, Target

ChangeMessages = list[tuple[Message, str]]
"""The messages of a change, each with the name of its table."""


def effects_of_messages(
    decoder: Decoder, messages: ChangeMessages
) -> tuple[list[Effect], str | None]:
    """What messages of one change do, or why they cannot be read."""
    effects: list[Effect] = []
    half: Change | None = None
    try:
        for message, _ in messages:
            for change in decoder.decode(message):
                if change.outcome == "refused":
                    return [], f"cannot be read again ({change.reason_kind}: {change.reason})"
                if change.outcome != "ok":
                    continue
                if change.half == "before":
                    half = change
                    continue
                if change.half == "after" and half and half.sequence == change.sequence:
                    change = join(half, change)
                    half = None
                effects += effects_of(change)
    except Refusal as error:
        return [], broken(error)
    if half is not None:
        return [], "is half of an update without its other half"
    return effects, None


def digests_of_messages(effects: list[Effect], messages: ChangeMessages | None) -> Digests:
    """The digests of what messages do.

    Args:
        effects: what they do.
        messages: those of a target whose bytes count, None for another.
    """
    found = digests(effects)
    return found if messages is None else found.with_bytes(map(_bytes, messages))


@dataclass(frozen=True)
class Writer:
    """How the changes of one target that has ids are written; plain data for the tasks."""

    envelope: str
    settings: Settings

    @property
    def ends_windows(self) -> bool:
        """Whether its messages say where windows end."""
        return self.settings.ends_windows

    def encoder(self) -> Encoder:
        """An encoder for one task."""
        envelope = registry.get(self.envelope)
        assert envelope.encoder is not None
        return envelope.encoder(self.settings)

    def batches(self, schemas: dict[str, TableSchema]) -> MessageBatches:
        """What writes changes in bulk, for one task."""
        writer = registry.get(self.envelope).bulk_writer
        return MessageBatches(self.encoder(), "", "", schemas, writer)


def writer_of(target: Target, source: Source, ids: Mapping[str, Any]) -> Writer | None:
    """How a target was written, None where its messages have no ids.

    Args:
        target: the target as it is set now.
        source: the source.
        ids: settings that its ids were written with, where those are known.
    """
    envelope, origin = registry.get(target.envelope), registry.get(source.envelope)
    if envelope.encoder is None or "sequence_id" not in envelope.carries | envelope.partly.keys():
        return None
    read_settings = origin.decode_settings.model_validate(source.settings)
    settings = envelope.encode_settings.model_validate({**target.settings, **ids})
    return Writer(target.envelope, settings.for_source(origin, read_settings))


class Expected:
    """What the messages of changes have to say, for one target.

    Args:
        writer: how the target is written, None where it has no ids.
        decoder: reads what is written once more.
    """

    def __init__(self, writer: Writer | None, decoder: Decoder) -> None:
        self._encoder = None if writer is None else writer.encoder()
        self._whole = writer is not None and writer.ends_windows
        self._decoder = decoder

    def effects(
        self,
        change: Change,
        messages: ChangeMessages | None = None,
        found: list[Effect] | None = None,
    ) -> list[Effect]:
        """The effects of a change with the ids that its messages have to carry.

        Args:
            change: the change.
            messages: those that were written, where they have been read.
            found: what they do; what has the same bytes says the same.
        """
        mine = effects_of(change)
        if self._encoder is None:
            return with_ids(mine, None)
        again = self._again(change)
        if again is None:
            # What cannot be written has no messages, so any that is there is a wrong one.
            return []
        if messages is None or list(map(_bytes, messages)) != list(map(_bytes, again)):
            found, _ = effects_of_messages(self._decoder, again)
        return with_ids(mine, found)

    def _again(self, change: Change) -> ChangeMessages | None:
        """The messages of a change, written once more; None where it cannot be written."""
        assert self._encoder is not None
        try:
            written = self._encoder.encode(change, [])
        except Refusal:
            return None
        return [(Message(*_place(change), one.key, one.value, one.headers), "") for one in written]

    def digests(self, change: Change) -> Digests:
        """The digests of what the messages of a change have to say."""
        again = self._again(change) if self._whole else None
        return digests_of_messages(self.effects(change), again)

    def difference(
        self, change: Change, messages: ChangeMessages, found: list[Effect], weakened: bool
    ) -> str | None:
        """What messages say otherwise than their change, in words.

        Args:
            change: the change.
            messages: its messages.
            found: what they do.
            weakened: whether the row cannot be expected to come back whole.
        """
        there = with_ids(found, None) if self._encoder is None else found
        why = difference(self.effects(change, messages, found), there, weakened)
        if why is not None or not self._whole:
            return why
        again = self._again(change)
        if again is None or list(map(_bytes, messages)) == list(map(_bytes, again)):
            return None
        return (
            f"is {counted(len(messages), 'message')} with the same row and other bytes than "
            f"{counted(len(again), 'message')} written of the change: hold the end of the window, "
            "the partition and the time of the event against it"
        )


def _place(change: Change) -> tuple[str, int, int, int | None]:
    message, time = change.message, change.source_time
    return message.topic, message.partition, message.offset, None if time is None else time // 1000


def _bytes(placed: tuple[Message, str]) -> tuple[bytes | None, bytes | None]:
    return placed[0].key, placed[0].value
