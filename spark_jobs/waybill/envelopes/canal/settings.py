"""Settings for reading Canal."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from waybill.envelopes.unnamed_tables import UnnamedTableSettings
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
