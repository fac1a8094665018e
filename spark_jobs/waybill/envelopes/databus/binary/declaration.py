"""The declaration of `databus-binary`."""

from __future__ import annotations

from waybill.envelopes.databus.settings import BinaryWriteSettings, DatabusReadSettings
from waybill.envelopes.sequence.written import POSITIONS
from waybill.protocol import Envelope, Named
from waybill.sequence_layout import SHARED_WINDOWS

PARTLY = {
    "before_image": "the row before is written for a delete and for a change of the key only",
    "key_change": "a change of the key is written as a DELETE and an UPSERT of one window",
    "transactions": (
        "rows name their transaction and a commit ends a window; there is no begin and no rollback"
    ),
    "sequence_id": (
        "a window is one number of 64 bits; ids of several parts whose layout has no room in "
        f"them are replaced by ones made from the position; {POSITIONS}"
    ),
    "other": (
        "control events that came from Databus itself only; of what an event has beside its row, "
        "version 1 has no metadata and no key with a schema, version 2 no logical partition; "
        "schema ids that are versions (REPL_DBUS) stay so with `schema_ids: version` only"
    ),
}

CARRIES = frozenset(
    {
        *(
            "unchanged_columns",
            "full_rows",
            "operations",
            "delete",
            "key_columns",
            "types",
            "exact_numbers",
        ),
        *("source_time", "schema_name"),
    }
)

SEQUENCE = "sequence, the number of the window (SCN); inside a window the position in the stream"


ENVELOPE = Envelope(
    name="databus-binary",
    title="Databus events, binary versions 1 and 2, values in Avro",
    source="Databus event format, and its classes DbusEventV1, DbusEventV2 and DbusEventPart",
    sequence=SEQUENCE,
    carries=CARRIES,
    partly=PARTLY,
    layouts=(SHARED_WINDOWS,),
    not_written={
        "trace": "the attribute is copied from events of Databus, not set for other sources",
        "replicated": "the attribute is copied from events of Databus, not set for other sources",
        "metadata": "the metadata part of version 2 is copied from events of Databus, not made for "
        "other sources",
    },
    decoder=Named("waybill.envelopes.databus.binary.decoder:BinaryDecoder"),
    encoder=Named("waybill.envelopes.databus.binary.encoder:BinaryEncoder"),
    decode_settings=DatabusReadSettings,
    encode_settings=BinaryWriteSettings,
    key_by="the values of the primary key as JSON; none for a table without key",
    mark=Named("waybill.envelopes.databus.binary.events:mark"),
    bulk_reader=Named("waybill.envelopes.databus.binary.bulk:BinaryReader"),
)
