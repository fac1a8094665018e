"""Tests that run at night only, as all of them take too long for every change.

Those of `NIGHTLY` show once more, in many seconds of Spark or of a server, what a cheaper test or
another of their cases shows by day. Of files with many tests of one matter (`HALVED`) every other
one runs by day, always the same, drawn by its name. Of the cases of tests with an envelope, or two,
in each (`SAMPLED`, `ONCE`) a few run by day. Of the tests of Spark and of servers those run at
night only that reach hardly anything which others do not reach, too (`CHOSEN`). `make test-nightly`
runs all, and so does a phase alone (`make test-spark`): run that of what you have changed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from zlib import crc32

import pytest

NIGHTLY: dict[str, tuple[str, ...]] = {
    "tests/dags/test_lineage.py": ("a_held_batch_tells",),
    "tests/e2e/test_demo_command.py": ("nothing_is_left_when_it_is_killed", "a_second_one_in"),
    "tests/e2e/test_demo_dags.py": ("",),
    "tests/kafka/test_bootstrap.py": ("",),
    "tests/kafka/test_commands.py": ("from_a_topic_equals_the_one_from_files",),
    "tests/kafka/test_publish.py": (
        "publishers_that_take_over_from_each_other_again_and_again",
        "a_broker_that_is_away_for_a_while",
    ),
    "tests/kafka/test_publish_killed.py": ("a_batch_killed_and_followed_by_the_next",),
    "tests/kafka/test_reader.py": ("a_broker_that_restarts_in_mid_read",),
    "tests/kafka/test_snapshot.py": ("another_kind_of_source", "an_archive_from_before"),
    "tests/kafka/test_schema_registry_runs.py": ("",),
    "tests/kafka/test_verify_published.py": ("sent_to_it[False]",),
    "tests/killed/test_campaign.py": ("",),
    "tests/killed/test_kill.py": (
        "comes_out_whole[2]",
        "comes_out_whole[3]",
        "comes_out_whole[4]",
        "comes_out_whole[5]",
        "comes_out_whole[6]",
        "comes_out_whole[7]",
        "comes_out_whole[8]",
        "followed_by_another",
        "at_several_points",
        "loses_cleanly[b1",
    ),
    "tests/s3/test_catalogs.py": ("a_migration_on_a_rest_catalog",),
    "tests/s3/test_outages.py": ("a_full_disk",),
    "tests/s3/test_migration.py": ("upkeep_removes_objects",),
    "tests/s3/test_rewrites.py": ("",),
    "tests/stack/test_branches.py": ("",),
    "tests/stack/test_cluster.py": ("",),
    "tests/unit/bulk/test_native.py": ("without_a_place_each_process",),
    "tests/unit/cli/test_init.py": ("a_recorded_stream_that_is_packed",),
    "tests/verify/test_binlog_servers.py": ("forty_planted_differences", "rows_of_every_type"),
    "tests/verify/test_masks.py": ("a_masked_key[mask1]", "whose_values_have_several_texts"),
    "tests/verify/test_postgresql.py": (
        "stay_so_while_they_are_written",
        "by_the_longest_lag",
        "in_the_number_of_rows",
        "as_of_a_batch",
        "[distinct]",
        "other_names_masks_and_a_condition",
    ),
}
"""Parts of the names of such tests by their file; an empty part is in all of them."""

HALVED = frozenset(
    {
        "tests/browser/test_states.py",
        "tests/consumers/test_flink_events.py",
        "tests/consumers/test_flink_shop.py",
        "tests/consumers/test_postgresql.py",
        "tests/unit/cli/test_init_conversation.py",
        "tests/unit/envelopes/databus/test_bulk.py",
        "tests/unit/envelopes/debezium/test_capture.py",
        "tests/unit/lake/test_without_spark.py",
        "tests/unit/verify/test_pace.py",
    }
)


SAMPLED = (
    "tests/browser/",
    "tests/contract/",
    "tests/hostile/",
    "tests/unit/cli/test_check_proves.py",
    "tests/unit/cli/test_init_envelopes.py",
    "tests/unit/envelopes/",
    "tests/unit/inprocess/test_detect.py",
)
"""Folders and files whose tests have a case for each pair of envelopes, each mapping, each setting,
each golden case, or each page and width."""

WHOLE = frozenset({"tests/contract/test_exact_is_bulk.py::test_reading"})
"""Tests in them of which all cases run by day."""

FEW = 3
"""A test of so many cases is not sampled."""

ONCE = ("tests/consumers/", "tests/contract/test_exact_is_bulk.py::test_writing")
"""Folders and tests of which such cases run by day that in a file each envelope and each table
comes once, and each test."""

CHOSEN = Path(__file__).with_name("nightly.txt")
"""Tests that run at night only, a line each, as `tests.choose_nightly` wrote them."""


def mark(items: list[pytest.Item], root: str) -> None:
    """Mark those of some tests that run at night only.

    Args:
        items: the tests.
        root: the project's folder.
    """
    chosen = frozenset(CHOSEN.read_text(encoding="utf-8").splitlines())
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    nightly: list[pytest.Item] = []
    for item in items:
        file = item.path.as_posix().removeprefix(f"{root}/")
        drawn = file in HALVED and crc32(item.name.encode()) % 2 == 1
        if drawn or is_named(file, item.name) or item.nodeid in chosen:
            nightly.append(item)
        elif file.startswith((*SAMPLED, *ONCE)):
            cases[item.nodeid.partition("[")[0]].append(item)
    came: dict[str, set[object]] = defaultdict(set)
    for test, some in sorted(cases.items(), key=lambda pair: -len(pair[1])):
        if test in WHOLE:
            continue
        values = {item.name: _values(item) for item in some}
        if test.startswith(ONCE):
            file = came[test.partition("::")[0]]
            by_day = each_once(values, file)
            file.update(chain.from_iterable(values[name] for name in by_day))
        else:
            by_day = sampled(values)
        nightly += [item for item in some if item.name not in by_day]
    for item in nightly:
        item.add_marker(pytest.mark.nightly)


def is_named(file: str, name: str) -> bool:
    """Whether a test of a file runs at night whatever the others reach."""
    return any(part in name for part in NIGHTLY.get(file, ()))


def sampled(cases: Mapping[str, Sequence[object]]) -> set[str]:
    """The cases of a test that run by day: of n as many as the root of n, or all if they are few.

    They are drawn by their names, always the same ones, those first that bring most values which
    none has brought yet.

    Args:
        cases: the values of the parameters of each case, by its name.
    """
    least = min(len(cases), max(FEW, math.ceil(math.sqrt(len(cases)))))
    return {name for name, _ in islice(_drawn(cases, ()), least)}


def each_once(cases: Mapping[str, Sequence[object]], came: Collection[object]) -> set[str]:
    """The cases of a test that run by day if each value is to come once: at least one of them.

    Args:
        cases: as for `sampled`, which draws the same way.
        came: values that other tests bring.
    """
    drawn = [*_drawn(cases, came)]
    return {name for name, new in drawn if new} or {drawn[0][0]}


def _drawn(
    cases: Mapping[str, Sequence[object]], came: Collection[object]
) -> Iterator[tuple[str, int]]:
    """All cases, each with how many values it brings that none before it has."""
    left = sorted(cases, key=lambda name: crc32(name.encode()))
    missing = {*chain.from_iterable(cases.values())}.difference(came)
    while left:
        best = max(left, key=lambda name: len(missing.intersection(cases[name])))
        left.remove(best)
        yield best, len(missing.intersection(cases[best]))
        missing.difference_update(cases[best])


def _values(item: pytest.Item) -> list[object]:
    """The values of a case's parameters, each with the parameter's name."""
    spec = getattr(item, "callspec", None)
    given = {} if spec is None else spec.params
    simple = (str, int, float, type(None))
    return [(k, v if isinstance(v, simple) else spec.indices[k]) for k, v in given.items()]
