"""The declaration of `dms`."""

from __future__ import annotations

from waybill.envelopes.dms.settings import DmsReadSettings, DmsWriteSettings
from waybill.envelopes.snapshot_rows import AS_INSERT, WITHOUT_PLACE
from waybill.protocol import Envelope, Limit, Named
from waybill.sequence_layout import SequenceLayout

ENVELOPE = Envelope(
    name="dms",
    title="AWS DMS, records for Kafka and Kinesis (JSON)",
    source="AWS DMS user guide, Using Apache Kafka as a target; crate/commons-codec; apache/paimon",
    sequence="the numbers of `stream-position` where its form is known (PostgreSQL, a binlog, "
    "numbers), or the binlog place in `transaction-id` and `transaction-record-id`; without them "
    "partition and offset",
    carries=frozenset(
        {
            "before_image",
            "unchanged_columns",
            "operations",
            "delete",
            "key_change",
            "exact_numbers",
            "source_time",
        }
    ),
    partly={
        "types": "dms distinguishes numbers, texts and booleans only; declare the "
        "types under tables when it is read",
        "key_columns": "dms names the key columns in control records only, which are apart from "
        "the rows; declare them under tables when it is read",
        "transactions": "dms has no begin, commit and rollback, and only numbers as the id of a "
        "transaction",
        "full_rows": AS_INSERT,
        "sequence_id": "dms carries a sequence of numbers of 64 bits that are not negative; "
        + WITHOUT_PLACE,
        "other": "dms carries control records that came from DMS, no other events",
    },
    limits=(
        Limit("missing", "refuse", "unchanged_columns", "a row that lacks columns is refused"),
    ),
    layouts=(
        SequenceLayout(("first number of the position", "second", "third"), (20, 20), 10**18),
    ),
    not_written={
        "control": "control records are copied from DMS; none are made for the keys and "
        "types of tables",
        "metadata.partition-key-value": "copied from messages of DMS, not made for other sources",
        "metadata.transaction-record-id": "copied from DMS; the place in a transaction of "
        "other sources is part of stream-position",
        "metadata.prev-transaction-id": "copied from messages of DMS, not made for other sources",
        "metadata.prev-transaction-record-id": "copied from messages of DMS, not made for other "
        "sources",
    },
    decoder=Named("waybill.envelopes.dms.decoder:DmsDecoder"),
    encoder=Named("waybill.envelopes.dms.encoder:DmsEncoder"),
    bulk_reader=Named("waybill.envelopes.dms.bulk.reading:DmsReader"),
    bulk_writer=Named("waybill.envelopes.dms.bulk.writing:DmsWriter"),
    decode_settings=DmsReadSettings,
    encode_settings=DmsWriteSettings,
    key_by="JSON array of the key's values after the change, so that the changes of one row stay "
    "in one partition; the table's name for tables without key; none for control records",
)
