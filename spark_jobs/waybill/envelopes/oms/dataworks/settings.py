"""Settings for reading and writing messages of DataWorks."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from waybill.envelopes.oms.settings import OmsSequencedWriteSettings
from waybill.values.temporal import ZoneName


class OmsDataworksWriteSettings(OmsSequencedWriteSettings):
    """Settings for writing DataWorks messages."""

    whole_rows: ClassVar[bool] = False

    times: Literal["oms", "milliseconds"] = Field(
        default="oms",
        description="DATETIME and TIMESTAMP as OMS writes them elsewhere (`oms`), or as a number "
        "of milliseconds since 1970 with 9 digits of nanoseconds after a point.",
    )
    timezone: ZoneName = Field(
        default="UTC",
        description="Time zone (IANA name) of DATETIME columns that are written as milliseconds.",
    )
    db_type: str | None = Field(
        default=None,
        min_length=1,
        description="`dbType` of messages whose source names none, e.g. `oracle`. Left out, it is "
        "`mysql` where the source names types of MySQL, and null otherwise.",
    )
