"""Debezium's change events in Avro with Confluent's framing (envelope `debezium-avro`).

The events are those of `debezium-json`, and so are the rules; the schemas are Kafka Connect's as
Confluent's Avro converter writes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from waybill.avro.framing import mark
from waybill.envelopes.debezium.avro_decoder import DebeziumAvroDecoder
from waybill.envelopes.debezium.avro_encoder import DebeziumAvroEncoder
from waybill.envelopes.debezium.avro_settings import (
    DebeziumAvroReadSettings,
    DebeziumAvroWriteSettings,
)
from waybill.envelopes.debezium.json_envelope import ENVELOPE as EVENTS
from waybill.envelopes.debezium.json_envelope import NEGATIVE_ZERO, NOT_WRITTEN
from waybill.envelopes.debezium.source import LAYOUTS
from waybill.envelopes.snapshot_rows import WITHOUT_PLACE
from waybill.protocol import CAPABILITIES, NO_TRUNCATES, Envelope, Limit

if TYPE_CHECKING:
    from waybill.bulk.readings import BulkReader
    from waybill.bulk.templates import BulkWriter

_PARTLY = {
    "full_rows": EVENTS.partly["full_rows"],
    "sequence_id": WITHOUT_PLACE,
    "key_change": EVENTS.partly["key_change"],
    "transactions": "every row carries its transaction's id; begin, commit and rollback are not "
    "written",
}
_READ = frozenset({"ddl", "heartbeat", "other"})


def _bulk_reader(decoder: Any) -> BulkReader:
    from waybill.envelopes.debezium.bulk_avro_reading import DebeziumAvroReader

    return DebeziumAvroReader(decoder)


def _bulk_writer(encoder: Any) -> BulkWriter:
    from waybill.envelopes.debezium.bulk_avro_writing import DebeziumAvroWriter

    return DebeziumAvroWriter(encoder)


ENVELOPE = Envelope(
    name="debezium-avro",
    title="Debezium change events in Avro (Confluent framing)",
    source="Debezium documentation, recorded streams, and Confluent's Avro converter",
    sequence=EVENTS.sequence,
    carries=frozenset(CAPABILITIES) - frozenset(_PARTLY) - _READ,
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
    decoder=DebeziumAvroDecoder,
    encoder=DebeziumAvroEncoder,
    decode_settings=DebeziumAvroReadSettings,
    encode_settings=DebeziumAvroWriteSettings,
    key_by="an Avro record of the key columns; none for a table without key",
    moves_apart=True,
    mark=mark,
    bulk_reader=_bulk_reader,
    bulk_writer=_bulk_writer,
)
"""The declaration of `debezium-avro`."""
