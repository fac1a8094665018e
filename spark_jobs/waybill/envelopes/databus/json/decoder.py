"""Reads Databus events in their JSON form, one object a line."""

from __future__ import annotations

from waybill.envelopes.databus.decoder import EventDecoder
from waybill.envelopes.databus.json.events import events
from waybill.records import Change, Message, skipped


class JsonDecoder(EventDecoder):
    """Reads events in JSON."""

    def decode(self, message: Message) -> list[Change]:
        """The changes of one message."""
        if message.value is None:
            return [skipped(message, "tombstone")]
        return self.changes(message, events(message.value))
