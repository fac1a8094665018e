"""A topic of a Kafka broker through all five stages into another topic, stage by stage.

`python -m bench.line` starts a broker, fills a topic, runs one batch of it to a topic of another
envelope and prints one JSON object: messages, and of every stage seconds of the clock and of the
processor and the peak of each process's memory in MiB, without the broker's.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from bench.cpu import cpu_seconds
from bench.kafka import FEW, PARTITIONS, fill
from bench.measures import print_figures
from bench.memory import PeakByProcess
from bench.topics import DECLARED
from stack.kafka import Broker

STAGES = ("snapshot", "convert", "merge", "validate", "publish")
TARGET = "debezium-json"


def measure(lines: str, scratch: Path, turns: int = 1) -> dict[str, Any]:
    """Seconds of every stage, in a session that a small batch has warmed up.

    Args:
        lines: a file of Canal messages.
        scratch: a folder for everything.
        turns: how often the whole topic goes through all stages; the last time counts.
    """
    from waybill.jobs import run_stage
    from waybill.lake.session import start_session
    from waybill.spec.migration import Migration

    def spec(name: str) -> Migration:
        return Migration.model_validate(
            {
                "name": name,
                "source": {"kafka": {"topics": [name]}, "envelope": "canal"},
                "tables": DECLARED,
                "lake": {"warehouse": str(scratch / name)},
                "publish": [{"envelope": TARGET, "kafka": {"topic": f"{name}.{TARGET}"}}],
                # Canal tells no position; the one partition of the topic does.
                "order": {"ambiguous": "partition"},
                "spark": {"spark.master": "local[2]", "spark.local.dir": str(scratch)},
            }
        )

    with Broker(scratch / "broker", compiled=True) as broker:
        os.environ["KAFKA_BOOTSTRAP_SERVERS"] = broker.servers
        whole = [f"whole{turn}" for turn in range(turns)]
        messages = 0
        for name, limit in (("few", FEW), *((name, None) for name in whole)):
            broker.create_topic(name, 1)
            broker.create_topic(f"{name}.{TARGET}", PARTITIONS)
            messages = fill(broker.servers, name, Path(lines), limit, partitions=1)
        spark = start_session(spec("few"), "bench")
        for stage in STAGES:
            run_stage(stage, spec("few"), "b1", spark)
        seconds, used, peaks = {}, {}, {}
        for name in whole:
            for stage in STAGES:
                before, start = cpu_seconds([broker.pid]), time.monotonic()
                with PeakByProcess(apart=broker.pid) as memory:
                    report = run_stage(stage, spec(name), "b1", spark)
                peaks[stage] = {kind: round(peak) for kind, peak in memory.peaks.items()}
                seconds[stage] = time.monotonic() - start
                used[stage] = cpu_seconds([broker.pid]) - before
            assert report.rows_out >= messages, report
        spark.stop()
    return {"messages": messages, "seconds": seconds, "cpu": used, "memory": peaks}


if __name__ == "__main__":
    print_figures(measure, sys.argv[1])
