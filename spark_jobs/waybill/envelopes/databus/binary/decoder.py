"""Reads binary Databus events, one message a stream of events."""

from __future__ import annotations

from waybill.envelopes.databus.binary.events import events
from waybill.envelopes.databus.decoder import EventDecoder
from waybill.records import Change, Message, skipped


class BinaryDecoder(EventDecoder):
    """Reads binary events."""

    def decode(self, message: Message) -> list[Change]:
        """The changes of one message."""
        if message.value is None:
            return [skipped(message, "tombstone")]
        return self.changes(message, events(message.value, self.settings.old_writers))
