"""Processor time of a measure: this process, and all that it has started."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import psutil

JVM = "java"
"""What the process of Spark's JVM is called."""


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
