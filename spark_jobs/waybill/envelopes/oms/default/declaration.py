"""The declaration of `oms-default`."""

from __future__ import annotations

from waybill.envelopes.oms.lobs import NULL_IS_UNTOUCHED
from waybill.envelopes.oms.settings import OmsDefaultWriteSettings, OmsSequencedReadSettings
from waybill.envelopes.sequence.written import POSITIONS
from waybill.protocol import Envelope, Named
from waybill.sequence_layout import ONE_NUMBER

ENVELOPE = Envelope(
    name="oms-default",
    title="OceanBase OMS, Default (JSON)",
    source="OceanBase documentation, Data formats",
    sequence="`storeDataSequence`, one integer; without it (full synchronization, or switched off) "
    "partition and offset",
    carries=frozenset(
        {
            "before_image",
            "full_rows",
            "operations",
            "delete",
            "truncate",
            "ddl",
            "heartbeat",
            "key_change",
            "key_columns",
            "exact_numbers",
            "database_kind",
        }
    ),
    partly={
        "types": "oms-default distinguishes numbers, texts and booleans only; declare "
        "the types under tables when it is read",
        "unchanged_columns": "oms-default holds full rows; a column that neither the source's "
        "message nor the row before has is left out, which not every reader expects",
        "sequence_id": "a full row has none; ids of several parts whose layout has no room in 64 "
        f"bits are replaced by ones made from the position; {POSITIONS}",
        "source_time": "oms-default has whole seconds; finer digits are dropped",
    },
    limits=(NULL_IS_UNTOUCHED,),
    unnumbered="oms",
    layouts=(ONE_NUMBER,),
    not_written={
        "allMetaData.checkpoint": "null, except in messages that came from OMS",
        "allMetaData.source_identity": "null, except in messages that came from OMS",
        "allMetaData.uniqueId": "null, except in messages that came from OMS",
    },
    decoder=Named("waybill.envelopes.oms.default.decoder:OmsDefaultDecoder"),
    encoder=Named("waybill.envelopes.oms.default.encoder:OmsDefaultEncoder"),
    bulk_reader=Named("waybill.envelopes.oms.default.bulk:OmsReader"),
    bulk_writer=Named("waybill.envelopes.oms.default.bulk:OmsBulkWriter"),
    decode_settings=OmsSequencedReadSettings,
    encode_settings=OmsDefaultWriteSettings,
    key_by="JSON array of the key's values after the change, so that the changes of one row stay "
    "in one partition; `database.table` for tables without key; none for events",
)
