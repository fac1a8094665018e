"""Looks at something again and again, in a thread of its own, while a block runs."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Self


class Sampler(ABC):
    """What a measure watches while it runs.

    Args:
        every: seconds between two looks.
    """

    def __init__(self, every: float = 0.1) -> None:
        self._every = every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            self.sample()

    @abstractmethod
    def sample(self) -> None:
        """Look once."""
