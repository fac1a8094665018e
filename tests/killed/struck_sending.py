"""Sends to Kafka, and takes everything along at a step of it, out of the worker that sends."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.kafka import publish_attempt
from tests.killed.session_end import kill_session
from waybill.publish.kafka.sender import Sending

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class StruckSending(Sending):
    """Kills the session that it works for.

    Attributes:
        step: where, as `publish_attempt` names it.
        delay: seconds after it where it says `during`.
        session: what is killed.
    """

    step: str = ""
    delay: float = 0.0
    session: int = 0

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """See `Sending.run`; it comes to an end if the step is not among those left."""
        publish_attempt.disturb(
            self.step, signal.SIGKILL, self.delay, lambda *_: kill_session(self.session)
        )
        return super().run(batches)
