"""Processor time of a measure: this process, and all that it has started."""

from __future__ import annotations

import psutil


def cpu_seconds() -> float:
    """Seconds that this process and its children have used so far, those that ended too."""
    me = psutil.Process()
    used = 0.0
    for process in [me, *me.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        used += times.user + times.system + times.children_user + times.children_system
    return used
