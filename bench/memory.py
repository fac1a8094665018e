"""Peak memory of one conversion, for a small and a large input side by side.

`python -m bench --only memory` prints the table: what `waybill convert` takes, and what the Spark
stages snapshot and convert take, per process. Both must stay where they are when the input grows.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from bench.sampler import Sampler
from bench.topics import DECLARED, WRITERS, changes

SOURCE, TARGET = "canal", "debezium-json"
BYTES = 1_000_000


class PeakByProcess(Sampler):
    """Peaks of resident memory, sampled, in MiB: this process, the JVM, the largest Python worker.

    What a worker shares with the process that it was forked from counts for each.

    Args:
        apart: a child that is left out with its own children: a server that was started beside.
    """

    def __init__(self, apart: int | None = None) -> None:
        super().__init__()
        self._apart = apart
        self.peaks = {"own": 0.0, "jvm": 0.0, "worker": 0.0}

    def sample(self) -> None:
        """See `Sampler`."""
        me = psutil.Process()
        self._take("own", me)
        for child in me.children(recursive=True):
            try:
                if self._apart is not None and self._apart in (child.pid, child.ppid()):
                    continue
                self._take("jvm" if "java" in child.name() else "worker", child)
            except psutil.NoSuchProcess:
                continue

    def _take(self, kind: str, process: psutil.Process) -> None:
        self.peaks[kind] = max(self.peaks[kind], process.memory_info().rss / 2**20)


@contextmanager
def topic_of(folder: Path, size: int) -> Iterator[tuple[Path, int]]:
    """A file of so many megabytes, no two messages alike, and how many it holds; then deleted."""
    folder.mkdir(parents=True, exist_ok=True)
    path, written, messages = folder / f"memory-{size}.jsonl", 0, 0
    write = WRITERS[SOURCE]
    try:
        with path.open("wb") as out:
            for number, before, after in changes(sys.maxsize, 100_000):
                for value in write(number, before, after):
                    written += out.write(value + b"\n")
                    messages += 1
                if written >= size * BYTES:
                    break
        yield path, messages
    finally:
        path.unlink(missing_ok=True)


def in_process(path: Path, scratch: Path) -> None:
    """`waybill convert`, one process, lines to lines."""
    from waybill.inprocess.job import ConvertJob
    from waybill.inprocess.run import convert_file
    from waybill.spec.migration import Table, table_rules

    tables = {name: Table.model_validate(table) for name, table in DECLARED.items()}
    output = str(scratch / "out.jsonl")
    convert_file(ConvertJob(SOURCE, TARGET, str(path), output, rules=table_rules(tables)))


def spark(path: Path, scratch: Path) -> None:
    """The stages snapshot and convert over a lake of their own, with the settings of every job."""
    from waybill.jobs import run_migration
    from waybill.spec.migration import Migration

    spec = {
        "name": "memory",
        "source": {"files": {"path": str(path)}, "envelope": SOURCE},
        "publish": [{"envelope": TARGET, "files": {"path": str(scratch / "out")}}],
        "lake": {"warehouse": str(scratch / "lake")},
        "spark": {"spark.master": "local[2]"},
    }
    run_migration(Migration.model_validate(spec), until="convert")


WAYS = {"in_process": in_process, "spark": spark}


def main(way: str, path: str) -> None:
    """Convert one file one way and print seconds and peaks as JSON."""
    folder = Path(path).parent
    with tempfile.TemporaryDirectory(dir=folder) as scratch, PeakByProcess() as memory:
        os.environ["SPARK_LOCAL_DIRS"] = scratch
        started = time.monotonic()
        WAYS[way](Path(path), Path(scratch))
        seconds = time.monotonic() - started
    peaks = {name: round(peak) for name, peak in memory.peaks.items()}
    print(json.dumps({"seconds": round(seconds, 1), **peaks}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
