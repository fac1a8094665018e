"""The declaration of `maxwell`."""

from __future__ import annotations

from waybill.envelopes.maxwell.settings import MaxwellReadSettings, MaxwellWriteSettings
from waybill.envelopes.snapshot_rows import AS_INSERT, WITHOUT_PLACE
from waybill.protocol import Envelope, Named
from waybill.sequence_layout import SequenceLayout

BINLOG = SequenceLayout(("binlog file", "offset", "xoffset"), (10, 19), 10**6, shared=True)
"""Rows of one event share its place, and have no `xoffset` unless Maxwell is set to write it."""


ENVELOPE = Envelope(
    name="maxwell",
    title="Maxwell (zendesk/maxwell, JSON)",
    source="zendesk/maxwell: docs/docs/dataformat.md, bootstrapping.md, RowMap.java",
    sequence="binlog file and offset of `position` where they are written, then `xoffset`, the "
    "row with `commit` last; without `position` partition and offset",
    carries=frozenset(
        {
            "operations",
            "delete",
            "key_change",
            "key_columns",
            "exact_numbers",
        }
    ),
    partly={
        "heartbeat": "heartbeats are written with `control_messages: true` only",
        "full_rows": f"{AS_INSERT}; with `full_rows: insert` all of them are",
        "sequence_id": WITHOUT_PLACE,
        "types": "maxwell distinguishes numbers, texts and documents only; declare the "
        "types under tables when it is read",
        "before_image": "maxwell has the columns that changed; a column that a before image leaves "
        "out counts as unchanged",
        "unchanged_columns": "maxwell holds full rows; a column that neither the source's message "
        "nor the row before has is left out, which readers of output_nulls=false interpret as null",
        "source_time": "maxwell has whole seconds for rows and milliseconds for DDL, and finer "
        "digits are dropped; it always has a time: if the source states none, the queue's",
        "transactions": "maxwell has no begin, commit and rollback, and only numbers as the id of "
        "a transaction",
        "ddl": "statements are written with `statements: true` only; maxwell describes the table "
        "before and after a statement too; for statements from elsewhere these descriptions are "
        "missing",
        "other": "maxwell carries the begin and end of a bootstrap that came from Maxwell, without "
        "`full_rows: insert`, and no other events",
    },
    layouts=(BINLOG,),
    not_written={
        "xoffset": "copied from messages of Maxwell; the place in a transaction of other "
        "sources is part of position",
        "commit": "copied from messages of Maxwell, not made for other sources",
        "gtid": "copied from messages of Maxwell, not made for other sources",
        "server_id": "copied from messages of Maxwell, not made for other sources",
        "thread_id": "copied from messages of Maxwell, not made for other sources",
        "schema_id": "copied from messages of Maxwell, not made for other sources",
        "query": "copied from messages of Maxwell, not made for other sources",
        "def": "the table after a statement is copied from messages of Maxwell, not made for other "
        "sources",
    },
    decoder=Named("waybill.envelopes.maxwell.decoder:MaxwellDecoder"),
    encoder=Named("waybill.envelopes.maxwell.encoder:MaxwellEncoder"),
    bulk_reader=Named("waybill.envelopes.maxwell.bulk:MaxwellReader"),
    bulk_writer=Named("waybill.envelopes.maxwell.bulk:MaxwellWriter"),
    decode_settings=MaxwellReadSettings,
    encode_settings=MaxwellWriteSettings,
    key_by="Maxwell's own: database, table and the key's values after the change as `pk.name` in "
    "a JSON object, so that the changes of one row stay in one partition; none for events",
)
