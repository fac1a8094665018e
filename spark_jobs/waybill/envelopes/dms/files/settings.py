"""Settings for reading and writing files of AWS DMS."""

from __future__ import annotations

from typing import Self

from pydantic import Field, field_validator, model_validator

from waybill.envelopes.dms.settings import DmsFilesSettings
from waybill.envelopes.sequence.written import PackedSettings

OPERATION = "Op"
"""The column that tells what happened to a row."""
MAX_PARTS = 3
"""Of the name of a table: database, schema and table."""


def _apart(timestamp_column: str, sequence_column: str) -> None:
    """See that a column holds one thing only."""
    if OPERATION in (timestamp_column, sequence_column):
        raise ValueError(f"column {OPERATION!r} holds what happened to the row and nothing else")
    if timestamp_column and timestamp_column == sequence_column:
        message = f"timestamp_column and sequence_column both name {timestamp_column!r}"
        raise ValueError(f"{message}: a column holds one of the two, rename or empty the other")


class DmsFilesReadSettings(DmsFilesSettings):
    """Settings for reading DMS's files."""

    table: str = Field(
        default="",
        description="The table of the rows, database.table; empty: the last two parts of the "
        "topic's name.",
    )
    timestamp_column: str = Field(
        default="",
        description="Column with the time of the commit (TimestampColumnName of the endpoint), "
        "which is not a column of the table.",
    )
    sequence_column: str = Field(
        default="",
        description="Column with the order of the changes, made from the header AR_H_CHANGE_SEQ, "
        "which is not a column of the table.",
    )

    @property
    def has_ids(self) -> bool:
        """Whether rows have a column with their order."""
        return bool(self.sequence_column)

    @model_validator(mode="after")
    def _two_columns(self) -> Self:
        _apart(self.timestamp_column, self.sequence_column)
        return self

    @field_validator("table")
    @classmethod
    def _name(cls, name: str) -> str:
        parts = name.split(".")
        if name and (len(parts) > MAX_PARTS or "" in parts):
            raise ValueError(f"{name!r} is not the name of a table: database.table")
        return name


class DmsFilesWriteSettings(DmsFilesSettings, PackedSettings):
    """Settings for writing DMS's files."""

    timestamp_column: str = Field(
        default="",
        description="Name of a column with the time of the change; empty: it is left out.",
    )
    sequence_column: str = Field(
        default="",
        description="Name of a column with the order of the changes, 35 digits as in "
        "AR_H_CHANGE_SEQ; empty: it is left out.",
    )

    @model_validator(mode="after")
    def _two_columns(self) -> Self:
        _apart(self.timestamp_column, self.sequence_column)
        return self
