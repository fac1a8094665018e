"""The notations of the values of Maxwell's messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.values.json_columns import Style
from waybill.values.temporal import zone_named
from waybill.values.wall_clocks import WITH_BLANK, instants_in

if TYPE_CHECKING:
    from waybill.envelopes.maxwell.settings import MaxwellSettings


def style_of(settings: MaxwellSettings) -> Style:
    """Maxwell's notations of values."""
    return Style(
        timestamp=WITH_BLANK,
        timestamptz=instants_in(zone_named(settings.timezone)),
        digits=True,
        arrays=True,
        nested=settings.json_columns == "nested",
        wkt=True,
    )


def one_quote(text: str) -> str:
    """A text whose quotes were doubled, as it is."""
    return text.replace("''", "'")
