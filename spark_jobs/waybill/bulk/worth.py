"""When converting many messages at once pays for what has to be loaded for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Generic, TypeVar

WORTH = 32 << 20
"""Bytes that take as long one by one as it takes to load what is compiled."""

SWITCH = "WAYBILL_BULK"
"""Variable of the environment that turns it `off`, or `on` for inputs of any size."""

_KERNELS = "waybill.bulk.kernels"


Made = TypeVar("Made")


class Worth(Generic[Made]):
    """Adds up what one task or file has to convert.

    Args:
        make: makes what converts many messages at once; None where the envelopes cannot.
    """

    def __init__(self, make: Callable[[], Made] | None) -> None:
        told = os.environ.get(SWITCH)
        self._make = None if told == "off" else make
        self._seen = WORTH if told == "on" else 0
        self._made: Made | None = None

    def of(self, size: int) -> Made | None:
        """What converts the next so many bytes at once, made once; None where it does not pay."""
        if self._make is None:
            return None
        self._seen += size
        if self._made is None and (self._seen > WORTH or _KERNELS in sys.modules):
            self._made = self._make()
        return self._made
