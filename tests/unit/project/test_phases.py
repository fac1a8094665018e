"""Phases of the tests run beside each other, and one that fails is never passed over."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.nightly import NIGHTLY

PROJECT = Path(__file__).resolve().parents[3]
SCRIPT = PROJECT / "scripts" / "test.sh"

PASSES = "echo all is well"
FAILS = 'echo "tests/s3/test_it.py::test_it" >> "$WAYBILL_FAILURES"; exit 1'
MEETS = "touch {own}; while [ ! -e {other} ]; do sleep 0.05; done"


@pytest.fixture
def run(tmp_path):
    """Runs phases in a project whose Python does for each what it is told to."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(SCRIPT, tmp_path / "scripts")
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)

    def start(**acts: str):
        cases = ""
        for phase, act in acts.items():
            folder = tmp_path / "tests" / phase
            folder.mkdir(parents=True)
            (folder / "test_it.py").touch()
            cases += f"*tests/{phase}*) {act} ;;\n"
        python.write_text(f'#!/bin/sh\necho "asked $*"\ncase "$*" in\n{cases}esac\n')
        python.chmod(0o755)
        return subprocess.run(
            [tmp_path / "scripts" / "test.sh", *acts],
            env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return start


def summary(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """How each phase ended."""
    output = done.stdout.partition("\n== tests")[2].partition("\n== failures")[0]
    lines = [line.split(maxsplit=1) for line in output.splitlines()[1:] if line]
    return {name: how.split("  ")[0] for name, how in lines}


def test_all_that_passes(run):
    done = run(spark=PASSES, s3=PASSES)
    assert done.returncode == 0
    assert summary(done) == {"spark": "passed", "s3": "passed"}
    assert done.stdout.count("all is well") == 2


@pytest.mark.parametrize("order", [("spark", "s3", "killed"), ("s3", "killed", "spark")])
def test_one_that_fails_is_named_and_the_others_end(run, order):
    acts = {"spark": PASSES, "s3": FAILS, "killed": PASSES}
    done = run(**{phase: acts[phase] for phase in order})
    assert done.returncode == 1
    assert summary(done) == {"spark": "passed", "s3": "FAILED", "killed": "passed"}
    assert done.stdout.endswith("== failures\ntests/s3/test_it.py::test_it\n")


def test_what_failed_beside_others_runs_again_alone(run):
    done = run(
        spark=PASSES,
        s3=f'case "$*" in *--last-failed*) echo alone ;; *) {FAILS} ;; esac',
    )
    assert done.returncode == 0
    assert summary(done) == {"spark": "passed", "s3": "passed alone"}
    assert "== failed beside others\ntests/s3/test_it.py::test_it\n" in done.stdout
    assert done.stdout.count("asked") == 3


def test_one_without_tests_to_run_fails(run):
    done = run(spark="exit 5", s3=PASSES)
    assert done.returncode == 1
    assert summary(done) == {"spark": "NOTHING COLLECTED", "s3": "passed"}


def test_one_whose_lane_is_killed_fails(run):
    done = run(spark='kill -9 "$PPID"', s3=PASSES)
    assert done.returncode == 1
    assert summary(done)["spark"] == "DID NOT END"


def test_they_run_beside_each_other(run, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    meets = {
        "spark": MEETS.format(own=one, other=two),
        "s3": MEETS.format(own=two, other=one),
    }
    done = run(**meets)
    assert summary(done) == {"spark": "passed", "s3": "passed"}
    # A process each: two would start Spark and the servers of a phase twice.
    assert "-n 2" not in done.stdout


def test_one_alone_runs_in_two_processes(run):
    done = run(spark=PASSES)
    assert done.returncode == 0
    assert "-n 2" in done.stdout


def test_a_phase_that_is_none(run):
    done = run(nothing=PASSES)
    assert done.returncode == 2
    assert "no phase 'nothing'; there are fast" in done.stderr


def test_what_runs_at_night_is_there():
    """Each named test stands in its file; cases have names that only the tests themselves know."""
    for file, parts in NIGHTLY.items():
        text = (PROJECT / file).read_text(encoding="utf-8")
        for part in parts:
            assert part.partition("[")[0].partition("-")[0] in text, (file, part)
