"""The declaration of `datahub-blob`."""

from __future__ import annotations

from waybill.envelopes.datahub.blob.settings import ReadSettings, WriteSettings
from waybill.envelopes.sequence.written import POSITIONS
from waybill.protocol import Envelope, Named
from waybill.sequence_layout import ONE_NUMBER

ENVELOPE = Envelope(
    name="datahub-blob",
    title="DataHub BLOB topic, written by DataWorks (StreamX JSON)",
    source="DataHub message formats",
    sequence="`payload.sequenceId`, an integer in digits; -1 marks full rows",
    carries=frozenset(
        {
            *("before_image", "delete", "truncate", "heartbeat"),
            *("operations", "key_change", "key_columns", "exact_numbers", "schema_name"),
            "database_kind",
        }
    ),
    partly={
        "full_rows": "a snapshot row with a position of its own is written as an insert",
        "ddl": "the text of a statement; ddlMeta, the statement as DataWorks parsed it in Java, "
        "is copied from messages that have it and not made for other sources",
        "transactions": "there is no rollback, and rows do not name their transaction",
        "types": (
            "there are six types: numbers beyond 64 bits, dates and times are written as STRING"
            " with their exact text"
        ),
        "sequence_id": f"a full row has none; {POSITIONS}",
        "source_time": "milliseconds; finer digits and times before 1970 are not carried",
        "unchanged_columns": "rows are whole in the documents; a column that the source left out is"
        " left out, which not every reader expects",
        "other": "only statements of row changes and events that came from the same family",
    },
    layouts=(ONE_NUMBER,),
    not_written={
        "schema.source.dbVersion": "copied from messages of DataWorks, not made for other sources",
        "payload.timestamp.systemTime": "copied from messages of DataWorks, not made for other "
        "sources",
        "payload.timestamp.checkpointTime": "copied from messages of DataWorks, not made for other "
        "sources",
        "payload.ddl.ddlMeta": "copied from messages of DataWorks, not made for other sources",
    },
    decoder=Named("waybill.envelopes.datahub.blob.decoder:BlobDecoder"),
    encoder=Named("waybill.envelopes.datahub.blob.encoder:BlobEncoder"),
    bulk_reader=Named("waybill.envelopes.datahub.blob.bulk:BlobReader"),
    bulk_writer=Named("waybill.envelopes.datahub.blob.bulk:BlobWriter"),
    decode_settings=ReadSettings,
    encode_settings=WriteSettings,
    key_by="the values of the primary key as JSON; the table's name where there is no key",
    pairs=True,
)
