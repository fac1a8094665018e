"""What files of a lake have said, for whoever looks into it again.

Iceberg never writes a data file, a file of deletes, a manifest or a list of manifests twice
(Iceberg specification, "File System Operations"), and their names are made at random, so what one
has said it says for ever. A lake of a thousand small batches has thousands of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Any

MOST = 64 << 20
"""Bytes that are remembered."""

SHARE = 4
"""What takes more than this part of all is not remembered: it would be in place of all else."""


class FileMemory:
    """What is asked for longest ago is forgotten first. Threads may share it.

    Args:
        most: bytes that are remembered, about.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most, self._bytes = most, 0
        self._known: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable) -> Any:
        """What was kept under a key; None where nothing is, or is no more."""
        with self._lock:
            found = self._known.get(key)
            if found is None:
                return None
            self._known.move_to_end(key)
            return found[0]

    def keep(self, key: Hashable, value: Any, size: int) -> bool:
        """Remember something that nobody changes; returns whether it is small enough.

        Args:
            key: begins with the place of the file.
            value: what it said.
            size: bytes that this takes, about.
        """
        with self._lock:
            _, before = self._known.pop(key, (None, 0))
            self._bytes -= before
            if size > self._most // SHARE:
                return False
            self._known[key] = (value, size)
            self._bytes += size
            while self._bytes > self._most:
                _, (_, freed) = self._known.popitem(last=False)
                self._bytes -= freed
            return True
