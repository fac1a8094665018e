"""A campaign of kills over all five stages, to files and to Kafka, ends as no kill at all does.

`WAYBILL_KILLS` is how many running stages are killed, each at a random moment and by a SIGKILL of
Python, Java and Spark's workers. `WAYBILL_KILLS_SEED` draws the same moments again; what was drawn
is printed. A moment counts calls of Java, so it hits the same place on a machine of any speed,
but one within a call only nearly: `WAYBILL_KILLS_AGAIN` names a file of printed lines to take
instead of drawing.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import pytest

from stack.kafka import Broker
from tests.kafka.outboxes import contents, read
from tests.killed.session_end import kill_session
from tests.killed.stage_driver import small_parts
from tests.killed.stage_moments import Course, Moment, followed, moment_of_sending
from tests.killed.test_kill import Place
from waybill.connections import Connection
from waybill.envelopes import registry
from waybill.jobs import run_stage
from waybill.kafka.client import properties
from waybill.lake import Lake
from waybill.lake.session import start_session
from waybill.spec.file import load_migration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(8 * 3600)]

PROJECT = Path(__file__).resolve().parents[2]
DRIVER = Path(__file__).with_name("stage_driver.py")

KILLS = int(os.environ.get("WAYBILL_KILLS", "3"))
SEED = int(os.environ.get("WAYBILL_KILLS_SEED", "1" if KILLS < 50 else str(time.time_ns())))
AGAIN = os.environ.get("WAYBILL_KILLS_AGAIN")

STAGES = ("snapshot", "convert", "merge", "validate", "publish")
SHARES = {"snapshot": 2, "convert": 3, "merge": 3, "validate": 5, "publish": 1, "send": 6}
"""How the kills are spread over the stages, in twentieths; `send` is in publish, out of the worker
that sends to Kafka."""

AT_MOST = {"snapshot": 1, "convert": 4, "merge": 4, "validate": 6, "publish": 6}
"""How often a stage of one batch is killed before it may come to its end."""

LEFT = 0.08
"""The share of kills after which nobody comes back to the batch: the next one begins instead."""

PATIENCE = 600
"""Seconds that a stage or the start of Spark may take."""


def spread(kills: int) -> dict[str, int]:
    """How many kills of each kind there are to be; those that are left over go to the last ones."""
    whole = {aim: kills * share // 20 for aim, share in SHARES.items()}
    for aim in list(SHARES)[::-1][: kills - sum(whole.values())]:
        whole[aim] += 1
    return whole


class Campaign(Place):
    """A place whose batches go to files and to a topic."""

    def __init__(self, folder: Path, broker: Broker) -> None:
        super().__init__(folder)
        self.topic = broker.create_topic(folder.parent.name, 2)
        spec = json.loads(self.spec.read_text())
        kafka = {"topic": self.topic, "ledger": f"{self.topic}.ledger"}
        spec["publish"].append({"envelope": "canal", "name": "topic", "kafka": kafka})
        self.spec.write_text(json.dumps(spec))

    def lines(self) -> list[bytes]:
        """What stands in the files of the target, in the order of batches and parts."""

        def in_order(file: Path) -> tuple[list[int], str]:
            return [int(part) for part in file.parent.name[1:].split(".")], file.name

        files = sorted((self.folder / "out").rglob("part-*"), key=in_order)
        return [line for file in files for line in file.read_bytes().splitlines()]

    def opened(self) -> Lake:
        return Lake.open(self.spark, load_migration(self.spec))

    def rows(self, lake: Lake, table: str) -> list[str]:
        """Every row of a table as text, without the batch that wrote it and the place it is in."""
        rows = lake.read(table)
        kept = [name for name in rows.columns if name not in ("batch", "_waybill_batch")]
        found = (row.replace(str(self.folder), "") for row in rows.select(kept).toJSON().collect())
        return sorted(found)


@dataclass
class Driver:
    """A process with a Spark that is kept for one stage after another, as long as it lives.

    A second one starts meanwhile and takes its place.
    """

    place: Campaign
    running: list[subprocess.Popen[str]] = field(default_factory=list)
    starts: int = 0

    def run(self, stage: str, batch: str, moment: Moment | None = None) -> bool:
        """Run a stage; whether it was killed in it."""
        while len(self.running) < 2:
            self.running.append(self._start())
        process = self.running[0]
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(
                json.dumps({"stage": stage, "batch": batch, "moment": moment}) + "\n"
            )
            process.stdin.flush()
        except BrokenPipeError:
            code = process.wait(PATIENCE)
            pytest.fail(f"a driver ended by itself with {code} before it was used: {self.said()}")
        answer = process.stdout.readline()
        if answer and not (moment and moment.step):
            return False
        del self.running[0]
        if answer:
            end_of_all(process)
            return False
        code = process.wait(PATIENCE)
        end_of_all(process)
        assert code == -signal.SIGKILL, (stage, batch, moment, self.said())
        assert moment is not None, (stage, batch)
        return True

    def said(self) -> str:
        """The end of what the processes have logged."""
        return (self.place.folder / "driver.log").read_text(errors="replace")[-5000:]

    def end(self) -> None:
        for process in self.running:
            process.kill()
            end_of_all(process)

    def _start(self) -> subprocess.Popen[str]:
        self.starts += 1
        paths = os.pathsep.join([str(PROJECT), str(PROJECT / "spark_jobs")])
        with (self.place.folder / "driver.log").open("a") as log:
            return subprocess.Popen(
                [sys.executable, str(DRIVER), str(self.place.spec)],
                env={**os.environ, "PYTHONPATH": paths},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )


def end_of_all(process: subprocess.Popen[str]) -> None:
    """Leave nothing of a run behind, nor its pipes."""
    kill_session(process.pid)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
    process.wait()


@dataclass
class Account:
    """What was tried and what was hit."""

    wanted: dict[str, int]
    hit: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    left: int = 0
    batches: int = 0
    out: IO[str] = sys.stderr

    def open(self, aim: str) -> bool:
        """Whether more kills of a kind are wanted."""
        return self.hit[aim] < self.wanted[aim]

    def aims(self, stage: str) -> list[str]:
        """What is still to be hit in a stage."""
        return list(filter(self.open, ["publish", "send"] if stage == "publish" else [stage]))

    def note(self, aim: str, batch: str, plan: Plan, killed: bool) -> None:
        """Count a kill, and print it so that it can be repeated."""
        (self.hit if killed else self.missed)[aim] += 1
        self.left += killed and plan.leave
        line = {"batch": batch, "aim": aim, **plan._asdict(), "hit": killed}
        self.out.write(f"kill {json.dumps(line)}\n")
        self.out.flush()


class Plan(NamedTuple):
    """When to kill a stage, and whether its batch is left alone then."""

    moment: Moment
    leave: bool


class Plans:
    """What is drawn, or was: by the lines that a campaign printed."""

    def __init__(self) -> None:
        self._chance = random.Random(SEED)
        lines = Path(AGAIN).read_text().splitlines() if AGAIN else []
        found = (re.search(r"\bkill (\{.*\})$", line) for line in lines)
        self._again = iter([json.loads(one[1]) for one in found if one is not None])

    def next(self, aims: list[str], course: Course) -> tuple[str, Plan]:
        """What to hit, and when."""
        if AGAIN:
            line = next(self._again)
            return line["aim"], Plan(Moment(*line["moment"]), line["leave"])
        aim = self._chance.choice(aims)
        send = aim == "send"
        moment = moment_of_sending(self._chance) if send else course.moment(self._chance)
        return aim, Plan(moment, self._chance.random() < LEFT)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with pytest.MonkeyPatch.context() as patch, Broker(tmp_path / "kafka") as running:
        patch.setenv("KAFKA_BOOTSTRAP_SERVERS", running.servers)
        patch.delenv("AIRFLOW_CONN_KAFKA_DEFAULT", raising=False)
        yield running


@pytest.fixture
def places(
    broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Campaign, Campaign]]:
    """One that is killed, and one that is not."""
    with pytest.MonkeyPatch.context() as patch:
        paths = [str(PROJECT), os.environ.get("PYTHONPATH", "")]
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
        patch.setitem(registry.MODULES, "tiny", "tests.spark.tiny_envelope")
        small_parts()
        struck, quiet = (
            Campaign(tmp_path_factory.mktemp(name) / "place", broker)
            for name in ("struck", "quiet")
        )
        session: SparkSession = start_session(load_migration(struck.spec), "tests")
        struck.spark = quiet.spark = session
        yield struck, quiet
        session.stop()


def feed(places: tuple[Campaign, Campaign], number: int) -> None:
    """Give both the same messages."""
    for place in places:
        place.feed(f"{number:05d}", of_batch(number))


def of_batch(number: int) -> list[dict[str, Any]]:
    """Rows that come, change and go, and halves of an update that meet in the next batch."""
    first, seq = number * 10, number * 100

    def row(of: int, text: str) -> dict[str, str]:
        return {"id": str(of), "v": f"{text} {number}"}

    found = [{"op": "insert", "seq": seq + n, "row": row(first + n, "new")} for n in range(8)]
    found += [{"op": "update", "seq": seq + 10, "row": row(first + 1, "changed")}, {"op": "noise"}]
    if number > 1:
        old = first - 10
        half = {"op": "update", "half": "after", "seq": seq - 80, "row": row(old + 2, "joined")}
        found += [half, {"op": "delete", "seq": seq + 11, "row": {"id": str(old + 3)}}]
    half = {"op": "update", "half": "before", "seq": seq + 20, "row": row(first + 2, "new")}
    other = {"op": "insert", "table": "u", "seq": seq + 21, "row": row(number, "other")}
    return [*found, half, other]


def quietly(place: Campaign, batch: str) -> dict[str, Course]:
    """Run a batch that nobody kills; how each stage went."""
    courses = {}
    for stage in STAGES:
        with followed() as courses[stage]:
            run_stage(stage, str(place.spec), batch, place.spark)
    return courses


def disturbed(
    driver: Driver, number: int, courses: dict[str, Course], account: Account, plans: Plans
) -> None:
    """Bring a batch to its end although its stages are killed."""
    batch, begun = f"b{number}", 1
    for stage in STAGES:
        killed = True
        for _ in range(AT_MOST[stage]):
            aims = account.aims(stage)
            if not (killed and aims):
                break
            aim, plan = plans.next(aims, courses[stage])
            killed = driver.run(stage, batch, plan.moment)
            account.note(aim, batch, plan, killed)
            if killed and plan.leave:
                begun += 1
                batch = f"b{number}.{begun}"
                for before in STAGES[: STAGES.index(stage)]:
                    driver.run(before, batch)
        if killed:
            driver.run(stage, batch)


def test_a_campaign_of_kills(places: tuple[Campaign, Campaign], client: dict[str, str]) -> None:
    struck, quiet = places
    started, plans = time.monotonic(), Plans()
    driver, account = Driver(struck), Account(spread(KILLS))
    sys.stderr.write(f"campaign: {KILLS} kills, seed {SEED}, in {struck.folder}\n")
    try:
        while any(map(account.open, SHARES)):
            account.batches += 1
            number = account.batches
            assert number <= 5 + KILLS, f"stages are hardly ever hit: {account}"
            feed(places, number)
            disturbed(driver, number, quietly(quiet, f"b{number}"), account, plans)
            compare(places, client, f"batch {number}, seed {SEED}", ("demo.shop_t",))
    finally:
        driver.end()
        seconds = time.monotonic() - started
        sys.stderr.write(
            f"campaign: {account.hit.total()} kills {dict(account.hit)}, not reached "
            f"{dict(account.missed)}, batches {account.batches}, left for another {account.left}, "
            f"starts of Spark {driver.starts}, {seconds:.0f} s, seed {SEED}\n"
        )
    # The next batch clears away what a killed one has left that nobody came back to.
    feed(places, account.batches + 1)
    for place in places:
        quietly(place, f"b{account.batches + 1}")
    tables = ("demo.shop_t", "demo.shop_u", "demo_log.archive", "demo_log.changes")
    compare(places, client, f"seed {SEED}", (*tables, "demo_log.outbox"))
    lake = struck.opened()
    for name in ("archive", "changes", "outbox", "merges", "runs", "published"):
        waiting = [lake.waiting(f"lake.demo_log.{name}", stage) for stage in STAGES]
        assert not any(waiting), (name, waiting, f"seed {SEED}")
    assert dict(account.hit) == {aim: n for aim, n in spread(KILLS).items() if n}


def compare(
    places: tuple[Campaign, Campaign], client: dict[str, str], where: str, tables: tuple[str, ...]
) -> None:
    """Tables hold the same rows, and files and topics the same messages in the same order."""
    struck, quiet = places
    one, two = struck.opened(), quiet.opened()
    for table in tables:
        assert struck.rows(one, f"lake.{table}") == quiet.rows(two, f"lake.{table}"), (table, where)
    assert struck.lines() == quiet.lines(), where
    sent, wanted = (
        {number: contents(found) for number, found in read(client, place.topic).items()}
        for place in places
    )
    assert sent == wanted, where
    assert sum(map(len, sent.values())) == len(quiet.lines()), where


@pytest.fixture
def client(broker: Broker) -> dict[str, str]:
    return properties(Connection("tests", extra={"bootstrap.servers": broker.servers}))
