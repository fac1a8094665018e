"""The end of a process and of all that it has started: Python, Java, Spark's workers."""

from __future__ import annotations

import contextlib
import os
import signal

import psutil


def kill_session(session: int) -> None:
    """Kill every process of a session, which began with one of this id; this process last."""
    own = os.getpid()
    for pid in (*(pid for pid in psutil.pids() if pid != own), own):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) == session:
                os.kill(pid, signal.SIGKILL)
