"""What a piece of the gate's work takes: time, and jobs of Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Meter:
    """What a block took, known once it has ended.

    Attributes:
        seconds: by the clock.
        jobs: of Spark.
    """

    seconds: float = 0.0
    jobs: int = 0


@contextmanager
def metered(spark: SparkSession) -> Iterator[Meter]:
    """Measure a block. Jobs that other threads start in it are not counted.

    Args:
        spark: the session that runs the jobs.
    """
    meter, started = Meter(), time.monotonic()
    context, tag = spark.sparkContext, f"waybill-{uuid4().hex}"
    context.addJobTag(tag)
    try:
        yield meter
        meter.jobs = len(context._jsc.sc().statusTracker().getJobIdsForTag(tag))
    finally:
        context.removeJobTag(tag)
    meter.seconds = round(time.monotonic() - started, 2)
