"""Processor time of a measure: this process, and all that it has started."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Collection
from functools import cache
from typing import Any

import psutil

JVM = "java"
"""What the process of Spark's JVM is called."""


_SET_CHILD_SUBREAPER = 36
"""Source: prctl(2), PR_SET_CHILD_SUBREAPER."""


@cache
def keep_ended_processes() -> None:
    """Count what processes used that have ended, those of sessions that start from now on.

    Those whose parent has ended become children of this one, which never waits for them.

    Raises:
        OSError: the system does not allow it.
    """
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        "--conf spark.python.daemon.module=bench.worker_daemon pyspark-shell"
    )
    if ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "orphans cannot be kept")


def cpu_seconds(without: Collection[int] = ()) -> float:
    """Seconds that this process and its children have used so far, those that ended too.

    Args:
        without: numbers of processes that do not count, as a broker's.
    """
    me = psutil.Process()
    used = 0.0
    for process in [me, *me.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        if process.pid not in without:
            used += times.user + times.system + times.children_user + times.children_system
    return used


def jvm_seconds() -> float:
    """Seconds that Spark's JVM has used so far, without the tasks of Python that it started."""
    used = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            if process.name() == JVM:
                times = process.cpu_times()
                used += times.user + times.system
        except psutil.NoSuchProcess:
            continue
    return used


def cost(work: Callable[[], Any]) -> float:
    """Seconds of the processor that something takes."""
    before = cpu_seconds()
    work()
    return cpu_seconds() - before
