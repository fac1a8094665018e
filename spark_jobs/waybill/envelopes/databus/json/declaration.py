"""The declaration of `databus-json`."""

from __future__ import annotations

from waybill.envelopes.databus.binary.declaration import CARRIES, PARTLY, SEQUENCE
from waybill.envelopes.databus.settings import DatabusReadSettings, JsonWriteSettings
from waybill.protocol import Envelope, Named
from waybill.sequence_layout import SHARED_WINDOWS

ENVELOPE = Envelope(
    name="databus-json",
    title="Databus events as JSON, values in Avro",
    source="Databus event format, and its class DbusEventSerializable",
    sequence=SEQUENCE,
    carries=CARRIES,
    partly=PARTLY,
    layouts=(SHARED_WINDOWS,),
    not_written={
        "traceEnabled": "copied from messages of Databus, not made for other sources",
        "traceOn": "false, except in events that came from Databus",
        "isReplicated": "false, except in events that came from Databus",
        "hasPayloadMetadata": "false, except in events that came from Databus",
        "metadataValue": "copied from messages of Databus, not made for other sources",
    },
    decoder=Named("waybill.envelopes.databus.json.decoder:JsonDecoder"),
    encoder=Named("waybill.envelopes.databus.json.encoder:JsonEncoder"),
    decode_settings=DatabusReadSettings,
    encode_settings=JsonWriteSettings,
    key_by="the values of the primary key as JSON; none for a table without key",
    bulk_reader=Named("waybill.envelopes.databus.json.bulk:JsonReader"),
)
