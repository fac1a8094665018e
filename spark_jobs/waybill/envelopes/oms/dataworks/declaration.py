"""The declaration of `oms-dataworks`."""

from __future__ import annotations

from msgspec import structs

from waybill.envelopes.oms.dataworks.settings import OmsDataworksWriteSettings
from waybill.envelopes.oms.lobs import NULL_IS_UNTOUCHED
from waybill.envelopes.oms.settings import ZonedSequencedReadSettings
from waybill.envelopes.sequence.written import POSITIONS
from waybill.protocol import Envelope, Named
from waybill.sequence_layout import OPTIONAL_NUMBER

ENVELOPE = Envelope(
    name="oms-dataworks",
    title="OceanBase OMS, DataWorks 2.0 (JSON)",
    source="OceanBase documentation, Data formats",
    sequence="`payload.scn`, one integer in digits; without it partition and offset",
    carries=frozenset(
        {
            *("before_image", "unchanged_columns", "operations", "delete", "truncate", "ddl"),
            *("heartbeat", "key_change", "key_columns", "exact_numbers", "schema_name"),
            "database_kind",
        }
    ),
    partly={
        "types": "oms-dataworks has no name for XML, which is written as VARCHAR; a name that came "
        "from OMS is kept, also where another type is declared",
        "transactions": "oms-dataworks has begin and end of a transaction, no rollback, and rows "
        "do not name their transaction",
        "full_rows": "a snapshot row with a position of its own is written as an insert",
        "sequence_id": f"a full row has none; {POSITIONS}",
        "source_time": "oms-dataworks has milliseconds; finer digits are dropped",
        "other": "oms-dataworks carries statements of row changes and events that came from the "
        "same family",
    },
    limits=(
        NULL_IS_UNTOUCHED,
        structs.replace(NULL_IS_UNTOUCHED, capability="unchanged_columns"),
    ),
    unnumbered="dataworks",
    layouts=(OPTIONAL_NUMBER,),
    not_written={
        "schema.source.dbVersion": "null, except in messages that came from OMS",
        "payload.timestamp.systemTime": "copied from messages of OMS, not made for other sources",
        "payload.timestamp.checkpointTime": "copied from messages of OMS, not made for other "
        "sources",
    },
    decoder=Named("waybill.envelopes.oms.dataworks.decoder:OmsDataworksDecoder"),
    encoder=Named("waybill.envelopes.oms.dataworks.encoder:OmsDataworksEncoder"),
    bulk_reader=Named("waybill.envelopes.oms.dataworks.bulk:OmsDataworksReader"),
    bulk_writer=Named("waybill.envelopes.oms.dataworks.bulk:OmsDataworksWriter"),
    decode_settings=ZonedSequencedReadSettings,
    encode_settings=OmsDataworksWriteSettings,
    key_by="JSON array of the key's values after the change, so that the changes of one row stay "
    "in one partition; `database.table` for tables without key and for DDL",
)
