"""A topic of a Kafka broker into the archive, beside the bare client on the same topic.

`python -m bench.kafka` starts a broker, fills a topic and prints one JSON object: seconds of the
client alone (one process: consume, every column into Arrow) and of the whole stage.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.measures import REPEATS, PeakMemory, best
from stack.kafka import Broker

PARTITIONS = 4
FEW = 2_000
"""Messages of the batch that warms Spark up."""


def fill(servers: str, topic: str, lines: Path, limit: int | None = None) -> int:
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
                    producer.produce(topic, line[:-1], b"%d" % count, count % PARTITIONS)
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


def measure(lines: str, scratch: Path) -> dict[str, Any]:
    """Seconds of both ways, the best of several runs after the first."""
    from waybill.jobs import run_stage
    from waybill.lake.session import start_session
    from waybill.spec import Migration

    with Broker(scratch / "broker") as broker:
        os.environ["KAFKA_BOOTSTRAP_SERVERS"] = broker.servers
        for name in ("few", "whole"):
            broker.create_topic(name, PARTITIONS)
        fill(broker.servers, "few", Path(lines), FEW)
        messages = fill(broker.servers, "whole", Path(lines))
        alone = best(lambda: client_alone(broker.servers, "whole", messages))

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
        times = []
        for turn in range(REPEATS):
            start = time.monotonic()
            report = run_stage("snapshot", spec("whole", f"whole{turn}"), "b1", spark)
            times.append(time.monotonic() - start)
            assert report.rows_out == messages
        spark.stop()
    return {"messages": messages, "alone": alone, "stage": min(times)}


def main(told: str) -> None:
    """Run the measure and print its figures."""
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as folder, PeakMemory() as memory:
        figures = measure(json.loads(told), Path(folder))
    sys.stdout.write(json.dumps({**figures, "peak_mb": round(memory.peak)}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
