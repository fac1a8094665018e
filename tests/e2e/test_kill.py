"""Killed at any point and run again, a batch leaves the lake that an undisturbed run leaves."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(3600)]

PROJECT = Path(__file__).resolve().parents[2]
DRIVER = Path(__file__).with_name("disturbed_run.py")

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

POINTS = [
    "archive:append:during",
    "archive:stamp:after",
    "archive:move:after",
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


def end(process: subprocess.Popen[bytes]) -> None:
    """Leave nothing of a run behind, neither the JVM nor Spark's workers."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class Place:
    """A folder with a migration, its source and its lake."""

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
                    "spark": {"spark.master": "local[1]", "spark.sql.shuffle.partitions": "1"},
                }
            )
        )

    def feed(self, name: str, messages: list[dict]) -> None:
        lines = [json.dumps(message).encode() for message in messages]
        (self.folder / "in" / f"{name}.jsonl").write_bytes(b"\n".join([*lines, b"\xff bad"]))

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(PROJECT), str(PROJECT / "spark_jobs")]),
        }
        command = [sys.executable, str(DRIVER), arguments[0], str(self.spec), *arguments[1:]]
        return subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self, *arguments: str) -> tuple[int, bytes, str]:
        with self.start(*arguments) as process:
            try:
                out, err = process.communicate(timeout=600)
            finally:
                end(process)
        return process.returncode, out, err.decode()

    def whole(self, batch: str) -> None:
        code, _, err = self.run("run", batch)
        assert code == 0, err

    def lake(self) -> dict[str, Any]:
        """What the tables hold, with paths as seen from the folder."""
        code, out, err = self.run("show")
        assert code == 0, err
        return json.loads(out.replace(str(self.folder).encode(), b""))

    def published(self) -> dict[str, bytes]:
        files = (path for path in (self.folder / "out").rglob("*") if path.is_file())
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in sorted(files)}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Place:
    place = Place(tmp_path_factory.mktemp("undisturbed"))
    place.feed("1", FIRST)
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


def test_a_batch_killed_at_every_point_comes_out_whole(tmp_path: Path, undisturbed: Place) -> None:
    place = Place(tmp_path / "killed")
    place.feed("1", FIRST)
    place.whole("b1")
    place.feed("2", SECOND)
    missed = []
    for point in POINTS:
        code, _, err = place.run("run", "b2", "--kill", point)
        if code == 0:
            missed.append(point)
        else:
            assert code == -signal.SIGKILL, (point, err)
    assert missed == []
    place.whole("b2")
    same(place, undisturbed)


@pytest.mark.parametrize("seconds", [3.0, 6.0])
def test_a_batch_killed_and_followed_by_another(
    tmp_path: Path, undisturbed: Place, seconds: float
) -> None:
    """The next batch takes over what the killed one left, whatever it was."""
    place = Place(tmp_path / "killed")
    place.feed("1", FIRST)
    place.run("run", "b1", "--kill-after", str(seconds))
    place.feed("2", SECOND)
    place.run("run", "b2", "--kill", "changes:move:after")
    place.whole("b3")
    assert content(place) == content(undisturbed)


def content(place: Place) -> dict[str, list[str]]:
    """Rows of merged tables without the batch that wrote them."""
    tables = {name: shown for name, shown in place.lake().items() if name.startswith("shop_")}
    return {
        name: [re.sub(r'"_waybill_batch":"[^"]*",?', "", row) for row in shown["rows"]]
        for name, shown in tables.items()
    }


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 240
    while not path.exists():
        assert process.poll() is None, process.communicate()[1].decode()
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("other", "point"), [("b1", "changes:append:after"), ("b2", "changes:move:before")]
)
def test_one_of_two_runs_at_once_loses_cleanly(tmp_path: Path, other: str, point: str) -> None:
    """With the same batch the later one takes over; with two batches the first to commit wins."""
    place = Place(tmp_path / "two")
    place.feed("1", FIRST)
    signs = tmp_path / "signs"
    signs.mkdir()
    with place.start("run", "b1", "--pause", point, str(signs)) as slow:
        try:
            wait_for(signs / "reached", slow)
            place.whole(other)
            (signs / "go").touch()
            _, err = slow.communicate(timeout=240)
        finally:
            end(slow)
    assert slow.returncode == 1
    assert re.search(r"^ConflictError: another run .*(moved|took over)", err.decode(), re.MULTILINE)
    before = place.lake()
    assert before["changes"]["branches"] == []
    place.whole("b1")
    after = place.lake()
    assert after["shop_t"]["rows"] == before["shop_t"]["rows"]
    assert after["changes"]["rows"] == before["changes"]["rows"]
    # A batch that finds nothing to send is on record like any other, and puts no file.
    assert after["published"]["stamps"] == sorted({"publish b1", f"publish {other}"})
    assert after["published"]["rows"] == before["published"]["rows"]
    assert set(place.published()) == {f"out/{other}/manifest.json", f"out/{other}/part-00000.jsonl"}
