"""Settings for reading Canal."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from waybill.envelopes.unnamed_tables import UnnamedTableSettings
from waybill.protocol import Settings
from waybill.values.temporal import ZoneName


class CanalReadSettings(UnnamedTableSettings):
    """Settings for reading Canal."""

    timezone: ZoneName = Field(
        default="UTC",
        description="Time zone of the Canal server's Java machine (IANA name): it prints "
        "TIMESTAMP columns in it. One in an hour that its clocks showed twice is read as the "
        "first.",
    )
    values: Literal["text", "json"] = Field(
        default="text",
        description="How values are written in rows: all as texts (Canal, TiCDC), or as JSON "
        "values of their types, bytes as Base64 (canal-json of Flink, Flink CDC, SeaTunnel and "
        "InLong, whose updates may come as a delete and an insert).",
    )

    @property
    def in_bulk(self) -> bool:
        """See `Settings.in_bulk`."""
        return super().in_bulk and self.values == "text"


class CanalEventSettings(Settings):
    """Which messages without a row are written, in every format that has those of Canal."""

    control_messages: bool = Field(
        default=False,
        description="Write heartbeats too, among the rows. Off, they are left out and counted: "
        "many readers fail at them.",
    )
    statements: bool = Field(
        default=True,
        description="Write statements, TRUNCATE, GTID and XA events too, as Canal does. false "
        "leaves them out and counts them, for readers that support only rows; such readers keep "
        "the rows of a TRUNCATE.",
    )


class CanalWriteSettings(CanalEventSettings):
    """Settings for writing Canal."""

    timezone: ZoneName = Field(
        default="UTC",
        description="Time zone (IANA name) in which TIMESTAMP columns are printed, as the Java "
        "machine of a Canal server would. One in an hour that the clocks showed before is refused, "
        "because it would be read as the first.",
    )
