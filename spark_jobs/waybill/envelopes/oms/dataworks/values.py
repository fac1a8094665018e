"""OMS' notations of values as its DataWorks method has them: times may be numbers too.

Source: OceanBase documentation "Data formats", section "Dataworks-compatible JSON message format":
the format shows a time as milliseconds with nanoseconds, the samples as OMS writes it elsewhere.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Raw

from waybill.envelopes.oms.clocks import sum_from_utc, utc_from_sum
from waybill.envelopes.oms.styles import own_notation
from waybill.envelopes.oms.values import notation_of
from waybill.errors import Refusal
from waybill.values.json_columns import Style
from waybill.values.notation import Notation
from waybill.values.temporal import iso_from_blank, utc_from_wall, wall_from_utc

if TYPE_CHECKING:
    from waybill.envelopes.oms.settings import Version
    from waybill.types import LogicalType

_decode_text = msgspec.json.Decoder(str).decode


@lru_cache
def dataworks_style(
    version: Version, zone: ZoneInfo, numbers: bool = False, zeros: bool = False
) -> Style:
    """The notations of a version.

    Args:
        version: of OMS.
        zone: the zone of wall clocks that stand as numbers.
        numbers: whether times are written as numbers.
        zeros: whether zeros at the end of a time's fraction are written.
    """
    earlier = version == "earlier"

    def own(kind: LogicalType) -> Notation | None:
        if kind.kind not in ("timestamp", "timestamptz"):
            return own_notation(kind, earlier, zeros)
        return _time_notation(kind, notation_of(kind, earlier, zeros), zone, numbers)

    return Style(digits=True, own=own)


def _time_notation(
    kind: LogicalType, notation: Notation, zone: ZoneInfo, numbers: bool
) -> Notation:
    wire, read_text, write_text = notation.wire, notation.read, notation.write
    instant = kind.kind == "timestamptz"
    to_wall, to_utc = wall_from_utc(zone), utc_from_wall(zone)

    def read(literal: str) -> Any:
        if literal[0] == '"':
            plain = "\\" not in literal
            text = literal[1:-1] if plain else _decode_text(literal)
            return read_text(text) if read_text else text
        if literal[0] not in "-0123456789":
            raise Refusal("value", f"{literal[:60]} is no time")
        if wire == "moment" and _is_seconds(literal):
            return read_text(literal) if read_text else literal
        utc = utc_from_sum(literal)
        if instant:
            return utc
        wall = iso_from_blank(to_wall(utc))
        if to_utc(wall) != utc:
            raise Refusal("value", f"{literal} is no single wall clock in {zone.key}")
        return wall

    def write(text: str) -> Any:
        utc = text if instant else to_utc(text)
        number = sum_from_utc(utc)
        if number is not None and wire == "moment" and _is_seconds(number):
            number = None
        if number is None or (not instant and to_wall(utc) != text.replace("T", " ", 1)):
            return write_text(text) if write_text else text
        return Raw(number)

    put, form = (write, None) if numbers else (write_text, notation.writes)
    return Notation("raw", read, put, notation.reads, form)


_MILLIS = 13
"""The document's digits of a count of milliseconds; one of seconds has 12 until the year 9999."""


def _is_seconds(literal: str) -> bool:
    """Whether a number counts seconds, as a TIMESTAMP did before V3.3.0."""
    return "." not in literal and len(literal.lstrip("-")) < _MILLIS
