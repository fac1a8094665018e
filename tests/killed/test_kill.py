"""Killed at any point and run again, a batch leaves the lake that an undisturbed run leaves.

What is killed or held up runs as a process of its own; what runs undisturbed shares one Spark.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.killed import mapped_shards
from tests.spark.conftest import INTERPRETED
from waybill.envelopes import registry
from waybill.jobs import run_migration
from waybill.lake import Lake
from waybill.lake.session import start_session
from waybill.spec.file import load_migration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from waybill.report import Waybill

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(3600)]

PROJECT = Path(__file__).resolve().parents[2]
SERVER = Path(__file__).with_name("run_server.py")

FIRST = [
    {"op": "insert", "seq": 1, "row": {"id": "1", "v": "one"}},
    {"op": "insert", "seq": 2, "row": {"id": "2", "v": "two ü\u2028"}},
    {"op": "update", "half": "before", "seq": 9, "row": {"id": "1", "v": "one"}},
    {"op": "noise"},
]
SECOND = [
    {"op": "update", "half": "after", "seq": 9, "row": {"id": "1", "v": "changed"}},
    {"op": "update", "half": "before", "seq": 12, "row": {"id": "2", "v": "two"}},
    {"op": "insert", "seq": 10, "row": {"id": "3", "v": "three"}},
    {"op": "insert", "seq": 11, "table": "u", "row": {"id": "1", "w": "other"}},
    {"op": "delete", "seq": 13, "row": {"id": "2"}},
]

SETTINGS = {"spark.master": "local[1]", "spark.sql.shuffle.partitions": "1", **INTERPRETED}

VOLATILE = {"runs": {"time", "report", "result"}}
"""Columns that differ from run to run."""

POINTS = [
    "archive:append:during",
    "archive:stamp:after",
    "archive:move:after",
    "changes:files:before",
    "changes:append:after",
    "changes:overwrite:after",
    "changes:move:after",
    "outbox:append:during",
    "outbox:move:before",
    "outbox:move:after",
    "shop_t:sql:after",
    "merges:append:after",
    "merges:stamp:after",
    "shop_t:move:after",
    "runs:append:after",
    "runs:move:after",
    "published:append:before",
    "published:move:before",
    "published:move:after",
]
"""Where runs are killed, in the order in which a batch passes them."""


class Run:
    """A run of a migration as a process of its own; ended with the block.

    Attributes:
        pid: of the process.
        said: the file with what it says.
        returncode: how it ended, None while it runs.
    """

    def __init__(self, pid: int, said: Path, ended: Callable[[float], int]) -> None:
        # Its group is killed: 0 and 1 would be that of the tests, and everything.
        assert pid > 1
        self.pid = pid
        self.said = said
        self.returncode: int | None = None
        self._ended = ended

    def wait(self, seconds: float) -> int:
        """How it ends within some seconds."""
        if self.returncode is None:
            self.returncode = self._ended(seconds)
        return self.returncode

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave nothing of it behind, neither the JVM nor Spark's workers."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait(60)


class RunServer:
    """Starts such runs, one at a time, out of a process that has loaded what they need."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._answers: queue.Queue[str] = queue.Queue()
        self._number = 0
        paths = os.pathsep.join([str(PROJECT), str(PROJECT / "spark_jobs")])
        self._process = subprocess.Popen(
            [sys.executable, str(SERVER)],
            env={**os.environ, "PYTHONPATH": paths},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self._process.stdout:
            self._answers.put(line)

    def start(self, *arguments: str) -> Run:
        """Start a run with these arguments of `disturbed_run.py`."""
        self._number += 1
        said = self._folder / f"run-{self._number}.log"
        number = self._number
        order = {"number": number, "arguments": arguments, "said": str(said)}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        pid = self._answer(number, "begun", 600)
        return Run(pid, said, lambda seconds: self._answer(number, "ended", seconds))

    def _answer(self, number: int, what: str, seconds: float) -> int:
        """What the server says of a run; of an earlier one that took too long it says it later."""
        deadline = time.monotonic() + seconds
        while True:
            line = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
            run, said, value = line.split()
            if (int(run), said) == (number, what):
                return int(value)

    def stop(self) -> None:
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


class Place:
    """A folder with a migration, its source and its lake."""

    spark: SparkSession
    server: RunServer

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "in").mkdir(parents=True)
        self.spec = folder / "demo.yaml"
        self.spec.write_text(
            json.dumps(
                {
                    "name": "demo",
                    "source": {
                        "files": {"path": "in", "topic": "shop"},
                        "envelope": "tiny",
                    },
                    "publish": [{"envelope": "canal", "files": {"path": "out"}}],
                    "quality": {"max_refused_share": 1},
                    "lake": {"warehouse": "lake"},
                    "spark": SETTINGS,
                }
            )
        )

    def feed(self, name: str, messages: list[dict]) -> None:
        lines = [json.dumps(message).encode() for message in messages]
        (self.folder / "in" / f"{name}.jsonl").write_bytes(b"\n".join([*lines, b"\xff bad"]))

    def start(self, *arguments: str) -> Run:
        return self.server.start(str(self.spec), *arguments)

    def killed(self, batch: str, point: str) -> bool:
        """Run a batch that kills itself at a point; whether it came there."""
        with self.start(batch, "--kill", point) as run:
            code = run.wait(600)
        assert code in (0, -signal.SIGKILL), (point, run.said.read_text())
        return code != 0

    def whole(self, batch: str) -> Waybill:
        return run_migration(str(self.spec), batch=batch, spark=self.spark)

    def lake(self) -> dict[str, dict[str, list[str]]]:
        """Rows, stamps and branches of every table, without what differs from run to run.

        Paths are as seen from the folder.
        """
        lake = Lake.open(self.spark, load_migration(self.spec))
        names = [(space, name) for space, held in lake.tables().items() for name in held]
        return {name: self._shown(lake, f"lake.{space}.{name}", name) for space, name in names}

    def _shown(self, lake: Lake, table: str, name: str) -> dict[str, list[str]]:
        rows = lake.read(table)
        kept = [column for column in rows.columns if column not in VOLATILE.get(name, ())]
        stages = ("snapshot", "convert", "publish", "validate")
        return {
            "rows": sorted(
                text.replace(str(self.folder), "") for text in rows.select(kept).toJSON().collect()
            ),
            "stamps": sorted(f"{commit.stage} {commit.batch}" for commit in lake.commits(table)),
            "branches": [branch.name for s in stages for branch in lake.waiting(table, s)],
        }

    def published(self) -> dict[str, bytes]:
        files = (path for path in (self.folder / "out").rglob("*") if path.is_file())
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in sorted(files)}


