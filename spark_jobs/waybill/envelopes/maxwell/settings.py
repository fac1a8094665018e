"""Settings for reading and writing Maxwell's messages."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from waybill.envelopes.unnamed_tables import UnnamedTableSettings
from waybill.protocol import Settings
from waybill.values.temporal import ZoneName


class MaxwellSettings(Settings):
    """Settings of both directions."""

    timezone: ZoneName = Field(
        default="UTC",
        description="Time zone (IANA name) in which TIMESTAMP columns are printed: that of "
        "Maxwell's Java machine. Of an hour that its clocks showed twice, a TIMESTAMP is read as "
        "the first and refused as the second.",
    )
    json_columns: Literal["nested", "text"] = Field(
        default="nested",
        description="How JSON columns are written: nested as they are (MySQL), or as a string that "
        "holds the document (MariaDB).",
    )
    own_database: str = Field(
        default="maxwell",
        description="Maxwell's own database (its schema_database): rows of its tables are not "
        "data. Empty if there is none.",
    )


class MaxwellReadSettings(MaxwellSettings, UnnamedTableSettings):
    """Settings for reading Maxwell."""

    missing_nulls: bool = Field(
        default=False,
        description="Maxwell runs with output_nulls=false: a column that is not in `data` is null. "
        "The columns have to be declared under tables.",
    )
    doubled_quotes: bool = Field(
        default=False,
        description="Texts of ENUM and SET columns that come from the binlog have each quote "
        "doubled, as Maxwell 1.22 writes them.",
    )


class MaxwellWriteSettings(MaxwellSettings):
    """Settings for writing Maxwell."""

    control_messages: bool = Field(
        default=False,
        description="Write heartbeats too, among the rows. Off, they are left out and counted: "
        "many readers fail at them.",
    )
    statements: bool = Field(
        default=False,
        description="Write schema changes too, as Maxwell does with output_ddl=true. Off, as "
        "Maxwell has it by default, they are left out and counted: many readers fail at them.",
    )
    full_rows: Literal["bootstrap-insert", "insert"] = Field(
        default="bootstrap-insert",
        description="How full rows are written. `insert` is for readers that support only "
        "Maxwell's inserts: full rows are counted, and the begin and end of a bootstrap are left "
        "out.",
    )
