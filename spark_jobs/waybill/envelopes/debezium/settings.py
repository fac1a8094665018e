"""Settings for reading and writing Debezium JSON."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from waybill.protocol import Settings

UNAVAILABLE = "__debezium_unavailable_value"
"""Debezium's default text for a value that the source did not send."""

Temporal = Literal[
    "adaptive",
    "adaptive_time_microseconds",
    "connect",
    "isostring",
    "microseconds",
    "nanoseconds",
]
Binary = Literal["bytes", "base64", "base64-url-safe", "hex"]


class DebeziumReadSettings(Settings):
    """How the connector was configured.

    The first four say what a value without a schema means and work on columns that are declared
    under `tables`; messages with a schema say it themselves.
    """

    decimals: Literal["precise", "string", "double"] | None = None
    """The connector's `decimal.handling.mode`: a declared decimal is the Base64 of its unscaled
    digits, a text, or a JSON number. Left out, each value tells: `1.50` is a text of digits and
    `AJY=` is Base64; one that may be both, such as `1234`, is refused."""
    unsigned: Literal["long", "precise", "number"] = "long"
    """The connector's `bigint.unsigned.handling.mode`: in a declared `bigint unsigned` a negative
    number stands for itself plus 2^64 (long), or it is the Base64 of its digits (precise)."""
    temporal: Temporal = "adaptive"
    """The connector's `time.precision.mode`: the unit of declared dates and times. With `adaptive`
    it follows from the digits of the declared type, e.g. `timestamp(3)` or `datetime(6)`: up to 3
    are milliseconds, up to 6 microseconds, above nanoseconds. A type without digits has 0 with
    MySQL and MariaDB, 6 with the others. TIME of MySQL and MariaDB is in microseconds always."""
    binary: Binary = "bytes"
    """The connector's `binary.handling.mode`."""
    unavailable: str | None = UNAVAILABLE
    """The connector's `unavailable.value.placeholder`, in text, Base64 or hex: such a column was
    not sent and keeps its stored value. null: every text is a value."""
    replica_identity: Literal["default", "full"] = "default"
    """PostgreSQL only: with `default` the row before a change holds nothing but its key (Debezium
    fills other columns of a delete with invented values); `full` trusts all columns. Tables without
    a key need no setting: their changes are sent no other way."""
    snapshots: Literal["oldest", "position"] = "oldest"
    """PostgreSQL only: `oldest` places snapshot rows below every streamed change, which is exact
    unless the connector lost changes and took a new snapshot; `position` places them where the
    snapshot began, so that a new snapshot wins over older changes, but also over changes that a
    transaction wrote before that place and committed after it. Other sources need no choice."""


class DebeziumWriteSettings(Settings):
    """How messages are written."""

    schemas: bool = False
    """Wrap every message as {schema, payload}, as a JSON converter with schemas does."""
    decimals: Literal["string", "precise"] = "string"
    """Decimals as text in plain digits, or as Base64 of their unscaled digits. Numbers without a
    declared scale are a text or a struct of scale and Base64."""
    unsigned: Literal["number", "long", "precise"] | None = None
    """64 bits without sign: a JSON number, wrapped to a negative one above 2^63-1 (long), or Base64
    of the digits (precise). Left out: a number without schemas, precise with them."""
    temporal: Temporal = "adaptive"
    """Unit of dates and times; `adaptive` as the MySQL connector does it, except that columns from
    Debezium keep their unit."""
    binary: Binary = "bytes"
    """Notation of bytes."""
    unavailable: str = Field(default=UNAVAILABLE, min_length=1)
    """The text that stands for a column that the source did not send."""
    tombstones: bool = True
    """Follow every delete by a message without value, for compacted topics."""
    truncates: bool = True
    """Write TRUNCATE, as a connector does with `skipped.operations: none`. Off, it is left out and
    counted, for readers that support only rows; they keep the rows of the table."""
    control_messages: bool = False
    """Write schema changes, begin and commit, heartbeats and logical messages too, in Debezium's
    notation, among the rows. Off, they are left out and counted: many readers fail at them."""
    connector: str | None = Field(default=None, min_length=1)
    """`source.connector` of rows that come from another envelope. Left out: mysql where the types
    of the table are MySQL's, because readers take the units of dates and times from it, else
    waybill. Of rows of postgresql readers may trust the key of the row before only: Waybill does
    unless it is set to `replica_identity: full`."""
    name: str = Field(default="waybill", min_length=1)
    """`source.name` (the topic prefix) of rows that come from another envelope."""
