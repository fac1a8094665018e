"""The declaration of `oms-canal`."""

from __future__ import annotations

from waybill.envelopes.canal.encoder import WITHOUT_STATEMENTS
from waybill.envelopes.oms.canal.settings import OmsCanalWriteSettings
from waybill.envelopes.oms.settings import OmsReadSettings
from waybill.protocol import Envelope, Named

ENVELOPE = Envelope(
    name="oms-canal",
    title="OceanBase OMS, Canal (JSON)",
    source="OceanBase documentation, Data formats; alibaba/canal: FlatMessage.java",
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
    partly={
        "heartbeat": "heartbeats are written with `control_messages: true` only",
        "types": "oms-canal names types without sizes, and no unsigned ones; declare decimals, "
        "unsigned integers and times of more than six digits under tables when it is read",
        "before_image": "oms-canal has the columns that changed; a column that a before image "
        "leaves out counts as unchanged, and where the row before is not known `old` has an empty "
        "entry, "
        "which other readers interpret as an unchanged row",
        "unchanged_columns": "oms-canal holds full rows; a column that neither the source's "
        "message nor the row before has is left out, which not every reader expects",
        "source_time": "oms-canal has milliseconds, and finer digits are dropped; it always has a "
        "time: if the source states none, the queue's",
        "other": "oms-canal carries GTID and XA events that came from Canal, no others, and none "
        "with `statements: false`",
    },
    limits=WITHOUT_STATEMENTS,
    decoder=Named("waybill.envelopes.oms.canal.decoder:OmsCanalDecoder"),
    encoder=Named("waybill.envelopes.oms.canal.encoder:OmsCanalEncoder"),
    bulk_reader=Named("waybill.envelopes.oms.canal.bulk:OmsCanalReader"),
    bulk_writer=Named("waybill.envelopes.oms.canal.bulk:OmsCanalWriter"),
    decode_settings=OmsReadSettings,
    encode_settings=OmsCanalWriteSettings,
    key_by="JSON array of the key's values after the change, so that the changes of one row stay "
    "in one partition; `database.table` for tables without key; none for events",
)
