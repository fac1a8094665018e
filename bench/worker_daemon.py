"""PySpark's daemon of Python workers, in which workers that have ended stay to be counted.

Its own lets the system forget them at once: what they used of the processor would be missing in the
seconds of a stage, and those of the next would be negative.
"""

from __future__ import annotations

import signal
from typing import Any

from pyspark import daemon

_set_handler = signal.signal


def _set_other_handler(number: int, handler: Any) -> Any:
    """As `signal.signal`, but children that end stay until this process does."""
    forgets = (number, handler) == (signal.SIGCHLD, signal.SIG_IGN)
    return _set_handler(number, signal.SIG_DFL if forgets else handler)


if __name__ == "__main__":
    signal.signal = _set_other_handler
    daemon.manager()
