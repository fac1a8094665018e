"""What reading and writing any serialization method of OMS may need to be told."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from waybill.envelopes.made_sequence import SequenceSettings
from waybill.envelopes.notation.temporal import zone_named
from waybill.envelopes.protocol import Settings
from waybill.errors import ConfigurationError

Version = Literal["3.3.0", "earlier"]
"""Which notation of values: that of OMS V3.3.0 and later, or that of projects made before."""

_VERSION: Any = Field(
    default="3.3.0",
    description="Notation of values: `3.3.0` for projects made with OMS V3.3.0 or later, `earlier` "
    "for older ones, where BIT is a number, TIMESTAMP is whole seconds and other times have a T "
    "and maybe no seconds.",
)


class OmsReadSettings(Settings):
    """What reading messages of OMS needs to be told."""

    version: Version = _VERSION
    lobs: Literal["unchanged", "null"] = Field(
        default="unchanged",
        description="What a LOB column (TEXT, BLOB, JSON, geometry) means that an update holds as "
        "null in both images: OMS writes columns so that the update did not touch (`unchanged`), "
        "other producers mean `null`. Where messages name no types, it holds for columns declared "
        "as bytes, json, geometry or xml.",
    )


class OmsWriteSettings(Settings):
    """What writing messages of OMS needs to be told."""

    version: Version = _VERSION
    lobs: Literal["unchanged", "null"] = Field(
        default="null",
        description="`unchanged` writes LOB columns that an update did not touch as null in both "
        "images, as OMS does, where they would be left out otherwise.",
    )


class OmsSequencedWriteSettings(OmsWriteSettings, SequenceSettings):
    """Settings of methods whose messages have a sequence."""


def known_zone(name: str) -> str:
    """The name of a time zone, for the validators of settings.

    Raises:
        ValueError: there is no such zone.
    """
    try:
        zone_named(name)
    except ConfigurationError as error:
        raise ValueError(str(error)) from None
    return name


class ZonedReadSettings(OmsReadSettings):
    """Settings of methods that write times without a zone."""

    timezone: str = Field(
        default="UTC",
        description="Time zone (IANA name) of the times of changes, and of wall clocks that are "
        "told as instants; the messages name none.",
    )

    @field_validator("timezone")
    @classmethod
    def _known(cls, name: str) -> str:
        return known_zone(name)
