"""Settings for reading and writing BLOB messages."""

from __future__ import annotations

from typing import Literal

from pydantic import field_validator

from waybill.envelopes.sequence.settings import SequencedReadSettings
from waybill.envelopes.sequence.written import (
    SequenceSettings,
)
from waybill.values.instants import Zone


class ReadSettings(SequencedReadSettings):
    """Settings for reading DataHub BLOB messages."""

    timezone: str = "UTC"
    """The zone whose wall clocks the source held, as a name (`Asia/Shanghai`) or an offset
    (`+08:00`). It is used only for DATE columns that `tables:` declares as timestamp, date or
    time; without a declaration a DATE is an instant."""

    @field_validator("timezone")
    @classmethod
    def _known(cls, name: str) -> str:
        return Zone(name).name


class WriteSettings(SequenceSettings):
    """Settings for writing DataHub BLOB messages."""

    updates: Literal["two", "one"] = "two"
    """`two` writes an update as UPDATE_BEFOR and UPDATE_AFTER, as the documents say; `one` writes
    both images into UPDATE_AFTER, as newer versions of DataWorks do."""
    version: str = "0.0.1"
    """The format version of messages whose source did not have one."""
    db_type: str | None = None
    """The database type that messages name if their source did not, e.g. `MySQL`."""
    timezone: str = "UTC"
    """The zone of wall clocks in columns that came as DATE: the same as for reading."""

    @field_validator("timezone")
    @classmethod
    def _known(cls, name: str) -> str:
        return Zone(name).name
