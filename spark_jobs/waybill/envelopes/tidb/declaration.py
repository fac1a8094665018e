"""The declaration of `tidb-canal`."""

from __future__ import annotations

from waybill.envelopes.canal.encoder import WITHOUT_STATEMENTS
from waybill.envelopes.sequence.written import POSITIONS
from waybill.envelopes.tidb.settings import TidbReadSettings, TidbWriteSettings
from waybill.protocol import Envelope, Named
from waybill.sequence_layout import SequenceLayout

ENVELOPE = Envelope(
    name="tidb-canal",
    title="TiCDC, canal-json with the TiDB extension (JSON)",
    source="TiDB documentation, TiCDC Canal-JSON Protocol; pingcap/tiflow: canal_json_message.go, "
    "canal_json_row_event_encoder.go, canal_entry.go, mysql_types.go",
    sequence="`_tidb.commitTs`, the timestamp of the transaction as one integer; in it a row comes "
    "after a DELETE of the same row. An INSERT without it is a full row",
    carries=frozenset({"delete", "truncate", "ddl", "operations", "key_columns", "exact_numbers"}),
    brings=frozenset({"heartbeat"}),
    partly={
        "types": "tidb-canal names MySQL types; types of other databases become the nearest one, "
        "an ENUM or SET whose words are unknown a VARCHAR, "
        "and times of more than six digits keep these in a name that MySQL does not have",
        "before_image": "`old` of an update is the row before; a column that is not known of it is "
        "taken for unchanged, and where none is known the entry is empty",
        "unchanged_columns": "tidb-canal holds full rows; a column that neither the source's "
        "message nor the row before has is left out, which not every reader expects",
        "full_rows": "a full row is an INSERT without commitTs; one that has an id of its own is "
        "an INSERT as any other",
        "key_change": "a change of the key is a DELETE and an INSERT of one commitTs",
        "sequence_id": POSITIONS,
        "source_time": "tidb-canal has milliseconds, and finer digits are dropped; it always has "
        "a time: if the source states none, the queue's",
    },
    limits=WITHOUT_STATEMENTS,
    layouts=(SequenceLayout(("commitTs", "place behind a DELETE"), (1,), 9 * 10**17),),
    not_written={
        "_tidb.onlyHandleKey": "messages hold whole rows",
        "_tidb.claimCheckLocation": "messages hold whole rows",
    },
    decoder=Named("waybill.envelopes.tidb.decoder:TidbDecoder"),
    encoder=Named("waybill.envelopes.tidb.encoder:TidbEncoder"),
    bulk_reader=Named("waybill.envelopes.tidb.bulk:TidbReader"),
    bulk_writer=Named("waybill.envelopes.tidb.bulk:TidbWriter"),
    decode_settings=TidbReadSettings,
    encode_settings=TidbWriteSettings,
    moves_apart=True,
    key_by="JSON array of the key's values in the row, so that the changes of one row stay in one "
    "partition; `database.table` for tables without key; none for events",
)
