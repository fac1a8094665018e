"""The declaration of `datahub-tuple`."""

from __future__ import annotations

from waybill.envelopes.datahub.tuple.settings import TupleReadSettings, TupleWriteSettings
from waybill.envelopes.sequence.written import POSITIONS
from waybill.protocol import Envelope, Limit, Named
from waybill.sequence_layout import ONE_NUMBER

ENVELOPE = Envelope(
    name="datahub-tuple",
    title="DataHub TUPLE topic with the metadata columns of DataWorks",
    source="DataHub message formats, section Tuple data format",
    sequence="`_sequence_id_`, an integer in digits; -1 marks full rows",
    carries=frozenset(
        {
            *("before_image", "delete", "operations", "key_change", "exact_numbers"),
            "schema_name",
        }
    ),
    partly={
        "full_rows": "a snapshot row with a position of its own is written as an insert",
        "unchanged_columns": "records have all columns of their topic: one that the source left out"
        " is left out of an object, which other readers interpret as null; with `shape: record` a "
        "row"
        " after is filled from the row before or refused, and one before has null and an attribute"
        " of Waybill's that says so",
        "key_columns": "datahub-tuple names no key columns; declare them under tables when it is"
        " read",
        "types": (
            "there are ten types, and they are in the topic's schema, not in the record: unsigned"
            " numbers have the next larger type, dates, wall clocks and bytes are STRING with"
            " their exact text"
        ),
        "sequence_id": f"a full row has none; {POSITIONS}",
        "source_time": "milliseconds, or microseconds where the topic's schema has the time as"
        " TIMESTAMP; times before 1970 are not carried",
    },
    limits=(
        Limit(
            "source_table",
            "name",
            "schema_name",
            "only the name of the table is written, not those of its database and schema",
        ),
    ),
    layouts=(ONE_NUMBER,),
    not_written={
        "ShardId": "the shard of a record is chosen by the program that puts it into DataHub",
        "PartitionKey": "as ShardId",
        "HashKey": "as ShardId",
    },
    decoder=Named("waybill.envelopes.datahub.tuple.decoder:TupleDecoder"),
    encoder=Named("waybill.envelopes.datahub.tuple.encoder:TupleEncoder"),
    bulk_reader=Named("waybill.envelopes.datahub.tuple.bulk:TupleReader"),
    bulk_writer=Named("waybill.envelopes.datahub.tuple.bulk:TupleWriter"),
    decode_settings=TupleReadSettings,
    encode_settings=TupleWriteSettings,
    key_by="the values of the primary key as JSON; none where there is no key, because such"
    " records are spread over the shards",
    pairs=True,
)
