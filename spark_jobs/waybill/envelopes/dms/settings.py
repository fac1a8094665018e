"""Settings for reading and writing AWS DMS."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from waybill.protocol import Settings

MEMBERS = frozenset({"data", "control", "metadata"})
"""Fields of a record beside the row before."""


class DmsFilesSettings(Settings):
    """Settings of both directions."""

    bytes_as: Literal["hex", "base64"] = Field(
        default="hex",
        description="How bytes are written: hexadecimal digits, after 0x or alone, or Base64.",
    )
    before_prefix: str = Field(
        default="BI_",
        description="Prefix of columns with the row before (add-before-image-columns). Empty if a "
        "table has columns with such names.",
    )


class DmsSettings(DmsFilesSettings):
    """Settings of both directions of records."""

    before_field: str = Field(
        default="before-image",
        min_length=1,
        description="Name of the object with the row before an update (FieldName of the task's "
        "before image settings).",
    )

    @field_validator("before_field")
    @classmethod
    def _free(cls, name: str) -> str:
        if name in MEMBERS:
            raise ValueError(f"{name!r} is a field of every record and holds no row before")
        return name


class DmsReadSettings(DmsSettings):
    """Settings for reading DMS."""

    missing: Literal["refuse", "null", "unchanged"] = Field(
        default="refuse",
        description="Meaning of a declared column, or one of the row before, that is missing from "
        "`data` of a load, insert or update. DMS leaves out nulls and empty texts unless the "
        "endpoint has IncludeNullAndEmpty: null reads it as null (declare all columns), unchanged "
        "keeps the value that the row has, refuse refuses the message.",
    )


class DmsWriteSettings(DmsSettings):
    """Settings for writing DMS."""

    missing: Literal["refuse", "unchanged"] = Field(
        default="unchanged",
        description="How a row is written if the source did not send every column: the missing "
        "columns are left out, and the reader must treat them as unchanged; or the row is refused.",
    )
    before_images: Literal["object", "columns"] = Field(
        default="object",
        description="Where the row before an update goes: an object of its own, or columns with "
        "the prefix.",
    )

    @model_validator(mode="after")
    def _has_prefix(self) -> Self:
        # The values before the change would take the place of those after it.
        if self.before_images == "columns" and not self.before_prefix:
            message = "before_images: columns needs a before_prefix, which marks the row before"
            raise ValueError(f"{message} from the row; name one, or set before_images: object")
        return self
