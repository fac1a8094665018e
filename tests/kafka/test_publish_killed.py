"""Attempts that are killed, or frozen and woken later: every message once and in order.

Attempts are processes of their own, so that they can be killed as a crash would.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.contract.effort import EFFORT
from tests.kafka.sending import Publication, publication

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900 * EFFORT)]

PROJECT = Path(__file__).resolve().parents[2]

KILLS = 10 if EFFORT == 1 else 20 * EFFORT

POINTS = [
    "take:before:1",
    "take:after:1",
    "entries:after:1",
    "begin:after:1",
    "begin:after:2",
    "send:after:120",
    "send:after:300",
    "finish:before:1",
    "finish:after:2",
    "send:after:251",
    "commit:before:1",
    "commit:during:1",
    "commit:during:2",
    "commit:during:1",
    "commit:after:1",
]
"""Where attempts strike themselves, in the order in which they pass."""


def start(file: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(PROJECT), str(PROJECT / "spark_jobs")]),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "tests.kafka.publish_attempt", str(file), *arguments],
        env=environment,
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """How an attempt ended, and what it said."""
    try:
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode in (0, 1, -signal.SIGKILL), err
    assert "Traceback" not in err, err
    return process.returncode, out


def killed_at_a_point(out: Publication, file: Path, point: str, delay: float) -> bool:
    process = start(file, "--at", point, "--delay", str(delay))
    code, said = ended(process)
    assert code in (0, -signal.SIGKILL), said
    return code != 0


def killed_from_outside(out: Publication, file: Path, seconds: float) -> bool:
    process = start(file, "--slow", "0.01")
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    time.sleep(seconds)
    process.kill()
    return ended(process)[0] != 0


def test_killed_at_any_moment(client, topic, tmp_path):
    """Inside of every step and at random times; the last attempt finds what is left to send."""
    seed = 7 if EFFORT == 1 else time.time_ns()
    chance = random.Random(seed)
    out = publication(client, topic, counts=(250 * KILLS,))
    file = out.save(tmp_path / "publication.json")
    kills = left_open = attempts = 0
    while kills < KILLS:
        assert attempts < 3 * KILLS
        before = len(out.entries())
        if attempts % 4 == 3:
            killed = killed_from_outside(out, file, chance.uniform(0.1, 1.5))
        else:
            point = POINTS[(attempts * 3 + attempts // 4) % len(POINTS)]
            killed = killed_at_a_point(out, file, point, chance.uniform(0, 0.004))
        attempts += 1
        kills += killed
        left_open += killed and len(out.entries()) == before
        assert len(out.entries()) >= before
    code, said = ended(start(file))
    assert (code, said.splitlines()[0]) == (0, "started"), said
    out.check()
    # The kills did hit what they were to hit: transactions that had to be taken back.
    assert left_open
    assert out.raw() > len(out.rows), f"seed {seed}"


FROZEN = [
    "take:before:1",
    "take:after:1",
    "entries:after:1",
    "begin:after:2",
    "send:after:300",
    "finish:after:2",
    "send:after:502",
    "commit:before:2",
    "commit:after:2",
]


@pytest.mark.parametrize("point", FROZEN)
def test_an_attempt_that_sleeps_while_another_finishes_cannot_write(client, topic, tmp_path, point):
    out = publication(client, topic, counts=(1000,))
    file = out.save(tmp_path / "publication.json")
    sleeper = start(file, "--at", point, "--do", "freeze")
    try:
        while os.waitpid(sleeper.pid, os.WUNTRACED | os.WNOHANG)[0] == 0:
            time.sleep(0.02)
        out.send()
        out.check()
        sleeper.send_signal(signal.SIGCONT)
        code, said = ended(sleeper)
    finally:
        sleeper.kill()
    out.check()
    if point.startswith("take"):
        # It looks up what was sent only now, and finds that there is nothing to do.
        assert (code, said) == (0, "started\nsent 0\n")
    else:
        assert code == 1, said
        assert re.search(r"^ConflictError: .*another run publishes to this target", said, re.M)


def test_a_batch_killed_and_followed_by_the_next(client, topic, tmp_path):
    """The run of the next batch sends what the first left over, then its own."""
    out = publication(client, topic, counts=(1000, 600))
    first = Publication(**{**vars(out), "counts": (1000,)})
    assert killed_at_a_point(first, first.save(tmp_path / "one.json"), "commit:before:3", 0)
    sent = [part["before"] for part in out.send()]
    assert sent == [True, True, False, False, False, False, False]
    out.check()
