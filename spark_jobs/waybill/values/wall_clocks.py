"""Wall clocks with a blank between date and time of day, and instants that are shown as such."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.values.notation import FROM_BLANK, TO_BLANK, UTC_FROM_BLANK, UTC_TO_BLANK, Notation
from waybill.values.temporal import (
    blank_from_iso,
    faithful,
    is_utc,
    iso_from_blank,
    utc_from_wall,
    wall_from_utc,
)

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

WITH_BLANK = Notation(
    "text", iso_from_blank, faithful(blank_from_iso, iso_from_blank), FROM_BLANK, TO_BLANK
)
"""A wall clock as MySQL shows it."""


def instants_in(zone: ZoneInfo) -> Notation:
    """An instant as the wall clock of a zone, of which none is written that would be another."""
    read = utc_from_wall(zone)
    notation = Notation("text", read, faithful(wall_from_utc(zone, once=True), read))
    if is_utc(zone):
        return notation._replace(reads=UTC_FROM_BLANK, writes=UTC_TO_BLANK)
    return notation
