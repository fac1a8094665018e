"""A topic of a Kafka broker into the archive, beside the bare client on the same topic.

`python -m bench.kafka` starts a broker, fills a topic and prints one JSON object: seconds, and
seconds of processor time without the broker's, of the client alone (one process: consume, every
column into Arrow) and of the whole stage.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from bench.measures import REPEATS, print_figures
from stack.kafka import Broker

PARTITIONS = 4
FEW = 2_000
"""Messages of the batch that warms Spark up."""


def fill(
    servers: str, topic: str, lines: Path, limit: int | None = None, partitions: int = PARTITIONS
) -> int:
    """Send the lines of a file, spread over the partitions; how many."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": servers,
            "compression.type": "lz4",
            "linger.ms": 50,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    count = 0
    with lines.open("rb") as source:
        for line in source:
            if count == limit:
                break
            while True:
                try:
                    producer.produce(topic, line[:-1], b"%d" % count, count % partitions)
                    break
                except BufferError:
                    producer.poll(0.1)
            count += 1
            if count % 1000 == 0:
                producer.poll(0)
    assert producer.flush(120) == 0
    return count


def client_alone(servers: str, topic: str, messages: int) -> None:
    """Every message of a topic, every column in Arrow, nothing kept."""
    from confluent_kafka import Consumer, TopicPartition

    from waybill.sources.kafka.reader import BOUNDED, READING
    from waybill.sources.kafka.rows import archive_rows

    consumer = Consumer({"bootstrap.servers": servers, **READING, **BOUNDED})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    got = 0
    while got < messages:
        good = [m for m in consumer.consume(1000, 0.1) if m.error() is None]
        if good:
            got += archive_rows(good, "", None)[0].num_rows
    consumer.close()


def processor_time(broker: int) -> float:
    """Seconds of processor time of this process and what it started, but for the broker."""
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        with suppress(psutil.Error):
            if process.pid != broker:
                times = process.cpu_times()
                total += times.user + times.system
                total += times.children_user + times.children_system
    return total


def best_of(work: Callable[[int], Any], broker: int) -> tuple[float, float]:
    """Shortest time and least processor time of several runs."""
    times, costs = [], []
    for turn in range(REPEATS):
        cost, start = processor_time(broker), time.monotonic()
        work(turn)
        times.append(time.monotonic() - start)
        costs.append(processor_time(broker) - cost)
    return min(times), min(costs)


def measure(lines: str, scratch: Path) -> dict[str, Any]:
    """Seconds of both ways, the best of several runs after the first."""
    from waybill.jobs import run_stage
    from waybill.lake.session import start_session
    from waybill.spec.migration import Migration

    with Broker(scratch / "broker", compiled=True) as broker:
        os.environ["KAFKA_BOOTSTRAP_SERVERS"] = broker.servers
        for name in ("few", "whole"):
            broker.create_topic(name, PARTITIONS)
        fill(broker.servers, "few", Path(lines), FEW)
        messages = fill(broker.servers, "whole", Path(lines))
        client_alone(broker.servers, "few", FEW)
        alone = best_of(lambda _: client_alone(broker.servers, "whole", messages), broker.pid)

        def spec(topic: str, name: str) -> Migration:
            return Migration.model_validate(
                {
                    "name": name,
                    "source": {"kafka": {"topics": [topic]}, "envelope": "canal"},
                    "lake": {"warehouse": str(scratch / "lake")},
                    "spark": {"spark.master": "local[2]", "spark.local.dir": str(scratch)},
                }
            )

        spark = start_session(spec("few", "warm"), "bench")
        run_stage("snapshot", spec("few", "warm"), "b1", spark)

        def run(turn: int) -> None:
            report = run_stage("snapshot", spec("whole", f"whole{turn}"), "b1", spark)
            assert report.rows_out == messages

        stage = best_of(run, broker.pid)
        spark.stop()
    return {"messages": messages, "alone": alone, "stage": stage}


if __name__ == "__main__":
    print_figures(measure, sys.argv[1])
