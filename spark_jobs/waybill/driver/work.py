"""The stages that a driver is asked for, one after another, and what they say meanwhile."""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from waybill.connections import variable_of
from waybill.context import Options
from waybill.durations import moment_of
from waybill.jobs import MODES, UPKEEP, result_of
from waybill.report import STAGES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEARTBEAT = 5.0
"""Seconds of silence after which a line says that the stage still runs."""

_log = logging.getLogger("waybill")


def _one_of(known: Sequence[str]) -> AfterValidator:
    def check(text: str) -> str:
        if text not in known:
            message = f"one of {', '.join(known)}"
            raise ValueError(message)
        return text

    return AfterValidator(check)


def _in_utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment_of(moment)


class Order(BaseModel):
    """One stage of one batch, as a client asks for it."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    stage: Annotated[str, _one_of([*STAGES, UPKEEP])]
    migration: str
    """Path of the migration's file, as the driver sees it."""
    batch: str
    mode: Annotated[str, _one_of(MODES)] = MODES[0]
    drop_held: bool = False
    until_time: Annotated[datetime | None, AfterValidator(_in_utc)] = None
    connections: dict[str, str] = Field(default_factory=dict, repr=False)
    """Connections that the migration names, as JSON; forgotten when the stage has ended."""


class Work:
    """Runs one order at a time: Spark has the whole machine to itself, and so has each stage."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._one = ThreadPoolExecutor(1, thread_name_prefix="stage")
        self._running: Running | None = None

    @property
    def busy(self) -> str | None:
        """What is being done, as `migration stage batch`."""
        running = self._running
        return None if running is None else running.label

    @property
    def alive(self) -> bool:
        """Whether Spark still answers."""
        try:
            return not self.spark.sparkContext._jsc.sc().isStopped()
        except Exception:  # noqa: BLE001 - whatever goes wrong here, Java is not there any more
            return False

    def lines(self, order: Order) -> Generator[dict[str, Any]]:
        """Do what is asked; gives `{"log": …}` and `{"alive": …}`, and `{"result": …}` at last.

        A reader that goes away cancels the stage.
        """
        running = Running(order)
        future = self._one.submit(self._run, running)
        try:
            while True:
                try:
                    line = running.said.get(timeout=HEARTBEAT)
                except queue.Empty:
                    yield {"alive": self.busy}
                    continue
                yield line
                if "result" in line:
                    return
        finally:
            if not future.done():
                running.cancelled.set()
                if not future.cancel():
                    self.spark.sparkContext.cancelJobGroup(running.group)

    def _run(self, running: Running) -> None:
        if running.cancelled.is_set():
            return
        self._running = running
        order = running.order
        result: dict[str, Any] = {}
        try:
            with running.heard(), _environment(order.connections):
                self.spark.sparkContext.setJobGroup(running.group, running.label, True)
                options = Options(order.mode, order.drop_held, order.until_time)
                result = result_of(order.stage, order.migration, order.batch, options)
        finally:
            self._running = None
            running.said.put({"result": result})


class Running:
    """An order that is being done, and what is to be told about it."""

    def __init__(self, order: Order) -> None:
        self.order = order
        name = os.path.splitext(os.path.basename(order.migration))[0]  # noqa: PTH119, PTH122 - text
        self.label = f"{name} {order.stage} {order.batch}"
        self.group = f"waybill-{id(self)}"
        self.said: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.cancelled = threading.Event()

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Hands on what the library logs meanwhile."""
        handler = _Told(self.said)
        _log.addHandler(handler)
        try:
            yield
        finally:
            _log.removeHandler(handler)


class _Told(logging.Handler):
    """Puts log lines where the reader finds them."""

    def __init__(self, said: queue.SimpleQueue[dict[str, Any]]) -> None:
        super().__init__(logging.INFO)
        self._said = said

    def emit(self, record: logging.LogRecord) -> None:
        """One line, with its traceback where it has one."""
        self._said.put({"log": self.format(record), "level": record.levelname})


@contextmanager
def _environment(connections: dict[str, str]) -> Iterator[None]:
    """The connections of one order, where the stage looks for them."""
    names = {variable_of(name): text for name, text in connections.items()}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, text in before.items():
            if text is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = text
