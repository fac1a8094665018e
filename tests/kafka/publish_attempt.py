"""One attempt at a publication, as a process that kills or freezes itself at a named point.

    publish_attempt.py FILE [--at POINT --do kill|freeze [--delay SECONDS]] [--slow SECONDS]

A point is `method:when:nth`: a method of `Transactions` or the look-up in the ledger (`entries`),
`before` or `after` its nth call; `during` strikes after the delay while the call goes on.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.kafka.sending import Publication
from waybill.errors import WaybillError
from waybill.publish.kafka import sender
from waybill.publish.kafka.transactions import Transactions

SIGNALS = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP}


def disturb(
    point: str,
    sign: signal.Signals,
    delay: float,
    blow: Callable[[int, signal.Signals], None] = os.kill,
) -> None:
    """Strike at a point."""
    name, when, nth = point.split(":")
    owner = sender if name == "entries" else Transactions
    attribute = "read_entries" if name == "entries" else name
    honest = getattr(owner, attribute)
    calls = []

    def strike() -> None:
        blow(os.getpid(), sign)

    def disturbed(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        mine = len(calls) == int(nth)
        if mine and when == "before":
            strike()
        if mine and when == "during":
            threading.Timer(delay, strike).start()
        result = honest(*args, **kwargs)
        if mine and when == "after":
            strike()
        return result

    setattr(owner, attribute, disturbed)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--at")
    parser.add_argument("--do", choices=SIGNALS, default="kill")
    parser.add_argument("--delay", type=float, default=0)
    parser.add_argument("--slow", type=float, default=0)
    given = parser.parse_args()
    if given.slow:
        honest = Transactions.look

        def slowly(self: Transactions, seconds: float = 0) -> None:
            time.sleep(given.slow)
            honest(self, seconds)

        Transactions.look = slowly  # type: ignore[method-assign]
    if given.at:
        disturb(given.at, SIGNALS[given.do], given.delay)
    sys.stdout.write("started\n")
    sys.stdout.flush()
    try:
        parts = Publication.load(given.file).send()
    except WaybillError as error:
        sys.stdout.write(f"{type(error).__name__}: {error}\n")
        return 1
    sent = sum(not part["before"] for part in parts)
    sys.stdout.write(f"sent {sent}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
