"""The declaration of `ogg`."""

from __future__ import annotations

from msgspec import structs

from waybill.envelopes.ogg.settings import OggReadSettings, OggWriteSettings
from waybill.protocol import NO_TRUNCATES, Envelope, Named
from waybill.sequence_layout import OPTIONAL_NUMBER

ENVELOPE = Envelope(
    name="ogg",
    title="Oracle GoldenGate for Big Data (JSON operations)",
    source="Oracle GoldenGate for Big Data, Using the Pluggable Formatters; Apache Flink, ogg-json",
    sequence="`pos`, the digits of trail file and offset as one integer; without it partition and "
    "offset",
    carries=frozenset(
        {
            "before_image",
            "unchanged_columns",
            "operations",
            "delete",
            "truncate",
            "key_change",
            "key_columns",
            "exact_numbers",
            "source_time",
            "schema_name",
        }
    ),
    partly={
        "types": "ogg distinguishes numbers, texts and booleans only; declare the "
        "types under tables when it is read",
        "sequence_id": "a full row has no pos, and its place in the topic is the order",
    },
    limits=(NO_TRUNCATES,),
    layouts=(structs.replace(OPTIONAL_NUMBER, below_zero=True),),
    not_written={
        "current_ts": "copied from messages of GoldenGate, not made for other sources",
        "tokens": "copied from messages of GoldenGate, not made for other sources",
    },
    decoder=Named("waybill.envelopes.ogg.decoder:OggDecoder"),
    encoder=Named("waybill.envelopes.ogg.encoder:OggEncoder"),
    bulk_reader=Named("waybill.envelopes.ogg.bulk:OggReader"),
    bulk_writer=Named("waybill.envelopes.ogg.bulk:OggWriter"),
    decode_settings=OggReadSettings,
    encode_settings=OggWriteSettings,
    key_by="JSON array of the key's values after the change, so that the changes of one row stay "
    "in one partition; the table's name for tables without key and for TRUNCATE",
)
