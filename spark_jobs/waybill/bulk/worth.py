"""When converting many messages at once pays for what has to be loaded for it."""

from __future__ import annotations

import os
import sys

WORTH = 32 << 20
"""Bytes that take as long one by one as it takes to load what is compiled."""

SWITCH = "WAYBILL_BULK"
"""Variable of the environment that turns it `off`, or `on` for inputs of any size."""

_KERNELS = "waybill.bulk.kernels"


class Worth:
    """Adds up what one task or file has to convert.

    Args:
        able: whether its envelopes can convert many messages at once.
    """

    def __init__(self, able: bool) -> None:
        told = os.environ.get(SWITCH)
        self._able = able and told != "off"
        self._seen = WORTH if told == "on" else 0

    def of(self, size: int) -> bool:
        """Whether the next so many bytes are to be converted at once."""
        if not self._able:
            return False
        self._seen += size
        return self._seen > WORTH or _KERNELS in sys.modules
