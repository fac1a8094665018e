"""Says how far a publication is while a task of Spark sends it, as the ledger knows it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from waybill.counting import counted
from waybill.errors import WaybillError
from waybill.publish.kafka.ledger import Entries, read_entries

if TYPE_CHECKING:
    from waybill.publish.kafka.sender import Sending

EVERY = 15.0
"""Seconds between two looks, so also between two lines."""


def sent_of(entries: Entries, batches: Collection[str]) -> int:
    """How many messages of some batches are in the topic."""
    return sum(entry.messages for (batch, _), entry in entries.items() if batch in batches)


@contextmanager
def reporting_progress(
    sending: Sending, before: int, progress: Callable[..., Any], every: float = EVERY
) -> Iterator[None]:
    """Tell how much has been sent, until the block ends.

    Args:
        sending: what is being sent.
        before: messages that are known to be there.
        progress: called at most once in the interval and only of what is new.
        every: the interval, in seconds.
    """
    ended = threading.Event()
    batches = {group.batch for group in sending.groups}
    count = sum(group.messages for group in sending.groups)

    def look() -> None:
        known = before
        while not ended.wait(every):
            try:
                entries = read_entries(sending.properties, sending.ledger, sending.owner)
            except WaybillError as error:
                # The task meets the same trouble, and says whether it can go on.
                progress("publish: %s: how much was sent is not known: %s", target, error)
                continue
            sent = sent_of(entries, batches)
            if sent > known and not ended.is_set():
                progress("publish: %s: %d of %s sent", target, sent, counted(count, "message"))
                known = sent

    target = sending.owner.target
    looking = threading.Thread(target=look, name="publish progress", daemon=True)
    looking.start()
    try:
        yield
    finally:
        ended.set()
