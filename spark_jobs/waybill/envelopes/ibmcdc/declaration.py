"""The declaration of `ibmcdc-avro`."""

from __future__ import annotations

from waybill.envelopes.ibmcdc.settings import IbmCdcReadSettings, IbmCdcWriteSettings
from waybill.protocol import Envelope, Named

_AUDIT = "carried with `form: audit` only"


ENVELOPE = Envelope(
    name="ibmcdc-avro",
    title="IBM CDC Replication Engine for Kafka (Avro, Confluent framing)",
    source="IBM documentation of InfoSphere Data Replication, and a published stream with schemas",
    sequence="none in the message; partition and offset order the changes of a key",
    carries=frozenset({"delete", "types", "exact_numbers", "schema_name"}),
    partly={
        "before_image": f"a delete has the key of the row; the whole row before is {_AUDIT}",
        "unchanged_columns": "ibmcdc-avro holds full rows; a column that the source left out is "
        "left out of the schema of that message, which not every reader expects",
        "operations": f"a row does not show its operation, which is {_AUDIT}",
        "full_rows": f"a row of a snapshot is not marked as such; the operation is {_AUDIT}",
        "key_change": "a change of the key is a delete and a row; one event with both rows is "
        f"{_AUDIT}",
        "key_columns": "a table without key gets all its columns as the key, so equal rows become "
        "one; an update without the whole row before it is refused",
        "source_time": f"the time of a change is {_AUDIT}",
        "transactions": f"the id of a row's transaction is {_AUDIT}; begin and commit are not",
    },
    not_written={
        "A_USER": "read, and not written: the audit columns are A_ENTTYP, A_TIMSTAMP and A_CCID",
        **dict.fromkeys(
            (
                "A_CNTRRN",
                "A_CODE",
                "A_JOBNAME",
                "A_JOBNO",
                "A_JOBUSER",
                "A_JOURNAL",
                "A_LIBRARY",
                "A_MEMBER",
                "A_OBJECT",
                "A_PROGRAM",
                "A_SEQNO",
                "A_SYSTEM",
            ),
            "as A_USER",
        ),
    },
    decoder=Named("waybill.envelopes.ibmcdc.decoder:IbmCdcDecoder"),
    encoder=Named("waybill.envelopes.ibmcdc.encoder:IbmCdcEncoder"),
    decode_settings=IbmCdcReadSettings,
    encode_settings=IbmCdcWriteSettings,
    key_by="an Avro record of the key columns; of all columns for a table without key",
    mark=Named("waybill.avro.framing:mark"),
    bulk_reader=Named("waybill.envelopes.ibmcdc.bulk.reading:IbmCdcReader"),
    bulk_writer=Named("waybill.envelopes.ibmcdc.bulk.writing:IbmCdcWriter"),
)
