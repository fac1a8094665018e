"""The declaration of `debezium-json`."""

from __future__ import annotations

from waybill.envelopes.debezium.settings import DebeziumReadSettings, DebeziumWriteSettings
from waybill.envelopes.debezium.source import LAYOUTS
from waybill.envelopes.snapshot_rows import AS_INSERT, WITHOUT_PLACE
from waybill.protocol import CAPABILITIES, NO_TRUNCATES, Envelope, Limit, Named

NEGATIVE_ZERO = Limit(
    "decimals", "precise", "exact_numbers", "a negative zero is refused: its digits have no sign"
)

_PARTLY = {
    "full_rows": AS_INSERT,
    "sequence_id": f"{WITHOUT_PLACE}; messages about transactions and heartbeats have none",
    "types": "types are written with `schemas: true`; without, readers see JSON's own types only",
    "key_change": "a change of the key is written as a delete and an insert, tied by headers",
    "ddl": "schema changes are written with `control_messages: true` only",
    "transactions": (
        "every row carries its transaction's id; begin and commit are written with "
        "`control_messages: true` only, and a rollback never"
    ),
    "heartbeat": "heartbeats are written with `control_messages: true` only",
    "other": "logical messages of a Debezium source are written with `control_messages: true` only",
}

NOT_WRITTEN = {
    "ts_us": "the message's own time in microseconds is copied from Debezium, not made for other "
    "sources",
    "ts_ns": "the message's own time in nanoseconds is copied from Debezium, not made for other "
    "sources",
    "source.server_id": "copied from messages of the connector, not made for other sources",
    "source.gtid": "copied from messages of the connector, not made for other sources",
    "source.file": "the place in the source is copied from the connector; that of other "
    "sources is in source.sequence",
    "source.pos": "as source.file",
    "source.row": "as source.file",
    "source.lsn": "as source.file",
    "source.txId": "copied from the connector; the transaction of other sources is in "
    "transaction.id",
    "source.thread": "copied from messages of the connector, not made for other sources",
    "source.query": "copied from messages of the connector, not made for other sources",
}
"""What both of Debezium's envelopes carry on and do not make."""


ENVELOPE = Envelope(
    name="debezium-json",
    title="Debezium change events as JSON",
    source="Debezium documentation and recorded streams of its connectors",
    sequence=(
        "the position in the source: binlog file, position and row (MySQL, MariaDB), log sequence "
        "numbers (PostgreSQL, SQL Server, Db2), system change numbers (Oracle), time and counter "
        "of the oplog (MongoDB)"
    ),
    carries=frozenset(CAPABILITIES) - frozenset(_PARTLY) - {"database_kind"},
    partly=_PARTLY,
    limits=(
        NEGATIVE_ZERO,
        NO_TRUNCATES,
        Limit(
            "control_messages",
            True,
            "source_time",
            "messages about transactions and heartbeats have whole milliseconds, and the time of"
            " the message where the source has none",
        ),
    ),
    layouts=LAYOUTS,
    not_written={
        **NOT_WRITTEN,
        "tableChanges": "empty in schema changes that did not come from Debezium: the statement "
        "is known, not the table that results from it",
    },
    decoder=Named("waybill.envelopes.debezium.decoder:DebeziumDecoder"),
    encoder=Named("waybill.envelopes.debezium.encoder:DebeziumEncoder"),
    bulk_reader=Named("waybill.envelopes.debezium.bulk.reading:DebeziumReader"),
    bulk_writer=Named("waybill.envelopes.debezium.bulk.writing:DebeziumWriter"),
    decode_settings=DebeziumReadSettings,
    encode_settings=DebeziumWriteSettings,
    key_by="a JSON object of the key columns; none for a table without key",
    moves_apart=True,
)