@pytest.fixture(scope="module")
def new_place(tmp_path_factory) -> Iterator[Callable[[str], Place]]:
    """Makes a place with one batch to come; they share one Spark session."""
    with pytest.MonkeyPatch.context() as patch:
        paths = [str(PROJECT), os.environ.get("PYTHONPATH", "")]
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
        patch.setitem(registry.MODULES, "tiny", "tests.spark.tiny_envelope")
        started: list[SparkSession] = []
        server = RunServer(tmp_path_factory.mktemp("runs"))

        def make(name: str) -> Place:
            place = Place(tmp_path_factory.mktemp(name) / "place")
            place.feed("1", FIRST)
            if not started:
                started.append(start_session(load_migration(place.spec), "tests"))
            place.spark, place.server = started[0], server
            return place

        try:
            yield make
        finally:
            server.stop()
            for session in started:
                session.stop()


@pytest.fixture(scope="module")
def undisturbed(new_place: Callable[[str], Place]) -> Place:
    place = new_place("undisturbed")
    place.whole("b1")
    place.feed("2", SECOND)
    place.whole("b2")
    return place


def same(place: Place, other: Place) -> None:
    one, two = place.lake(), other.lake()
    assert set(one) == set(two)
    for table in one:
        assert one[table] == two[table], table
    # Parts are named by batch and part; a manifest may tell the time.
    assert place.published().keys() == other.published().keys()
    for name, content in place.published().items():
        if "manifest" not in name:
            assert content == other.published()[name], name


@pytest.mark.parametrize("part", range(1, 9))
def test_a_batch_killed_at_every_eighth_point_comes_out_whole(
    new_place, undisturbed: Place, part: int
) -> None:
    place = new_place("killed")
    place.whole("b1")
    place.feed("2", SECOND)
    missed = [point for point in POINTS[part - 1 :: 8] if not place.killed("b2", point)]
    assert missed == []
    place.whole("b2")
    same(place, undisturbed)


