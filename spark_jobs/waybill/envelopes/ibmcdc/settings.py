"""What reading and writing IBM CDC's Avro topics needs to be told."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from waybill.envelopes.avro.settings import AvroReadSettings, AvroWriteSettings


class IbmCdcReadSettings(AvroReadSettings):
    """How the topic was written; a topic with `A_ENTTYP` in its rows is an audit topic."""

    audit_prefix: str = Field(
        default="A_", description="What the names of audit columns begin with."
    )
    before_prefix: str = Field(
        default="B_",
        min_length=1,
        description="What the names of columns of the row before begin with, in audit topics with "
        "both rows in one record.",
    )


class IbmCdcWriteSettings(AvroWriteSettings):
    """How messages are written."""

    form: Literal["rows", "audit"] = Field(
        default="rows",
        description="rows: the row alone, and a null value for a delete "
        "(KcopDefaultBehaviorIntegrated). audit: both rows and the columns A_ENTTYP, A_TIMSTAMP "
        "and A_CCID in one record (KcopSingleRowAvroAuditIntegrated).",
    )
