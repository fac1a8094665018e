"""When bulk conversion pays for loading its compiled code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Generic, TypeVar

UNKNOWN_SIZE = 2 << 20
"""Where the size of the input is not known, so many bytes are converted individually before the
compiled code is loaded: they take about as long as loading it does in a task of Spark."""

KNOWN_SIZE = 8 << 20
"""An input of so many bytes takes as long individually as in bulk, loading included."""

FEW = 4
"""Bulk pays where one of so many messages goes in bulk."""

SHORTEST_PAUSE, LONGEST_PAUSE = 4, 64
"""So many blocks go individually before bulk is tried again."""

SWITCH = "WAYBILL_BULK"
"""Variable of the environment that turns it `off`, or `on` for inputs of any size."""

_KERNELS = "waybill.bulk.kernels"


Made = TypeVar("Made")


def from_the_start(size: int | None) -> bool:
    """Whether bulk pays from the first of so many bytes on."""
    switch = os.environ.get(SWITCH)
    return switch == "on" or (switch != "off" and size is not None and size >= KNOWN_SIZE)


class BulkThreshold(Generic[Made]):
    """Adds up what one task or file has to convert.

    Args:
        make: makes what converts in bulk; None where the envelopes cannot.
        size: how many bytes there are, None where nobody knows.
    """

    def __init__(self, make: Callable[[], Made] | None, size: int | None = None) -> None:
        switch = os.environ.get(SWITCH)
        self._make = None if switch == "off" else make
        self._seen = 0
        self._most = UNKNOWN_SIZE
        if switch == "on" or size is not None:
            self._most = 0 if from_the_start(size) else sys.maxsize
        self._made: Made | None = None
        self._forced = switch == "on"
        self._rest = 0
        self._pause = SHORTEST_PAUSE

    def of(self, size: int) -> Made | None:
        """What converts the next so many bytes in bulk, made once; None where it does not pay."""
        if self._make is None:
            return None
        self._seen += size
        if self._rest:
            self._rest -= 1
            return None
        if self._made is None and (self._seen > self._most or _KERNELS in sys.modules):
            self._made = self._make()
        return self._made

    def paid(self, messages: int, in_bulk: int) -> None:
        """Learn how many of a block's messages went in bulk.

        Where few did, looking for messages of one shape was in vain, and the next blocks go one by
        one: the more the longer this has been so.
        """
        if self._forced or FEW * in_bulk >= messages:
            self._pause = SHORTEST_PAUSE
            return
        self._rest = self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
