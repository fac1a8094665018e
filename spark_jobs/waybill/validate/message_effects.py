"""What messages do to their tables, and with which sequence ids they have to say so.

An id depends on the target: it is the source's as it stands, or its parts as one number, or made
from the position, or none (docs/order.md). The encoder that takes one change after the other says
which. So where a target has ids, changes are written once more in the gate: either the messages
are the same bytes, or the ids in them are held against those in the new ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from waybill.batches.encoding import MessageBatches
from waybill.envelopes import registry
from waybill.envelopes.pairs import join
from waybill.errors import Refusal
from waybill.records import Message
from waybill.validate.digest import Effect, broken, difference, effects_of, with_ids

if TYPE_CHECKING:
    from waybill.protocol import Decoder, Encoder, Settings
    from waybill.records import Change, TableSchema
    from waybill.spec.endpoints import Source, Target

Told = list[tuple[Message, str]]
"""The messages of a change, each with the name of its table."""


def effects_told(decoder: Decoder, messages: Told) -> tuple[list[Effect], str | None]:
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


@dataclass(frozen=True)
class Writer:
    """How the changes of one target that has ids are written; plain data for the tasks."""

    envelope: str
    settings: Settings

    def encoder(self) -> Encoder:
        """An encoder for one task."""
        envelope = registry.get(self.envelope)
        assert envelope.encoder is not None
        return envelope.encoder(self.settings)

    def batches(self, schemas: dict[str, TableSchema]) -> MessageBatches:
        """What writes many changes at once, for one task."""
        writer = registry.get(self.envelope).bulk_writer
        return MessageBatches(self.encoder(), "", "", schemas, writer)


def writer_of(target: Target, source: Source) -> Writer | None:
    """How a target is written, None where its messages have no ids."""
    envelope, origin = registry.get(target.envelope), registry.get(source.envelope)
    if envelope.encoder is None or "sequence_id" not in envelope.carries | envelope.partly.keys():
        return None
    told = origin.decode_settings.model_validate(source.settings)
    settings = envelope.encode_settings.model_validate(target.settings)
    return Writer(target.envelope, settings.for_source(origin, told))


class Expected:
    """What the messages of changes have to say, for one target.

    Args:
        writer: how the target is written, None where it has no ids.
        decoder: reads what is written once more.
    """

    def __init__(self, writer: Writer | None, decoder: Decoder) -> None:
        self._encoder = None if writer is None else writer.encoder()
        self._decoder = decoder

    def effects(
        self, change: Change, messages: Told | None = None, found: list[Effect] | None = None
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
        try:
            written = self._encoder.encode(change, [])
        except Refusal:
            # What cannot be written has no messages, so any that is there is a wrong one.
            return []
        again = [(Message(*_place(change), one.key, one.value, one.headers), "") for one in written]
        if messages is None or list(map(_bytes, messages)) != list(map(_bytes, again)):
            found, _ = effects_told(self._decoder, again)
        return with_ids(mine, found)

    def difference(
        self, change: Change, messages: Told, found: list[Effect], weakened: bool
    ) -> str | None:
        """What messages say otherwise than their change, in words.

        Args:
            change: the change.
            messages: its messages.
            found: what they do.
            weakened: whether the row cannot be expected to come back whole.
        """
        there = with_ids(found, None) if self._encoder is None else found
        return difference(self.effects(change, messages, found), there, weakened)


def _place(change: Change) -> tuple[str, int, int, int | None]:
    message, time = change.message, change.source_time
    return message.topic, message.partition, message.offset, None if time is None else time // 1000


def _bytes(told: tuple[Message, str]) -> tuple[bytes | None, bytes | None]:
    return told[0].key, told[0].value
