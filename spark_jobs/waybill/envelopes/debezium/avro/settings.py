"""Settings for reading and writing Debezium's Avro topics."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from waybill.avro.settings import AvroReadSettings, AvroWriteSettings
from waybill.envelopes.debezium.settings import UNAVAILABLE, DebeziumReadSettings, Temporal


class DebeziumAvroReadSettings(AvroReadSettings, DebeziumReadSettings):
    """Where the schemas are, and how the connector was configured."""


class DebeziumAvroWriteSettings(AvroWriteSettings):
    """How messages are written; see the settings of `debezium-json`."""

    decimals: Literal["string", "precise"] = "string"
    """Decimals as text in plain digits, or as the bytes of their unscaled digits."""
    unsigned: Literal["number", "long", "precise"] | None = None
    """64 bits without sign: refused above 2^63-1 (number), wrapped to a negative number (long), or
    the bytes of the digits (precise, the default)."""
    temporal: Temporal = "adaptive"
    """Unit of dates and times; `adaptive` as the MySQL connector does it, except that columns from
    Debezium keep their unit."""
    unavailable: str = Field(default=UNAVAILABLE, min_length=1)
    """The text that stands for a column that the source did not send."""
    tombstones: bool = True
    """Follow every delete by a message without value, for compacted topics."""
    truncates: bool = True
    """Write TRUNCATE, as a connector does with `skipped.operations: none`. Off, it is left out and
    counted, for readers that support only rows; they keep the rows of the table."""
    connector: str | None = Field(default=None, min_length=1)
    """`source.connector` of rows that come from another envelope. Of rows of postgresql readers may
    trust the key of the row before only: Waybill does, unless `replica_identity: full` is set."""
    name: str = Field(default="waybill", min_length=1)
    """`source.name` (the topic prefix) of rows that come from another envelope."""
