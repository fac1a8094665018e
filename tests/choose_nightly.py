"""Choose which tests of Spark run at night only: `python -m tests.choose_nightly`.

It runs all of them, notes which lines and branches of the library each one reaches in the driver,
and what it costs, and lets as cheap a choice as it finds run by day that reaches all that all of
them reach, with at least one test of each file, all that are cheap anyway, and those whose point is
the values and not the lines (`KEPT`). The others go to `tests/nightly.txt`. A test that is added
later runs by day until somebody chooses again.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from coverage import Coverage, CoverageData

from bench.cpu import cpu_seconds
from tests.nightly import CHOSEN

PROJECT = Path(__file__).resolve().parents[1]

CHEAP = 2.0
"""Tests that take less, in processor seconds, run by day."""

KEPT = frozenset({"tests/spark/merge/test_merge_values.py"})
"""Files whose tests run the same lines with other values."""

Reached = tuple[str, int, int]
"""A file, and the lines that follow each other there."""


class Watch:
    """Which lines and branches each test reaches, and its processor seconds with Java's."""

    def __init__(self, folder: Path) -> None:
        sources = [str(PROJECT / name) for name in ("spark_jobs/waybill", "plugins")]
        self._coverage = Coverage(
            data_file=str(folder / "coverage"), branch=True, source=sources, config_file=False
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

    @property
    def data(self) -> CoverageData:
        """What was reached, by the names of tests."""
        return self._coverage.get_data()


def reached_by(data: CoverageData) -> dict[str, frozenset[Reached]]:
    """What each test reached."""
    found: dict[str, frozenset[Reached]] = {}
    for test in filter(None, data.measured_contexts()):
        data.set_query_context(test)
        arcs = ((file, data.arcs(file) or ()) for file in data.measured_files())
        found[test] = frozenset((file, *arc) for file, several in arcs for arc in several)
    return found


def by_day(
    reached: Mapping[str, frozenset[Reached]],
    seconds: Mapping[str, float],
    kept: Collection[str] = (),
) -> set[str]:
    """The tests of a cheap choice that reaches all that all of them reach.

    Args:
        reached: what each test reaches.
        seconds: what each costs.
        kept: tests that are chosen anyway.

    Returns:
        The chosen ones: of each file one at least.
    """
    cost = {test: max(seconds.get(test, 0.0), 0.1) for test in reached}
    chosen = [*kept]
    left = {*chain.from_iterable(reached.values())}.difference(*map(reached.__getitem__, kept))
    while left:
        best = max(reached, key=lambda test: len(reached[test] & left) / cost[test])
        chosen.append(best)
        left -= reached[best]
    times = Counter(chain.from_iterable(reached[test] for test in chosen))
    for test in sorted({*chosen}.difference(kept), key=cost.__getitem__, reverse=True):
        if all(times[one] > 1 for one in reached[test]):
            times.subtract(reached[test])
            chosen.remove(test)
    files: dict[str, list[str]] = defaultdict(list)
    for test in reached:
        files[_file(test)].append(test)
    missing = files.keys() - {_file(test) for test in chosen}
    return {*chosen, *(min(files[file], key=cost.__getitem__) for file in missing)}


def kept_of(seconds: Mapping[str, float]) -> set[str]:
    """The tests that run by day whatever they reach."""
    return {test for test, used in seconds.items() if used < CHEAP or _file(test) in KEPT}


def _file(test: str) -> str:
    return test.split("::", 1)[0]


def write(tests: Iterable[str]) -> None:
    """Let these run at night only."""
    CHOSEN.write_text("".join(f"{test}\n" for test in sorted(tests)), encoding="utf-8")


def main() -> int:
    """Run all tests of Spark and write the choice; it fails if one of them does."""
    with TemporaryDirectory() as folder:
        watch = Watch(Path(folder))
        result = pytest.main(["-q", "tests/spark"], plugins=[watch])
        if result != pytest.ExitCode.OK:
            return int(result)
        reached = reached_by(watch.data)
    chosen = by_day(reached, watch.seconds, kept_of(watch.seconds))
    write(reached.keys() - chosen)
    used, every = (sum(map(watch.seconds.__getitem__, names)) for names in (chosen, reached))
    line = f"{len(chosen)} of {len(reached)} tests run by day: {used:.0f} of {every:.0f} s\n"
    sys.stdout.write(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
