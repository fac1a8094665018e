"""The declaration of `dms-s3`."""

from __future__ import annotations

from waybill.envelopes.dms.files.settings import DmsFilesReadSettings, DmsFilesWriteSettings
from waybill.envelopes.dms.values import SEQUENCE_DIGITS
from waybill.envelopes.snapshot_rows import AS_INSERT, WITHOUT_PLACE
from waybill.protocol import Envelope, Named
from waybill.sequence_layout import SequenceLayout

ENVELOPE = Envelope(
    name="dms-s3",
    title="AWS DMS, rows of files on S3 (JSON lines)",
    source="AWS DMS user guide, Using Amazon S3 as a target; Qlik Replicate, Headers",
    sequence="the 35 digits of a column made from `AR_H_CHANGE_SEQ`, where there is one; else the "
    "place in the files",
    carries=frozenset({"operations", "delete", "exact_numbers"}),
    brings=frozenset({"key_change"}),
    partly={
        "types": "dms-s3 distinguishes numbers, texts and booleans only; declare the "
        "types under tables when it is read",
        "key_columns": "dms-s3 names no key columns; declare them under tables when it is read",
        "before_image": "dms-s3 holds the row before for deletes only, and with more than its key "
        "only if not all of it is null",
        "unchanged_columns": "dms-s3 has a change of the key as a delete and an insert; a column "
        "that the source left out of it is taken from the row before, and lost if that does not "
        "have it",
        "full_rows": AS_INSERT,
        "source_time": "dms-s3 has a time only in a column that timestamp_column names",
        "sequence_id": "dms-s3 has a sequence only in a column that sequence_column names, and of "
        f"35 digits at most; {WITHOUT_PLACE}",
    },
    layouts=(SequenceLayout(("sequence column",), (), 10**SEQUENCE_DIGITS),),
    not_written={
        "BI_*": "columns with the row before are read, and not written",
        "AR_H_*": "header columns are columns of the table, but for those that timestamp_column "
        "and sequence_column name",
    },
    decoder=Named("waybill.envelopes.dms.files.decoder:DmsFilesDecoder"),
    encoder=Named("waybill.envelopes.dms.files.encoder:DmsFilesEncoder"),
    bulk_reader=Named("waybill.envelopes.dms.files.bulk:DmsFilesReader"),
    bulk_writer=Named("waybill.envelopes.dms.files.bulk:DmsFilesWriter"),
    decode_settings=DmsFilesReadSettings,
    encode_settings=DmsFilesWriteSettings,
    key_by="the table as a JSON object of schema-name and table-name, because a row names none",
)
