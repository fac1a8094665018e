"""The stages that a driver is asked for, one after another, and what they say meanwhile."""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from waybill.connections import variable_of
from waybill.counting import counted
from waybill.errors import Code, ConfigurationError, described
from waybill.jobs import KEYS, MODES, UPKEEP, VERIFY, result_of, tables_in
from waybill.lake.decisions import DECISIONS, RequestedDecision
from waybill.report import STAGES
from waybill.spec.durations import moment_of
from waybill.spec.file import SpecificationError, load_migration
from waybill.stage_context import Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEARTBEAT = 5.0
"""Seconds of silence after which a line says that the stage still runs."""

MOST_ORDERS = 17
"""How many orders are taken at a time: one that is done, the others wait. Each takes a thread of
the server, which has 40."""

SUFFIXES = (".yaml", ".yml", ".json")
"""How the names of migrations' files end."""

_log = logging.getLogger("waybill")


class BusyError(Exception):
    """No more orders are taken for now."""


def _one_of(known: Sequence[str]) -> AfterValidator:
    def check(text: str) -> str:
        if text not in known:
            message = f"one of {', '.join(known)}"
            raise ValueError(message)
        return text

    return AfterValidator(check)


def _connections(given: dict[str, str]) -> dict[str, str]:
    """Connections that an environment can hold; what is wrong is reported without their values."""
    for name, text in given.items():
        if not name or "=" in name or "\0" in name:
            raise ValueError("a connection's name is not empty and holds neither = nor NUL")
        if "\0" in text:
            raise ValueError("a connection holds no NUL")
    return given


def _in_utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment_of(moment)


class OrderedDecision(BaseModel):
    """What a person decides about the batch; see `waybill.lake.decisions.RequestedDecision`."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    what: Annotated[str, _one_of(DECISIONS)]
    by: str
    reason: str
    verdict: str | None = None

    def asked(self) -> RequestedDecision:
        """As the gate takes it."""
        return RequestedDecision(self.what, self.by, self.reason, self.verdict)


class StageOrder(BaseModel):
    """One stage of one batch, as a client asks for it."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    stage: Annotated[str, _one_of([*STAGES, UPKEEP, VERIFY])]
    migration: str
    """Path of the migration's file, as the driver sees it."""
    batch: str
    mode: Annotated[str, _one_of(MODES)] = MODES[0]
    tables: str = ""
    """Which tables mode `reload` takes, with commas between."""
    keys: Annotated[str, _one_of(KEYS)] = KEYS[0]
    """Which keys of them."""
    drop_held: bool = False
    until_time: Annotated[datetime | None, AfterValidator(_in_utc)] = None
    decision: OrderedDecision | None = None
    connections: Annotated[dict[str, str], AfterValidator(_connections)] = Field(
        default_factory=dict, repr=False
    )
    """Connections that the migration names, as JSON; forgotten when the stage has ended."""


class Work:
    """Runs one order at a time: Spark has the whole machine to itself, and so has each stage."""

    def __init__(self, spark: SparkSession, migrations: Path) -> None:
        """See above.

        Args:
            spark: the session that the stages use.
            migrations: the folder below which the files of migrations lie.
        """
        self.spark = spark
        self._migrations = migrations
        self._one = ThreadPoolExecutor(1, thread_name_prefix="stage")
        self._running: Running | None = None
        self._taken = threading.BoundedSemaphore(MOST_ORDERS)

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

    def take(self, order: StageOrder) -> Running:
        """Put an order behind those that wait.

        Raises:
            ConfigurationError: its file is not a migration of this driver.
            BusyError: too many wait.
        """
        running = Running(order, migration_file(order.migration, self._migrations))
        if not self._taken.acquire(blocking=False):
            message = f"{MOST_ORDERS - 1} orders wait for the driver already: ask again later"
            raise BusyError(message)
        running.future = self._one.submit(self._run, running)
        running.future.add_done_callback(lambda _done: self._taken.release())
        return running

    def lines(self, running: Running) -> Generator[dict[str, Any]]:
        """What an order says: `{"log": …}` and `{"alive": …}`, and `{"result": …}` at last.

        A reader that goes away cancels the stage.
        """
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
            if not running.future.done():
                running.cancelled.set()
                if not running.future.cancel():
                    self.spark.sparkContext.cancelJobGroup(running.group)

    def _run(self, running: Running) -> None:
        if running.cancelled.is_set():
            return
        self._running = running
        order = running.order
        result: dict[str, Any] = {}
        try:
            with _environment(order.connections):
                spec = load_migration(running.file)
                with running.heard():
                    self.spark.sparkContext.setJobGroup(running.group, running.label, True)
                    decision = None if order.decision is None else order.decision.asked()
                    tables = tables_in(order.tables)
                    options = Options(
                        *(order.mode, order.drop_held, order.until_time),
                        *(decision, tables, order.keys),
                    )
                    result = result_of(order.stage, spec, order.batch, options)
        except SpecificationError as error:
            _log.error("%s: %s", order.stage, error)
            result = {"error": {**described(error), "message": _unusable(running.file, error)}}
            running.said.put({"log": result["error"]["message"], "level": "ERROR"})
        finally:
            self._running = None
            running.said.put({"result": result})


def migration_file(named: str, folder: Path) -> Path:
    """The file of a migration below a folder, with every link followed.

    Raises:
        ConfigurationError: it is not below the folder, or its name is not that of a migration;
            whether there is such a file is not stated.
    """
    try:
        file = Path(named).resolve()
        inside = file.is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):
        inside = False
    if not inside or file.suffix not in SUFFIXES:
        message = (
            f"{named!r} is not a {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file below the "
            "driver's folder of migrations: put it there, or start the driver with --migrations"
        )
        raise ConfigurationError(message, code=Code.DRIVER_REFUSED)
    return file


def _unusable(file: Path, error: SpecificationError) -> str:
    """What a client sees: its problems repeat parts of the file, which is not the client's."""
    return (
        f"{file.name} cannot be used as a migration ({counted(len(error.problems), 'problem')}): "
        "the driver's log names what is wrong, and so does `waybill check`"
    )


class Running:
    """An order that is being done, and what is to be reported about it."""

    future: Future[None]

    def __init__(self, order: StageOrder, file: Path) -> None:
        self.order = order
        self.file = file
        name = os.path.splitext(os.path.basename(order.migration))[0]  # noqa: PTH119, PTH122 - text
        self.label = f"{name} {order.stage} {order.batch}"
        self.group = f"waybill-{id(self)}"
        self.said: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.cancelled = threading.Event()

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Hands on what the library logs meanwhile."""
        handler = _Forwarder(self.said)
        _log.addHandler(handler)
        try:
            yield
        finally:
            _log.removeHandler(handler)


class _Forwarder(logging.Handler):
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
    try:
        os.environ.update(names)
        yield
    finally:
        for name, text in before.items():
            if text is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = text
