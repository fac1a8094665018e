"""Short runs of Spark, each in a process that is killed."""

from __future__ import annotations

import os

from waybill.lake.settings import SHORT_RUNS

os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_RUNS)
