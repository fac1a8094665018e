"""Settings for reading and writing GoldenGate's messages."""

from __future__ import annotations

from pydantic import Field

from waybill.envelopes.sequence.written import PackedSettings
from waybill.envelopes.unnamed_tables import UnnamedTableSettings
from waybill.values.temporal import (
    ZoneName,
)


class OggReadSettings(UnnamedTableSettings):
    """Settings for reading GoldenGate."""

    timezone: ZoneName = Field(
        default="UTC",
        description="Time zone (IANA name) of op_ts, which names none. Messages of GoldenGate keep "
        "their op_ts where they are written as such again.",
    )
    column_timezone: ZoneName | None = Field(
        default=None,
        description="Time zone (IANA name) of times in columns that are declared as timestamptz "
        "and whose texts name none; left out, such a time is refused. One in an hour that the "
        "clocks of the zone showed twice is read as the first.",
    )


class OggWriteSettings(PackedSettings):
    """Settings for writing GoldenGate; op_ts of other sources is in UTC."""

    truncates: bool = Field(
        default=True,
        description="Write TRUNCATE, as GoldenGate does with GETTRUNCATES. false leaves it out and "
        "counts it, for readers that support only rows; they keep the rows of the table.",
    )
