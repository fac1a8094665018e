"""Chooses the decoder of Canal messages by the notation of their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from waybill.envelopes.canal.text_rows import CanalDecoder
from waybill.envelopes.canal.typed_rows import TypedRowsDecoder

if TYPE_CHECKING:
    from waybill.protocol import Decoder
    from waybill.tables import TableRules


def decoder_of(settings: Any, rules: TableRules) -> Decoder:
    """The decoder for texts as Canal writes them, or for the typed values of other engines."""
    if settings.values == "text":
        return CanalDecoder(settings, rules)
    return TypedRowsDecoder(settings, rules)
