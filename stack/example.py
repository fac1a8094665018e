"""Servers of an example and Airflow, started together and ended together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from waybill_airflow.local_airflow import LocalAirflow

PATIENCE = 240.0
"""Seconds that Airflow may take to come up."""


class Example(ABC):
    """What runs as long as its block does.

    Args:
        tell: is told what is being started.
    """

    airflow: LocalAirflow

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._running = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._give_up()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._tell("Ending the stack …")
        self._running.close()

    @abstractmethod
    def _start(self) -> None:
        """Start everything; what has to be ended is on `_running`."""

    def _give_up(self) -> None:
        """End what was started where not everything could be."""
        self._running.close()

    def _start_airflow(self, dag_ids: Collection[str]) -> None:
        """Start Airflow last, and wait until it has these DAGs."""
        self._tell("Starting Airflow …")
        self._running.callback(self.airflow.stop)
        self.airflow.start()
        self.airflow.wait_for(set(dag_ids), PATIENCE)
