"""Choose which tests of Spark and of servers run at night only: `python -m tests.choose_nightly`.

It runs all of them, notes which lines and branches of the library each one reaches in the process
of the tests, and what it costs, and lets as cheap a choice as it finds run by day that reaches
nearly all (`SHARE`) that all of them reach, with at least one test of each file, all that are cheap
anyway (`CHEAP`), and those whose point is the values and not the lines (`KEPT`). The others go to
`tests/nightly.txt`. A test that is added later runs by day until somebody chooses again.

What a phase reached is kept until then, so that it is not run again after another one failed, and
`python -m tests.choose_nightly --record PHASE` runs one beside another.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from argparse import ArgumentParser
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from itertools import chain
from pathlib import Path, PurePath

import pytest
from coverage import Coverage

from bench.cpu import cpu_seconds
from tests.nightly import CHOSEN, is_named

PROJECT = Path(__file__).resolve().parents[1]
RECORDS = PROJECT / "build" / "choose_nightly"

PHASES = {
    "spark": "tests/spark",
    "kafka": "tests/kafka",
    "s3": "tests/s3",
    "verify": "tests/verify",
}
"""Phases whose tests do most of their work in the process that runs them, each by lines of its own.

Those of `fast` run the same lines with other values, or commands in other processes.
"""

CHEAP = 2.0
"""Tests that take less, in processor seconds, run by day."""

SHARE = 0.95
"""Of the lines and branches that all tests reach, those by day reach so many.

The rest costs as much as these.
"""

KEPT = (
    "tests/kafka/test_publish_killed.py",
    "tests/spark/merge/test_merge_histories.py",
    "tests/spark/merge/test_merge_values.py",
)
"""Files and folders whose tests run the same lines with other values, or kill what runs them."""

Reached = tuple[str, int, int]
"""A file, and the lines that follow each other there."""


class Watch:
    """Which lines and branches each test reaches, and its processor seconds with Java's."""

    def __init__(self, file: Path) -> None:
        sources = [str(PROJECT / name) for name in ("spark_jobs/waybill", "plugins")]
        self._coverage = Coverage(
            data_file=str(file), branch=True, source=sources, config_file=False
        )
        self.seconds: dict[str, float] = {}

    def pytest_configure(self) -> None:
        self._coverage.start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._coverage.switch_context(item.nodeid)
        before = cpu_seconds()
        result = yield
        self.seconds[item.nodeid] = cpu_seconds() - before
        return result

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()


def reached_by(file: Path, tests: Iterable[str]) -> dict[str, frozenset[Reached]]:
    """What each test reached.

    Args:
        file: what coverage wrote (its documentation, "Coverage.py database schema").
        tests: the tests.
    """
    found: dict[str, set[Reached]] = {test: set() for test in tests}
    with closing(sqlite3.connect(file)) as written:
        for test, *arc in written.execute(
            "SELECT context, path, fromno, tono FROM arc"
            " JOIN context ON context_id = context.id JOIN file ON file_id = file.id"
        ):
            if test in found:
                found[test].add((*arc,))
    return {test: frozenset(arcs) for test, arcs in found.items()}


def by_day(
    reached: Mapping[str, frozenset[Reached]],
    seconds: Mapping[str, float],
    kept: Collection[str] = (),
    share: float = 1.0,
) -> set[str]:
    """The tests of a cheap choice that reaches what all of them reach, or nearly all of it.

    Args:
        reached: what each test reaches.
        seconds: what each costs.
        kept: tests that are chosen anyway.
        share: how much of all that is reached the chosen ones reach at least.

    Returns:
        The chosen ones: of each file one at least.
    """
    cost = {test: max(seconds.get(test, 0.0), 0.1) for test in reached}
    chosen = [*kept]
    every = {*chain.from_iterable(reached.values())}
    left = every.difference(*map(reached.__getitem__, kept))
    spare = round(len(every) * (1 - share))
    while len(left) > spare:
        best = max(reached, key=lambda test: len(reached[test] & left) / cost[test])
        chosen.append(best)
        left -= reached[best]
    spare -= len(left)
    times = Counter(chain.from_iterable(reached[test] for test in chosen))
    for test in sorted({*chosen}.difference(kept), key=cost.__getitem__, reverse=True):
        alone = sum(times[one] == 1 for one in reached[test])
        if alone <= spare:
            spare -= alone
            times.subtract(reached[test])
            chosen.remove(test)
    files: dict[str, list[str]] = defaultdict(list)
    for test in reached:
        files[_file(test)].append(test)
    missing = files.keys() - {_file(test) for test in chosen}
    return {*chosen, *(min(files[file], key=cost.__getitem__) for file in missing)}


def kept_of(seconds: Mapping[str, float]) -> set[str]:
    """The tests that run by day whatever they reach."""
    return {test for test, used in seconds.items() if used < CHEAP or _below(test, KEPT)}


def _file(test: str) -> str:
    return test.split("::", 1)[0]


def _below(test: str, paths: Iterable[str]) -> bool:
    return any(PurePath(_file(test)).is_relative_to(path) for path in paths)


def record(phase: str, folder: Path) -> int:
    """Run all tests of a phase and keep what they reached; it fails if one of them does."""
    folder.mkdir(parents=True, exist_ok=True)
    watch = Watch(folder / f"{phase}.coverage")
    result = pytest.main(["-q", PHASES[phase]], plugins=[watch])
    if result == pytest.ExitCode.OK:
        _seconds(phase, folder).write_text(json.dumps(watch.seconds), encoding="utf-8")
    return int(result)


def choose(folder: Path) -> str:
    """Write the choice among the tests of all phases, and say what it costs."""
    seconds: dict[str, float] = {}
    reached: dict[str, frozenset[Reached]] = {}
    for phase in PHASES:
        used = json.loads(_seconds(phase, folder).read_text(encoding="utf-8"))
        seconds |= used
        candidates = [test for test in used if not is_named(*test.split("::", 1))]
        reached |= reached_by(folder / f"{phase}.coverage", candidates)
    chosen = by_day(reached, seconds, kept_of({test: seconds[test] for test in reached}), SHARE)
    nightly = sorted(reached.keys() - chosen)
    CHOSEN.write_text("".join(f"{test}\n" for test in nightly), encoding="utf-8")
    lines = []
    for phase, paths in PHASES.items():
        every = [test for test in reached if _below(test, (paths,))]
        some = [test for test in every if test in chosen]
        used, all_used = (sum(map(seconds.__getitem__, names)) for names in (some, every))
        lines.append(f"{phase}: {len(some)} of {len(every)} by day, {used:.0f} of {all_used:.0f} s")
    return "\n".join(lines)


def _seconds(phase: str, folder: Path) -> Path:
    return folder / f"{phase}.json"


def main() -> int:
    """Run what has no record yet, and choose; or run one phase."""
    parser = ArgumentParser(prog="python -m tests.choose_nightly", description=__doc__)
    parser.add_argument("--record", choices=PHASES, help="Run one phase and do not choose.")
    parser.add_argument("--folder", type=Path, default=RECORDS, help="Where the records are.")
    told = parser.parse_args()
    if told.record:
        return record(told.record, told.folder)
    for phase in PHASES:
        if not _seconds(phase, told.folder).exists():
            # A Spark and its settings last as long as the process.
            again = [sys.executable, "-m", "tests.choose_nightly", "--record", phase]
            subprocess.run([*again, "--folder", str(told.folder)], check=True)
    sys.stdout.write(f"{choose(told.folder)}\n")
    for phase in PHASES:
        # The next choice is about other tests of other code.
        _seconds(phase, told.folder).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
