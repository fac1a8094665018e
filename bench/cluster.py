"""One batch through all five stages, on local cores and on a standalone cluster of two workers.

`python -m bench.cluster LINES` starts a master and two workers of one core each, takes a file
of Canal messages through both, and prints one JSON object: messages, and of both every stage's
seconds of the clock and of the processor.
"""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

from bench.cpu import cpu_seconds
from bench.goals.session import published
from bench.measures import print_figures
from stack.spark import Cluster
from waybill.report import STAGES

LOCAL, CLUSTER = "local[2]", "two workers of one core"


def measure(lines: str, scratch: Path) -> dict[str, Any]:
    """Seconds of every stage in both, the second time that the whole topic goes through them.

    Both have one Java after another, so the first time would count its compilers for one of them.

    Args:
        lines: a file of Canal messages.
        scratch: a folder for everything.
    """
    from waybill.jobs import run_stage
    from waybill.lake.session import start_session

    with Path(lines).open("rb") as file:
        found: dict[str, Any] = {"messages": sum(1 for _ in file)}
    rows: dict[str, int] = {}
    for way in (LOCAL, CLUSTER):
        folder = scratch / way.replace(" ", "-")
        folder.mkdir()
        seconds, used = {}, {}
        with ExitStack() as running:
            settings = {"spark.local.dir": str(folder), "spark.driver.memory": "4g"}
            if way == CLUSTER:
                # Its executors find Waybill as this process does, by PYTHONPATH.
                master = running.enter_context(Cluster(folder, memory="2g")).master
                settings |= {"spark.master": master, "spark.executor.memory": "1g"}
            else:
                settings["spark.master"] = LOCAL
            specs = [published(f"topic{i}", folder, lines, spark=settings) for i in range(2)]
            spark = start_session(specs[0], "bench")
            running.callback(spark.stop)
            for spec, stage in product(specs, STAGES):
                before, start = cpu_seconds(), time.monotonic()
                report = run_stage(stage, spec, "b1", spark)
                seconds[stage] = time.monotonic() - start
                used[stage] = cpu_seconds() - before
                rows[way] = report.rows_out
        found[way] = {"seconds": seconds, "cpu": used}
    assert rows[LOCAL] == rows[CLUSTER], rows
    return found


if __name__ == "__main__":
    print_figures(measure, sys.argv[1])
