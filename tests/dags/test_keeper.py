"""The keeper: nothing that it started outlives whoever holds it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.dags.conftest import PROJECT

# A process with a child that left its group, and whose parent is gone: as a daemon would do.
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1] + "/grandchild", "w").write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
open(sys.argv[1] + "/child", "w").write(str(os.getpid()))
time.sleep(600)
"""


def python(*code: str) -> list[str]:
    return [sys.executable, "-c", *code]


class Kept:
    def __init__(self, folder: Path, grace: float) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "waybill_airflow.keeper", str(grace)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(PROJECT / "plugins")},
        )

    def start(self, name: str, argv: list[str]) -> int:
        order = {"name": name, "argv": argv, "env": dict(os.environ), "log": f"{self.folder}/log"}
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return self.event()["pid"]

    def event(self) -> dict:
        return json.loads(self.process.stdout.readline())

    def pid_in(self, name: str) -> int:
        file = self.folder / name
        limit = time.monotonic() + 10
        while time.monotonic() < limit:
            if file.exists() and file.read_text():
                return int(file.read_text())
            time.sleep(0.02)
        raise AssertionError(f"{name} has not started")


@pytest.fixture
def keeper(tmp_path):
    made: list[Kept] = []

    def make(grace: float = 5) -> Kept:
        made.append(Kept(tmp_path, grace))
        return made[-1]

    yield make
    for kept in made:
        with contextlib.suppress(OSError):
            kept.process.stdin.close()
        kept.process.wait(30)
        kept.process.stdout.close()


def gone(pid: int, within: float = 10) -> bool:
    limit = time.monotonic() + within
    while time.monotonic() < limit:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


def test_it_tells_what_ends_and_how(keeper, tmp_path):
    kept = keeper()
    kept.start("good", python("print('said')"))
    assert kept.event() == {"name": "good", "code": 0}
    kept.start("bad", python("raise SystemExit(3)"))
    assert kept.event() == {"name": "bad", "code": 3}
    pid = kept.start("killed", python("import time; time.sleep(600)"))
    os.kill(pid, signal.SIGKILL)
    assert kept.event() == {"name": "killed", "code": -9}
    assert (tmp_path / "log").read_text() == "said\n"


def test_what_cannot_be_started_is_reported(keeper, tmp_path):
    kept = keeper()
    order = {"name": "none", "argv": ["/no/such/program"], "env": {}, "log": str(tmp_path / "log")}
    kept.process.stdin.write(json.dumps(order) + "\n")
    kept.process.stdin.flush()
    assert kept.event() == {"name": "none", "code": 127}
    assert "/no/such/program" in (tmp_path / "log").read_text()


def test_the_end_of_its_input_ends_what_listens(keeper):
    kept = keeper(grace=60)
    pid = kept.start("sleeper", python("import time; time.sleep(600)"))
    began = time.monotonic()
    kept.process.stdin.close()
    assert kept.process.wait(20) == 0
    assert time.monotonic() - began < 10, "nobody waits for the end of the grace"
    assert gone(pid, 0.1)


def test_what_does_not_listen_is_killed_with_its_lost_children(keeper, tmp_path):
    kept = keeper(grace=0.5)
    kept.start("stubborn", python(STUBBORN, str(tmp_path)))
    pids = [kept.pid_in("child"), kept.pid_in("grandchild")]
    kept.process.stdin.close()
    assert kept.process.wait(20) == 0
    assert all(gone(pid, 0.1) for pid in pids)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_it_ends_everything_when_it_is_asked_itself(keeper, tmp_path, number):
    kept = keeper(grace=0.5)
    kept.start("stubborn", python(STUBBORN, str(tmp_path)))
    pids = [kept.pid_in("child"), kept.pid_in("grandchild")]
    kept.process.send_signal(number)
    assert kept.process.wait(20) == 0
    assert all(gone(pid, 0.1) for pid in pids)


def test_the_keyboard_is_not_for_it(keeper):
    kept = keeper()
    pid = kept.start("sleeper", python("import time; time.sleep(600)"))
    kept.process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert kept.process.poll() is None
    assert psutil.pid_exists(pid)


OWNER = """
import json, os, subprocess, sys, time
keeper = subprocess.Popen([sys.executable, "-m", "waybill_airflow.keeper", "0.5"],
    stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True)
order = {"name": "x", "argv": [sys.executable, "-c", sys.argv[2], sys.argv[1]],
    "env": dict(os.environ), "log": sys.argv[1] + "/log"}
keeper.stdin.write(json.dumps(order) + "\\n")
keeper.stdin.flush()
open(sys.argv[1] + "/keeper", "w").write(str(keeper.pid))
time.sleep(600)
"""


def test_an_owner_that_is_killed_leaves_nothing(tmp_path):
    owner = subprocess.Popen(
        python(OWNER, str(tmp_path), STUBBORN),
        env={**os.environ, "PYTHONPATH": str(PROJECT / "plugins")},
    )
    kept = Kept.__new__(Kept)
    kept.folder = tmp_path
    pids = [kept.pid_in(name) for name in ("keeper", "child", "grandchild")]
    owner.kill()
    owner.wait()
    assert all(gone(pid) for pid in pids)


@pytest.mark.skipif(sys.platform != "linux", reason="a call of the Linux kernel")
def test_a_keeper_that_is_killed_has_signalled_its_children(keeper):
    kept = keeper()
    pid = kept.start("sleeper", python("import time; time.sleep(600)"))
    kept.process.kill()
    assert gone(pid)
