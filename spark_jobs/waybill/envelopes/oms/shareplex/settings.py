"""Settings for reading and writing SharePlex messages."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from waybill.envelopes.oms.settings import OmsSequencedWriteSettings, ZonedSequencedReadSettings
from waybill.values.temporal import ZoneName


class OmsShareplexReadSettings(ZonedSequencedReadSettings):
    """Settings for reading SharePlex messages."""

    tenants: bool = Field(
        default=False,
        description="Names of tables begin with that of a tenant: tenant.database.table. It is "
        "part of the database's name unless `tenant` names it.",
    )


class OmsShareplexWriteSettings(OmsSequencedWriteSettings):
    """Settings for writing SharePlex messages."""

    whole_rows: ClassVar[bool] = False

    tenants: bool = Field(
        default=False,
        description="Names of databases may be tenant.database, and readers are set so.",
    )
    timezone: ZoneName = Field(
        default="UTC",
        description="Time zone (IANA name) of the times of changes; the messages name none. Where "
        "it is that of what is read, `time` stays as it was.",
    )
