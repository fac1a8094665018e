"""An outbox into a topic of Kafka, exactly once, beside the bare client with the same messages.

`python -m bench.kafka_publish` starts a broker, makes an outbox of a file of messages and prints
one JSON object: seconds of the client alone (one process, idempotent, no transactions, messages in
memory) and of the sink, from the outbox in Parquet to the last commit.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from bench.measures import REPEATS, print_figures
from stack.kafka import Broker

PARTITIONS = 4
KEYS = 50_000
"""Different message keys."""


def client_alone(servers: str, topic: str, messages: list[tuple[bytes, bytes]]) -> None:
    """Send keys and values."""
    from confluent_kafka import Producer

    from waybill.publish.kafka.transactions import PRODUCER

    settings: dict[str, Any] = {
        **PRODUCER,
        "bootstrap.servers": servers,
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
        "batch.size": 1_000_000,
    }
    producer = Producer(settings)
    for count, (key, value) in enumerate(messages):
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(0.1)
        if count % 1000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0


def measure(lines: str, scratch: Path) -> dict[str, Any]:
    """Seconds of both ways, the best of several runs after the first."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from waybill.lake import LOG_PROPERTIES, Lake, Span
    from waybill.lake.row_sizes import RowSizes
    from waybill.lake.session import start_session
    from waybill.lake_columns import OUTBOX
    from waybill.publish.kafka.ledger import Owner
    from waybill.publish.kafka.publisher import publish_kafka
    from waybill.publish.outgoing import groups_by_target, outgoing
    from waybill.report import StageReport
    from waybill.spec.endpoints import KafkaTarget
    from waybill.spec.migration import Migration

    values = Path(lines).read_bytes().splitlines()
    messages = [(b'{"id":%d}' % (i % KEYS), value) for i, value in enumerate(values)]
    count = len(messages)
    columns: dict[str, Any] = {
        "target": ["t"] * count,
        "topic": ["shop"] * count,
        "partition": [0] * count,
        "offset": range(count),
        "index": [0] * count,
        "message": [0] * count,
        "batch": ["b"] * count,
        "table": ["shop.orders"] * count,
        "key": [key for key, _ in messages],
        "value": values,
        "outcome": ["ok"] * count,
    }
    arrays = [
        pa.array(columns[field.name], field.type)
        if field.name in columns
        else pa.nulls(count, field.type)
        for field in OUTBOX
    ]
    pq.write_table(pa.Table.from_arrays(arrays, schema=OUTBOX), scratch / "messages.parquet")
    spec = Migration.model_validate(
        {
            "name": "bench",
            "source": {"files": {"path": lines}, "envelope": "canal"},
            "lake": {"warehouse": str(scratch / "lake")},
            "spark": {"spark.master": "local[2]", "spark.local.dir": str(scratch)},
        }
    )
    with Broker(scratch / "broker", compiled=True) as broker:
        os.environ["KAFKA_BOOTSTRAP_SERVERS"] = broker.servers
        spark = start_session(spec, "bench")
        lake = Lake.open(spark, spec)
        outbox = lake.ensure(lake.log("outbox"), OUTBOX, ("target", "outcome"), LOG_PROPERTIES)
        branch = lake.branch(outbox, "convert", "b")
        rows, sizes = (
            spark.read.parquet(str(scratch / "messages.parquet")),
            RowSizes(spark.sparkContext),
        )
        branch.append_made(rows, sizes.of, OUTBOX)
        report = StageReport("convert", "b")
        sizes.tell(report, "outbox")
        branch.commit({}, report.to_dict(), "b", "convert")
        branch.fast_forward()
        span = Span(outbox, None, lake.head(outbox))
        alone, sink = [], []
        # One after the other, again and again: what else runs on the machine meets both.
        for turn in range(REPEATS + 1):
            for name in (f"alone{turn}", f"sink{turn}"):
                broker.create_topic(name, PARTITIONS)
            start = time.monotonic()
            client_alone(broker.servers, f"alone{turn}", messages)
            alone.append(time.monotonic() - start)
            start = time.monotonic()
            target = KafkaTarget(topic=f"sink{turn}")
            groups, longest = groups_by_target(lake, span), lake.longest_row(span)
            found = outgoing(lake.increment(*span), groups, "t", longest)
            sent = publish_kafka(found, target, Owner("bench", target.topic), ["b"], print_nothing)
            sink.append(time.monotonic() - start)
            assert sent.messages == count
        spark.stop()
    return {"messages": count, "alone": min(alone[1:]), "sink": min(sink[1:])}


def print_nothing(*_: object) -> None:
    """Progress of a bench is nobody's concern."""


if __name__ == "__main__":
    print_figures(measure, sys.argv[1])
