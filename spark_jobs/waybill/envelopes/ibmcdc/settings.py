"""Settings for reading and writing IBM CDC's Avro topics."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from waybill.avro.settings import AvroReadSettings, AvroWriteSettings
from waybill.values.temporal import ZoneName  # noqa: TC001 - read at runtime


class IbmCdcReadSettings(AvroReadSettings):
    """How the topic was written; a topic with `A_ENTTYP` in its rows is an audit topic."""

    audit_prefix: str = Field(default="A_", description="Prefix of the names of audit columns.")
    audit_columns: list[str] | None = Field(
        default=None,
        description="The audit columns by their names in the topic, A_ENTTYP among them; an empty "
        "list for a topic without. Left out, they are those named like the journal control fields, "
        "unless a key, of the message or declared, names the column or it has a twin before.",
    )
    column_timezone: ZoneName | None = Field(
        default=None,
        description="Time zone (IANA name) of times in columns that are declared as timestamptz "
        "and whose texts name none; left out, such a time is refused. One in an hour that the "
        "clocks of the zone showed twice is read as the first.",
    )
    before_prefix: str = Field(
        default="B_",
        min_length=1,
        description="Prefix of the names of columns of the row before, in audit topics with "
        "both rows in one record.",
    )

    @property
    def entry_type(self) -> str:
        """The audit column that tells the operation."""
        return f"{self.audit_prefix}ENTTYP"

    @model_validator(mode="after")
    def _telling(self) -> Self:
        given = self.audit_columns
        if given and self.entry_type not in given:
            message = f"audit_columns lacks {self.entry_type}, which holds the operation: add it"
            raise ValueError(message)
        strange = [name for name in given or () if not name.startswith(self.audit_prefix)]
        if strange:
            message = f"audit_columns names {strange[0]!r}, which does not begin with audit_prefix"
            raise ValueError(f"{message} ({self.audit_prefix!r}): fix one of the two")
        return self


class IbmCdcWriteSettings(AvroWriteSettings):
    """How messages are written."""

    form: Literal["rows", "audit"] = Field(
        default="rows",
        description="rows: the row alone, and a null value for a delete "
        "(KcopDefaultBehaviorIntegrated). audit: both rows and the columns A_ENTTYP, A_TIMSTAMP "
        "and A_CCID in one record (KcopSingleRowAvroAuditIntegrated).",
    )