@pytest.mark.parametrize("point", ["changes:append:after", "merges:append:after"])
def test_a_batch_killed_and_followed_by_another(new_place, undisturbed: Place, point: str) -> None:
    """The next batch takes over what the killed one left, whatever it was."""
    place = new_place("followed")
    assert place.killed("b1", point)
    place.feed("2", SECOND)
    assert place.killed("b2", "changes:move:after")
    place.whole("b3")
    assert content(place) == content(undisturbed)


MAPPED_POINTS = [
    # While the new target gets the rows of the tables: some, all, and their messages.
    "changes:append:after",
    "changes:move:after",
    "outbox:move:after",
    # The batch itself: with the deletes of the emptied shard, before the verdict, and when sent.
    "changes:move:before",
    "merges:stamp:after",
    "published:append:before",
]


@pytest.mark.parametrize("part", [1, 2])
def test_a_batch_with_shards_a_mask_and_a_new_target_killed_at_several_points(
    new_place, part: int
) -> None:
    """Readers who know nothing of the merge have the rows of the database, each message once."""
    place = new_place("mapped")

    def bring(number: int) -> str:
        lines = [event.message for event in mapped_shards.BATCHES[number - 1]]
        (place.folder / "in" / f"{number}.jsonl").write_bytes(b"\n".join(lines))
        return f"b{number}"

    place.spec.write_text(mapped_shards.migration(SETTINGS, mapped_shards.FIRST))
    place.whole(bring(1))
    targets = mapped_shards.FIRST, mapped_shards.NEW
    place.spec.write_text(mapped_shards.migration(SETTINGS, *targets))
    second = bring(2)
    missed = [point for point in MAPPED_POINTS[part - 1 :: 2] if not place.killed(second, point)]
    assert missed == []
    place.whole(second)
    third = bring(3)
    assert place.killed(third, "changes:move:after")
    place.whole(third)

    def sent(target: str, *batches: str) -> list[bytes]:
        files = (sorted((place.folder / target / one).glob("part-*.jsonl")) for one in batches)
        return [
            line for found in files for file in found for line in file.read_bytes().splitlines()
        ]

    first = sent("out", "b1", second, third)
    new = sent("new", f"{second}-bootstrap", second, third)
    rows = mapped_shards.database()
    assert mapped_shards.by_arrival(first) == rows
    assert mapped_shards.by_id(new) == mapped_shards.by_id(new[::-1]) == rows
    # Five rows each; three deletes of a TRUNCATE and three changes; two, and one that is void.
    assert len(set(first)) == len(first) == len(set(new)) == len(new) == 5 + 6 + 2
    assert all(b"again" not in line and b"changed" not in line for line in [*first, *new])


def content(place: Place) -> dict[str, list[str]]:
    """Rows of merged tables without the batch that wrote them."""
    tables = {name: shown for name, shown in place.lake().items() if name.startswith("shop_")}
    return {
        name: [re.sub(r'"_waybill_batch":"[^"]*",?', "", row) for row in shown["rows"]]
        for name, shown in tables.items()
    }


def wait_for(path: Path, run: Run) -> None:
    deadline = time.monotonic() + 240
    while not path.exists():
        assert psutil.pid_exists(run.pid), run.said.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("other", "point"), [("b1", "changes:append:after"), ("b2", "changes:move:before")]
)
def test_one_of_two_runs_at_once_loses_cleanly(
    new_place, tmp_path: Path, other: str, point: str
) -> None:
    """With the same batch the later one takes over; with two batches the first to commit wins."""
    place = new_place("two")
    signs = tmp_path / "signs"
    signs.mkdir()
    with place.start("b1", "--pause", point, str(signs)) as slow:
        wait_for(signs / "reached", slow)
        place.whole(other)
        (signs / "go").touch()
        assert slow.wait(240) == 1
    assert re.search(
        r"^ConflictError: WB-7001: another run .*(moved|took over)",
        slow.said.read_text(),
        re.MULTILINE,
    )
    before = place.lake()
    assert before["changes"]["branches"] == []
    place.whole("b1")
    after = place.lake()
    assert after["shop_t"]["rows"] == before["shop_t"]["rows"]
    assert after["changes"]["rows"] == before["changes"]["rows"]
    # A batch that finds nothing to send is on record like any other, and puts no file.
    assert after["published"]["stamps"] == sorted({"publish b1", f"publish {other}"})
    assert after["published"]["rows"] == before["published"]["rows"]
    files = sorted(place.published())
    assert len(files) == 2
    assert files[0] == f"out/{other}/manifest.json"
    assert files[1].startswith(f"out/{other}/part-00000-")
