"""The declaration of `canal`."""

from __future__ import annotations

from waybill.envelopes.canal.encoder import WITHOUT_STATEMENTS
from waybill.envelopes.canal.settings import CanalReadSettings, CanalWriteSettings
from waybill.protocol import Envelope, Named

ENVELOPE = Envelope(
    name="canal",
    title="Canal FlatMessage (alibaba/canal, JSON)",
    source="alibaba/canal: FlatMessage.java, MQMessageUtils.java, LogEventConvert.java",
    sequence="none in the message; partition, offset and the place in `data` order the rows",
    carries=frozenset(
        {
            "delete",
            "truncate",
            "ddl",
            "operations",
            "key_change",
            "key_columns",
            "exact_numbers",
        }
    ),
    brings=frozenset({"transactions"}),
    partly={
        "heartbeat": "heartbeats are written with `control_messages: true` only",
        "types": "canal names MySQL types; types of other databases become the nearest one, and "
        "times of more than six digits keep these in a name that MySQL does not have",
        "before_image": "canal has the columns that changed; a column that a before image leaves "
        "out counts as unchanged, and where the row before is not known `old` has an empty entry, "
        "which other readers interpret as an unchanged row",
        "unchanged_columns": "canal holds full rows; a column that neither the source's message "
        "nor the row before has is left out, which not every reader expects",
        "source_time": "canal has milliseconds, and finer digits are dropped; it always has a "
        "time: if the source states none, the queue's",
        "other": "canal carries GTID and XA events that came from Canal, no others, and none with "
        "`statements: false`",
    },
    limits=WITHOUT_STATEMENTS,
    not_written={
        "gtid": "empty, except in messages that came from Canal",
    },
    decoder=Named("waybill.envelopes.canal.decoder:decoder_of"),
    encoder=Named("waybill.envelopes.canal.encoder:CanalEncoder"),
    bulk_reader=Named("waybill.envelopes.canal.bulk:CanalReader"),
    bulk_writer=Named("waybill.envelopes.canal.bulk:CanalWriter"),
    decode_settings=CanalReadSettings,
    encode_settings=CanalWriteSettings,
    key_by="JSON array of the key's values after the change, so that the changes of one row stay "
    "in one partition; `database.table` for tables without key; none for events",
)
