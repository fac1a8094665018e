"""Makes what the stack's servers must hold before a migration runs, and sends the sample messages.

    python -m stack.prepare [--samples FOLDER]

The servers are those of the connections `kafka_default` and `aws_default`. What is there already
stays as it is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from waybill.connections import get_connection
from waybill.counting import counted
from waybill.errors import WaybillError
from waybill.kafka.client import properties

TOPICS = ("shop", "shop_canal")
"""The topic that the example reads, and the one that it writes."""

FOR_EVER = {"retention.ms": "-1"}
"""The samples are years old by their timestamps."""


def make_topics(servers: Mapping[str, str]) -> None:
    """Make the topics of the example, with one partition each: the samples are in one order.

    Raises:
        KafkaException: the broker refuses.
    """
    topics = [NewTopic(name, 1, 1, config=dict(FOR_EVER)) for name in TOPICS]
    with AdminClient(dict(servers)) as admin:
        for made in admin.create_topics(topics).values():
            try:
                made.result(30)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise


def send(servers: Mapping[str, str], topic: str, values: Iterator[bytes]) -> int:
    """Send messages in their order; returns how many.

    Raises:
        KafkaException: one was not taken.
    """
    producer = Producer({**servers, "enable.idempotence": "true", "linger.ms": "20"})
    failed: list[Any] = []
    count = 0
    for value in values:
        while True:
            try:
                producer.produce(topic, value, on_delivery=lambda error, _: _note(error, failed))
                break
            except BufferError:
                producer.poll(0.1)
        count += 1
    producer.flush()
    if failed:
        raise KafkaException(failed[0])
    return count


def _note(error: Any, failed: list[Any]) -> None:
    if error is not None:
        failed.append(error)


def lines_of(folder: Path) -> Iterator[bytes]:
    """The messages of a folder of files of lines, in the order of their names."""
    for file in sorted(folder.glob("*.jsonl")):
        yield from (line for line in file.read_bytes().split(b"\n") if line)


def make_bucket(name: str) -> None:
    """Make a bucket if there is none."""
    from waybill.storage.objects.client import client_of
    from waybill.storage.objects.places import access_to, place_of

    client = client_of(access_to(place_of(f"s3://{name}/")))
    there = {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}
    if name not in there:
        client.create_bucket(Bucket=name)


def main(arguments: list[str] | None = None) -> int:
    """Prepare the servers and return the exit status."""
    parser = argparse.ArgumentParser(prog="stack.prepare", description="Prepare the servers.")
    parser.add_argument("--samples", type=Path, help="send the .jsonl files of this folder")
    parser.add_argument("--bucket", default="waybill", help="the bucket of the lake")
    given = parser.parse_args(arguments)
    try:
        servers = properties(get_connection("kafka_default"))
        make_topics(servers)
        make_bucket(given.bucket)
        if given.samples is not None:
            count = send(servers, TOPICS[0], lines_of(given.samples))
            sys.stdout.write(f"{counted(count, 'message')} sent to the topic {TOPICS[0]}\n")
    except (WaybillError, KafkaException) as error:
        sys.stderr.write(f"waybill: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
