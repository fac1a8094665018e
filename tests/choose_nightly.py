"""Choose which tests of a phase run at night only: `python -m tests.choose_nightly spark`.

It runs all of them, notes which lines and branches of the library each one reaches in the process
of the tests, and what it costs, and lets as cheap a choice as it finds run by day that reaches
nearly all (`SHARE`) that all of them reach, with at least one test of each file, all that are cheap
anyway, and those whose point is the values and not the lines (`KEPT`). The others go to
`tests/nightly.txt`. A test that is added later runs by day until somebody chooses again.
"""

from __future__ import annotations

import sqlite3
import sys
from argparse import ArgumentParser
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory

import pytest
from coverage import Coverage

from bench.cpu import cpu_seconds
from tests.nightly import CHOSEN

PROJECT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Phase:
    """Tests that run in one process.

    Attributes:
        paths: their folders and files.
        cheap: those that take less, in processor seconds, run by day.
    """

    paths: tuple[str, ...]
    cheap: float


PHASES = {
    "spark": Phase(("tests/spark",), 2.0),
    "kafka": Phase(("tests/kafka",), 2.0),
    "s3": Phase(("tests/s3",), 2.0),
    "verify": Phase(("tests/verify",), 2.0),
}
"""Phases whose tests do most of their work in the process that runs them, each by lines of its own.

Those of `fast` run the same lines with other values, or commands in other processes.
"""

SHARE = 0.98
"""Of the lines and branches that all tests of a phase reach, those by day reach so many.

The rest costs as much as these.
"""

KEPT = (
    "tests/kafka/test_publish_killed.py",
    "tests/spark/merge/test_merge_histories.py",
    "tests/spark/merge/test_merge_values.py",
)
"""Files and folders whose tests run the same lines with other values, or kill what runs them."""

Reached = tuple[int, int, int]
"""A file's number, and the lines that follow each other there."""


class Watch:
    """Which lines and branches each test reaches, and its processor seconds with Java's."""

    def __init__(self, folder: Path) -> None:
        sources = [str(PROJECT / name) for name in ("spark_jobs/waybill", "plugins")]
        self.file = folder / "coverage"
        self._coverage = Coverage(
            data_file=str(self.file), branch=True, source=sources, config_file=False
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
            "SELECT context, file_id, fromno, tono FROM arc JOIN context ON context_id = context.id"
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


def kept_of(seconds: Mapping[str, float], cheap: float) -> set[str]:
    """The tests that run by day whatever they reach."""
    return {test for test, used in seconds.items() if used < cheap or _below(test, KEPT)}


def _file(test: str) -> str:
    return test.split("::", 1)[0]


def _below(test: str, paths: Iterable[str]) -> bool:
    return any(PurePath(_file(test)).is_relative_to(path) for path in paths)


def replaced(lines: Iterable[str], phase: Phase, tests: Iterable[str]) -> list[str]:
    """The tests that run at night only, with others of one phase.

    Args:
        lines: those that did until now.
        phase: the phase.
        tests: those of it that do from now on.
    """
    return sorted({*tests, *(line for line in lines if not _below(line, phase.paths))})


def choose(phase: Phase) -> int:
    """Run all tests of a phase and write the choice; it fails if one of them does."""
    with TemporaryDirectory() as folder:
        watch = Watch(Path(folder))
        result = pytest.main(["-q", *phase.paths], plugins=[watch])
        if result != pytest.ExitCode.OK:
            return int(result)
        reached = reached_by(watch.file, watch.seconds)
    chosen = by_day(reached, watch.seconds, kept_of(watch.seconds, phase.cheap), SHARE)
    lines = CHOSEN.read_text(encoding="utf-8").splitlines()
    nightly = replaced(lines, phase, reached.keys() - chosen)
    CHOSEN.write_text("".join(f"{test}\n" for test in nightly), encoding="utf-8")
    used, every = (sum(map(watch.seconds.__getitem__, names)) for names in (chosen, reached))
    line = f"{len(chosen)} of {len(reached)} tests run by day: {used:.0f} of {every:.0f} s\n"
    sys.stdout.write(line)
    return 0


if __name__ == "__main__":
    parser = ArgumentParser(prog="python -m tests.choose_nightly", description=__doc__)
    parser.add_argument("phase", choices=PHASES)
    sys.exit(choose(PHASES[parser.parse_args().phase]))
