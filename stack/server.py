"""One server as a process of its own: started until it answers, ended until it is gone."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from waybill_airflow.free_ports import LOOPBACK

_PR_SET_PDEATHSIG = 1


class ServerError(Exception):
    """A server could not be started or ended; one sentence that says what to do."""


def listening(port: int) -> bool:
    """Whether something accepts connections on a port of the loopback address."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((LOOPBACK, port)) == 0


def _end_with_parent() -> None:
    """Ask the Linux kernel to end this process with its parent, also where that one is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Server:
    """A process, its log and its end.

    Args:
        name: what messages call it.
        argv: the command.
        log: file that its output is added to.
        ready: whether it can be used now; asked again and again after the start.
        environment: variables beside those of this process.
        patience: seconds that it may take to be ready.
        grace: seconds that it has to end by itself.
        user: number of the user to run as, where it refuses to run as root.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        log: Path,
        ready: Callable[[], bool],
        environment: Mapping[str, str] | None = None,
        patience: float = 60.0,
        grace: float = 20.0,
        user: int | None = None,
    ) -> None:
        self.name = name
        self.argv = list(argv)
        self.log = log
        self._ready = ready
        self._environment = dict(environment or {})
        self._patience = patience
        self._grace = grace
        self._user = user
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Number of the process.

        Raises:
            ServerError: it is not running.
        """
        if self._process is None:
            message = f"{self.name} is not running: start it first"
            raise ServerError(message)
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and wait until it can be used.

        Raises:
            ServerError: it ended, or was not ready in time; the log is named.
        """
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self._environment},
                start_new_session=True,
                user=self._user,
                group=self._user,
                preexec_fn=_end_with_parent,
            )
        limit = time.monotonic() + self._patience
        while not self._ready():
            code = self._process.poll()
            if code is not None:
                message = f"{self.name} ended with {code} at its start: see {self.log}"
                raise ServerError(message)
            if time.monotonic() > limit:
                self.stop()
                message = f"{self.name} was not ready within {self._patience:.0f} s: see {self.log}"
                raise ServerError(message)
            time.sleep(0.05)

    def stop(self) -> None:
        """Ask it to end, and make it end after the grace time; returns when it is gone."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._end(signal.SIGKILL)

    def _end(self, sign: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        self._send(process, sign)
        try:
            process.wait(self._grace)
        except subprocess.TimeoutExpired:
            self._send(process, signal.SIGKILL)
            process.wait()

    @staticmethod
    def _send(process: subprocess.Popen[bytes], sign: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, sign)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class TemporaryServer(Server):
    """One that keeps everything in a folder of its own, which goes with it.

    Attributes:
        folder: the folder.
    """

    folder: Path

    def remove(self) -> None:
        """End it and remove what it kept."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return super().__enter__()
        except BaseException:
            self.remove()
            raise

    def __exit__(self, *_: object) -> None:
        self.remove()
