"""Reads Databus events in bulk that are in their binary form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waybill.envelopes.databus.bulk.reading import DatabusReader
from waybill.envelopes.databus.bulk.scanning import BinaryScanner

if TYPE_CHECKING:
    from waybill.envelopes.databus.decoder import EventDecoder


class BinaryReader(DatabusReader):
    """Where the values of the events stand."""

    def __init__(self, decoder: EventDecoder) -> None:
        super().__init__(decoder, BinaryScanner)
