"""Settings of reading and writing messages of TiCDC."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from waybill.envelopes.sequence.written import SequenceSettings
from waybill.protocol import Settings
from waybill.values.temporal import ZoneName


class TidbReadSettings(Settings):
    """Settings of reading messages of TiCDC."""

    timezone: ZoneName = Field(
        default="UTC",
        description="Time zone of the TiCDC server (IANA name; its `--tz`): it prints TIMESTAMP "
        "columns in it. One in an hour that its clocks showed twice is read as the first.",
    )
    table: ClassVar[None] = None
    """Every message names its table."""


class TidbWriteSettings(SequenceSettings):
    """Settings of writing messages of TiCDC."""

    timezone: ZoneName = Field(
        default="UTC",
        description="Time zone (IANA name) in which TIMESTAMP columns are printed, as a TiCDC "
        "server would. One in an hour that the clocks showed before is refused, because it would "
        "be read as the first.",
    )
    statements: bool = Field(
        default=True,
        description="Write statements and TRUNCATE too, as TiCDC does. false leaves them out and "
        "counts them, for readers that support only rows; such readers keep the rows of a "
        "TRUNCATE.",
    )
