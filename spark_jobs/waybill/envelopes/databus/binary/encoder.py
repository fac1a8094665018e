"""Writes binary Databus events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.envelopes.databus.binary.events import event_bytes
from waybill.envelopes.databus.encoder import EventEncoder

if TYPE_CHECKING:
    from waybill.envelopes.databus.event import Event
    from waybill.envelopes.databus.settings import BinaryWriteSettings


class BinaryEncoder(EventEncoder):
    """Writes binary events."""

    def __init__(self, settings: BinaryWriteSettings) -> None:
        super().__init__(settings, _frame, little=settings.byte_order == "little")


def _frame(events: list[Event]) -> bytes:
    if len(events) == 1:
        return event_bytes(events[0])
    return b"".join([event_bytes(event) for event in events])
