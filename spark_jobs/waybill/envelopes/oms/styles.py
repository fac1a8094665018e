"""OMS' notations of values, for the methods whose rows are plain JSON objects.

They are those of `columns`, in the form that `notation.json_rows` takes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from waybill.envelopes.oms.values import WIRE_TYPES, notation_of
from waybill.errors import Refusal
from waybill.types import NUMBER, UNKNOWN
from waybill.values.json_columns import JSON, Style
from waybill.values.values import JSON_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.envelopes.oms.settings import Version
    from waybill.types import LogicalType
    from waybill.values.notation import Notation

_LEFT_ALONE = frozenset({NUMBER, JSON, UNKNOWN})
"""Types that stand as in every other envelope of JSON rows; integers and decimals do too."""


@lru_cache
def style_of(version: Version, zeros: bool = False) -> Style:
    """The notations of a version.

    Args:
        version: of OMS.
        zeros: whether zeros at the end of a time's fraction are written.
    """
    earlier = version == "earlier"
    # A boolean is a digit, so it cannot be distinguished from a number.
    return Style(digits=True, own=lambda kind: own_notation(kind, earlier, zeros))


def own_notation(kind: LogicalType, earlier: bool, zeros: bool = False) -> Notation | None:
    """The notation of a type, None where it is that of other envelopes too."""
    if kind in _LEFT_ALONE or kind.is_integer or kind.kind == "decimal":
        return None
    notation = notation_of(kind, earlier, zeros)
    wire, read = notation.wire, notation.read
    if wire in ("text", "null"):
        return notation
    if wire != "number" and read is not None:
        read = _decoded(wire, read)
    return notation._replace(wire="raw", read=read)


def _decoded(wire: str, read: Callable[[Any], str | None]) -> Callable[[str], str | None]:
    """A reader of JSON text from one of what the text says."""
    decode = msgspec.json.Decoder(WIRE_TYPES[wire]).decode

    def take(literal: str) -> str | None:
        try:
            value = decode(literal)
        except JSON_ERRORS:
            raise Refusal("value", f"{literal[:60]} is no value of the column") from None
        return read(value)

    return take
