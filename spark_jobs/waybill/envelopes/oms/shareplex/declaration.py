"""The declaration of `oms-shareplex`."""

from __future__ import annotations

from waybill.envelopes.oms.lobs import NULL_IS_UNTOUCHED
from waybill.envelopes.oms.shareplex.settings import (
    OmsShareplexReadSettings,
    OmsShareplexWriteSettings,
)
from waybill.envelopes.sequence.written import POSITIONS
from waybill.protocol import Envelope, Named
from waybill.sequence_layout import SequenceLayout

ENVELOPE = Envelope(
    name="oms-shareplex",
    title="OceanBase OMS, SharePlex (JSON)",
    source="OceanBase documentation, Data formats",
    sequence="`scn`, then the place of `idx` if there is one; without `scn` partition and offset",
    carries=frozenset({"before_image", "operations", "delete", "key_change", "exact_numbers"}),
    partly={
        "types": "oms-shareplex distinguishes numbers and texts only; declare the "
        "types under tables when it is read",
        "key_columns": "oms-shareplex has the values of a key and not its columns; declare the "
        "key under tables when it is read",
        "unchanged_columns": "oms-shareplex has what an update changed; a column that the source "
        "left out is taken from the row before",
        "transactions": "oms-shareplex has the id of a row's transaction, no begin, commit and "
        "rollback",
        "full_rows": "a snapshot row with a position of its own is written as an insert",
        "sequence_id": f"a full row has none; {POSITIONS}",
        "source_time": "oms-shareplex has whole seconds; finer digits are dropped",
    },
    limits=(NULL_IS_UNTOUCHED,),
    unnumbered="shareplex",
    layouts=(SequenceLayout(("scn", "place in idx"), (5,), 10**15),),
    not_written={
        "meta.size": "copied from messages of OMS, not made for other sources",
        "meta.idx": "copied from messages of OMS; the place in a transaction of other "
        "sources is part of scn",
        "meta.seq": "copied from messages of OMS, not made for other sources",
    },
    decoder=Named("waybill.envelopes.oms.shareplex.decoder:OmsShareplexDecoder"),
    encoder=Named("waybill.envelopes.oms.shareplex.encoder:OmsShareplexEncoder"),
    bulk_reader=Named("waybill.envelopes.oms.shareplex.bulk:OmsShareplexReader"),
    bulk_writer=Named("waybill.envelopes.oms.shareplex.bulk:OmsShareplexWriter"),
    decode_settings=OmsShareplexReadSettings,
    encode_settings=OmsShareplexWriteSettings,
    key_by="JSON array of the key's values after the change, so that the changes of one row stay "
    "in one partition; `database.table` for tables without key",
)
