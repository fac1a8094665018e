"""Settings for reading and writing TUPLE records."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from waybill.envelopes.sequence.settings import SequencedReadSettings
from waybill.envelopes.sequence.written import (
    SequenceSettings,
)
from waybill.protocol import Settings
from waybill.values.instants import Zone

SourceTable = Literal["qualified", "name"]


class TupleSettings(Settings):
    """Settings of both directions."""

    schemas: str | dict[str, Any] | None = Field(
        default=None,
        description="The schemas of topics: a file of schemas, its content ({datahub: {TOPIC: "
        "{fields: [{name: …, type: …}]}}}), or {fields: […]} for every topic. When writing, a "
        "topic may be named by its table. Records of the form Data cannot be read without.",
    )
    source_table: SourceTable = Field(
        default="qualified",
        description="Content of _source_table_: database.table (or database.schema.table), or "
        "the bare name of the table.",
    )
    timezone: str = Field(
        default="UTC",
        description="The zone whose wall clocks a source held, as a name (Asia/Shanghai) or an "
        "offset (+08:00). It is used only for TIMESTAMP columns that are declared as timestamp, "
        "date or time; without a declaration a TIMESTAMP is an instant.",
    )

    @field_validator("timezone")
    @classmethod
    def _known(cls, name: str) -> str:
        return Zone(name).name


class TupleReadSettings(TupleSettings, SequencedReadSettings):
    """Settings for reading TUPLE topics."""

    database: str | None = Field(
        default=None,
        description="The database of tables whose _source_table_ names none.",
    )


class TupleWriteSettings(TupleSettings, SequenceSettings):
    """Settings for writing TUPLE topics."""

    shape: Literal["object", "record"] = Field(
        default="object",
        description="object: columns by name. record: {Data: […], Attributes: {…}}, with the "
        "fields of the topic's schema in order; without `schemas` these are the metadata columns "
        "and then the table's.",
    )
    execute_time: Literal["_excute_time_", "_execute_time_"] = Field(
        default="_excute_time_",
        description="Name of the column with the time of the change; a topic's schema takes "
        "precedence.",
    )
