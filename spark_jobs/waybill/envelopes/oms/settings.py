"""Settings for reading and writing any serialization method of OMS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from waybill.envelopes.sequence.settings import SequencedReadSettings
from waybill.envelopes.sequence.written import SequenceSettings
from waybill.protocol import Settings
from waybill.values.temporal import ZoneName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from waybill.protocol import Envelope

Version = Literal["3.3.0", "earlier"]
"""Which notation of values: that of OMS V3.3.0 and later, or that of projects made before."""

_VERSION: Any = Field(
    default="3.3.0",
    description="Notation of values: `3.3.0` for projects made with OMS V3.3.0 or later, `earlier` "
    "for older ones, where BIT is a number, TIMESTAMP is whole seconds and other times have a T "
    "and maybe no seconds.",
)


class OmsReadSettings(Settings):
    """Settings for reading messages of OMS."""

    version: Version = _VERSION
    lobs: Literal["unchanged", "null"] = Field(
        default="unchanged",
        description="Meaning of a LOB column (TEXT, BLOB, JSON, geometry) that is null in both "
        "images of an update: OMS writes columns that the update did not touch in this way "
        "(`unchanged`), other producers mean `null`. If messages name no types, it applies to "
        "columns declared "
        "as bytes, json, geometry or xml.",
    )


class TenantReadSettings(OmsReadSettings):
    """Settings of methods whose databases may be those of a tenant."""

    tenant: str | None = Field(
        default=None,
        min_length=1,
        description="The tenant of an OceanBase source whose name is left out of those of "
        "databases. Databases are named `tenant.database` otherwise, as messages name them, so "
        "that tables of two tenants stay apart.",
    )


class OmsSequencedReadSettings(TenantReadSettings, SequencedReadSettings):
    """Settings of methods whose messages have a sequence."""


class OmsWriteSettings(Settings):
    """Settings for writing messages of OMS.

    Attributes:
        whole_rows: whether the format's rows have all columns, so that none can be left out.
    """

    whole_rows: ClassVar[bool] = True

    version: Version = _VERSION
    lobs: Literal["unchanged", "null"] = Field(
        default="null",
        description="`unchanged` writes LOB columns that an update did not touch as null in both "
        "images, as OMS does, where they would be left out otherwise (`null`). From OMS, "
        "`oms-default`, `oms-extended` and `oms-canal` write as it was read, unless this is set.",
    )
    trailing_zeros: bool = Field(
        default=False,
        description="Times keep the zeros that the source has at the end of their fraction of a "
        "second; OMS shows none.",
    )

    @classmethod
    def following(cls, source: Envelope, read_settings: Mapping[str, Any]) -> dict[str, Any]:
        """See `Settings.following`: what OMS wrote as null in both images is written so again."""
        if not (cls.whole_rows and issubclass(source.decode_settings, OmsReadSettings)):
            return {}
        return {
            "lobs": read_settings.get("lobs", source.decode_settings.model_fields["lobs"].default)
        }


class OmsSequencedWriteSettings(OmsWriteSettings, SequenceSettings):
    """Settings of methods whose messages have a sequence."""


class OmsDefaultWriteSettings(OmsSequencedWriteSettings):
    """Settings of the methods whose messages name the kind of database in `allMetaData`."""

    db_type: str | None = Field(
        default=None,
        min_length=1,
        description="`dbType` of messages whose source names none, e.g. `ORACLE`. With `OB_MYSQL` "
        "or `OB_ORACLE` databases are read as `tenant.database`. Left out, it is `MYSQL` where the "
        "source names types of MySQL, and null otherwise.",
    )


class ZonedReadSettings(TenantReadSettings):
    """Settings of methods that write times without a zone."""

    timezone: ZoneName = Field(
        default="UTC",
        description="Time zone (IANA name) of the times of changes, and of wall clocks that are "
        "written as instants; the messages name none.",
    )


class ZonedSequencedReadSettings(ZonedReadSettings, SequencedReadSettings):
    """Settings of methods whose messages have a sequence and times without a zone."""
