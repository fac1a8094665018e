"""Databus events in their JSON form, one object a line (`databus-json`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from waybill.envelopes.databus.binary import CARRIES, PARTLY, SEQUENCE
from waybill.envelopes.databus.decoder import EventDecoder
from waybill.envelopes.databus.encoder import EventEncoder
from waybill.envelopes.databus.json_events import events, line_of
from waybill.envelopes.databus.settings import DatabusReadSettings, JsonWriteSettings
from waybill.protocol import Envelope
from waybill.records import Change, Message, skipped
from waybill.sequence_layout import SHARED_WINDOWS

if TYPE_CHECKING:
    from waybill.bulk.readings import BulkReader
    from waybill.envelopes.databus.event import Event


class JsonDecoder(EventDecoder):
    """Reads events in JSON."""

    def decode(self, message: Message) -> list[Change]:
        """The changes of one message."""
        if message.value is None:
            return [skipped(message, "tombstone")]
        return self.changes(message, events(message.value))


class JsonEncoder(EventEncoder):
    """Writes events in JSON."""

    def __init__(self, settings: JsonWriteSettings) -> None:
        super().__init__(settings, _frame, lines=True, json_values=settings.values == "JSON_PLAIN")


def _frame(events: list[Event]) -> bytes:
    return b"\n".join([line_of(event) for event in events])


def _bulk_reader(decoder: Any) -> BulkReader:
    from waybill.envelopes.databus.bulk_reading import DatabusReader
    from waybill.envelopes.databus.bulk_scanning import JsonScanner

    return DatabusReader(decoder, JsonScanner)


ENVELOPE = Envelope(
    name="databus-json",
    title="Databus events as JSON, values in Avro",
    source="Databus event format, and its class DbusEventSerializable",
    sequence=SEQUENCE,
    carries=CARRIES,
    partly=PARTLY,
    layouts=(SHARED_WINDOWS,),
    not_written={
        "traceEnabled": "carried on from messages of Databus, made for no others",
        "traceOn": "false, except in events that came from Databus",
        "isReplicated": "false, except in events that came from Databus",
        "hasPayloadMetadata": "false, except in events that came from Databus",
        "metadataValue": "carried on from messages of Databus, made for no others",
    },
    decoder=JsonDecoder,
    encoder=JsonEncoder,
    decode_settings=DatabusReadSettings,
    encode_settings=JsonWriteSettings,
    key_by="the values of the primary key as JSON; none for a table without key",
    bulk_reader=_bulk_reader,
)
"""The declaration of `databus-json`."""
