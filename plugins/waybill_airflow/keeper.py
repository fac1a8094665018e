"""Keeps a group of processes for as long as somebody holds its standard input open.

    python -m waybill_airflow.keeper GRACE

Reads one JSON object a line: `{"name": …, "argv": […], "env": {…}, "log": …}` starts a process.
Writes one a line: `{"name": …, "pid": …}` when it runs, `{"name": …, "code": …}` when it has ended.
When the input ends, for whatever reason, also because its owner was killed, the keeper asks every
process to end, waits GRACE seconds, and kills what is left, children's children included.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def _prctl(option: int, value: int) -> None:
    """Ask the Linux kernel; other systems have no such call, and do without."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


class Keeper:
    """The processes that were started, by process id."""

    def __init__(self) -> None:
        # Processes whose parents have ended become our children instead of getting lost.
        _prctl(PR_SET_CHILD_SUBREAPER, 1)
        self.names: dict[int, str] = {}
        self.groups: set[int] = set()

    def start(self, order: dict[str, Any]) -> None:
        """Start a process in a group of its own, with its output in a file."""
        with Path(order["log"]).open("ab") as log:
            try:
                process = subprocess.Popen(
                    order["argv"],
                    env=order["env"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    # Should the keeper itself be killed, its children at least get a signal.
                    preexec_fn=lambda: _prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
                )
            except OSError as error:
                log.write(f"{error}\n".encode())
                log.flush()
                _say(name=order["name"], code=127)
                return
        self.names[process.pid] = order["name"]
        self.groups.add(process.pid)
        process.returncode = 0  # reaped here, not by the object
        _say(name=order["name"], pid=process.pid)

    def reap(self) -> None:
        """Tell what has ended."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                name = self.names.pop(pid, None)
                if name is not None:
                    _say(name=name, code=os.waitstatus_to_exitcode(status))

    def stop(self, grace: float) -> None:
        """End everything that was started and everything that it started."""
        for group in self.groups:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGTERM)
        asked = time.monotonic()
        while True:
            self.reap()
            left = psutil.Process().children(recursive=True)
            if not left:
                return
            if time.monotonic() - asked > grace:
                for process in left:
                    with contextlib.suppress(psutil.Error):
                        process.kill()
            time.sleep(0.05)


def _say(**event: Any) -> None:
    # Nobody may be listening any more.
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()


def main(grace: float) -> None:
    """Do what the input says until it ends or somebody asks to end."""
    asked: list[int] = []
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, lambda number, _frame: asked.append(number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keeper = Keeper()
    selector = selectors.DefaultSelector()
    selector.register(0, selectors.EVENT_READ)
    waiting = b""
    while not asked:
        keeper.reap()
        if not selector.select(timeout=0.2):
            continue
        chunk = os.read(0, 65536)
        if not chunk:
            break
        *orders, waiting = (waiting + chunk).split(b"\n")
        for order in orders:
            keeper.start(json.loads(order))
    keeper.stop(grace)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20.0)
