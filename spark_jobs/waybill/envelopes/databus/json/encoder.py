"""Writes Databus events in their JSON form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.envelopes.databus.encoder import EventEncoder
from waybill.envelopes.databus.json.events import line_of

if TYPE_CHECKING:
    from waybill.envelopes.databus.event import Event
    from waybill.envelopes.databus.settings import JsonWriteSettings


class JsonEncoder(EventEncoder):
    """Writes events in JSON."""

    def __init__(self, settings: JsonWriteSettings) -> None:
        super().__init__(settings, _frame, lines=True, json_values=settings.values == "JSON_PLAIN")


def _frame(events: list[Event]) -> bytes:
    return b"\n".join([line_of(event) for event in events])
