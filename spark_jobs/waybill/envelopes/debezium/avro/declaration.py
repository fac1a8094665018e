"""The declaration of `debezium-avro`."""

from __future__ import annotations

from waybill.envelopes.debezium.avro.settings import (
    DebeziumAvroReadSettings,
    DebeziumAvroWriteSettings,
)
from waybill.envelopes.debezium.declaration import ENVELOPE as EVENTS
from waybill.envelopes.debezium.declaration import NEGATIVE_ZERO, NOT_WRITTEN
from waybill.envelopes.debezium.source import LAYOUTS
from waybill.envelopes.snapshot_rows import WITHOUT_PLACE
from waybill.protocol import CAPABILITIES, NO_TRUNCATES, Envelope, Limit, Named

_PARTLY = {
    "full_rows": EVENTS.partly["full_rows"],
    "sequence_id": WITHOUT_PLACE,
    "key_change": EVENTS.partly["key_change"],
    "transactions": "every row carries its transaction's id; begin, commit and rollback are not "
    "written",
}

_READ = frozenset({"ddl", "heartbeat", "other"})


ENVELOPE = Envelope(
    name="debezium-avro",
    title="Debezium change events in Avro (Confluent framing)",
    source="Debezium documentation, recorded streams, and Confluent's Avro converter",
    sequence=EVENTS.sequence,
    carries=frozenset(CAPABILITIES) - frozenset(_PARTLY) - _READ - {"database_kind"},
    brings=_READ,
    partly=_PARTLY,
    limits=(
        NEGATIVE_ZERO,
        NO_TRUNCATES,
        *(
            Limit("unsigned", "number", name, "numbers of 2^63 and more are refused")
            for name in ("types", "exact_numbers")
        ),
    ),
    layouts=LAYOUTS,
    not_written=NOT_WRITTEN,
    decoder=Named("waybill.envelopes.debezium.avro.decoder:DebeziumAvroDecoder"),
    encoder=Named("waybill.envelopes.debezium.avro.encoder:DebeziumAvroEncoder"),
    decode_settings=DebeziumAvroReadSettings,
    encode_settings=DebeziumAvroWriteSettings,
    key_by="an Avro record of the key columns; none for a table without key",
    moves_apart=True,
    mark=Named("waybill.avro.framing:mark"),
    bulk_reader=Named("waybill.envelopes.debezium.avro.bulk.reading:DebeziumAvroReader"),
    bulk_writer=Named("waybill.envelopes.debezium.avro.bulk.writing:DebeziumAvroWriter"),
)
