"""Runs the stage publish in a process that is killed, with Spark and its workers, at a point.

    killed_stage.py SPEC BATCH POINT

The point is one of `publish_attempt`; the strike comes from inside the worker that sends.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.kafka import publish_attempt
from waybill.jobs import run_stage
from waybill.publish.kafka import publisher
from waybill.publish.kafka.part_boundaries import Limits
from waybill.publish.kafka.sender import Sending
from waybill.spec.file import load_migration

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class KilledSending(Sending):
    """Sends in small parts, and takes everything along at a point."""

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        driver, _, point = os.environ["KILLED_STAGE"].partition(" ")

        def strike(_pid: int, _sign: int) -> None:
            os.killpg(int(driver), signal.SIGKILL)
            os.killpg(os.getpgid(0), signal.SIGKILL)

        publish_attempt.disturb(point, signal.SIGKILL, 0.001, strike)
        return super().run(batches)


if __name__ == "__main__":
    # The workers find the class by its name, and so not in `__main__`.
    from tests.kafka.killed_stage import KilledSending as Killed

    os.environ["KILLED_STAGE"] = f"{os.getpgid(0)} {sys.argv[3]}"
    publisher.Sending = Killed  # type: ignore[misc]
    publisher.Limits = lambda: Limits(10)  # type: ignore[misc,assignment]
    run_stage("publish", load_migration(sys.argv[1]), sys.argv[2])
