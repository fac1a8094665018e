"""The whole stage: from the outbox of a lake to a topic, also killed and run again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafka.outboxes import as_sent, contents, read, stream
from tests.spark.conftest import INTERPRETED
from tests.unit.inprocess.test_converter import canal
from waybill.errors import ConfigurationError, ConflictError
from waybill.jobs import run_migration, run_stage
from waybill.lake import Lake
from waybill.publish.kafka.ledger import Owner, read_entries
from waybill.publish.kafka.part_boundaries import Limits
from waybill.publish.kafka.partitions import Partitioner
from waybill.publish.kafka.publisher import publish_kafka
from waybill.publish.kafka.transactions import Transactions
from waybill.publish.outgoing import Outgoing
from waybill.publish.parts import ORDER
from waybill.upkeep.run import run_upkeep

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(900)]

PROJECT = Path(__file__).resolve().parents[2]
DRIVER = Path(__file__).with_name("killed_stage.py")


def orders(first: int, count: int) -> list[bytes]:
    """Inserts, updates and deletes."""
    rows = [canal(i) for i in range(first, first + count)]
    rows += [canal(i, "UPDATE") for i in range(first, first + count, 2)]
    return rows + [canal(i, "DELETE") for i in range(first, first + count, 5)]


@pytest.fixture
def begin(spark, migration, tmp_path, topic, broker, monkeypatch):
    """A migration with a target in Kafka, and what puts messages into its source."""
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", broker.servers)
    # As far as nothing else is said, the test's own connection is the only one.
    monkeypatch.delenv("AIRFLOW_CONN_KAFKA_DEFAULT", raising=False)

    def begin(partitions: int = 3, **target):
        name = topic(partitions, **target.pop("settings", {}))
        kafka = {"topic": name, "ledger": f"{name}.ledger", **target}
        publish = [{"envelope": "debezium-json", "name": "out", "kafka": kafka}]
        return migration(publish=publish, spark=INTERPRETED)

    return begin


def feed(tmp_path: Path, name: str, messages: list[bytes]) -> None:
    (tmp_path / f"in/{name}.jsonl").write_bytes(b"".join(m + b"\n" for m in messages))


def outbox(spark, spec) -> list[dict]:
    """Every message to publish, in the order in which they must go."""
    lake = Lake.open(spark, spec)
    rows = lake.read(lake.log("outbox")).where("outcome = 'ok'")
    return [row.asDict(recursive=True) for row in rows.orderBy("batch", *ORDER).collect()]


def check(spark, spec, client) -> None:
    """The topic has the outbox, message for message and in order in every partition."""
    name = spec.publish[0].kafka.topic
    records = read(client, name)
    rows = [{**row, "group": 0} for row in outbox(spark, spec)]
    chosen = Partitioner(len(records)).choose(next(stream(rows, len(rows))))
    for number, own in records.items():
        expected = [as_sent(row) for row, to in zip(rows, chosen, strict=True) if to == number]
        assert contents(own) == expected


def test_a_batch_goes_to_its_topic_once(spark, begin, client, tmp_path):
    spec = begin()
    feed(tmp_path, "0", orders(0, 40))
    report = run_migration(spec, batch="b1", spark=spark).stage("publish")
    assert (report.rows_in, report.rows_out, report.skipped) == (76, 76, {})
    check(spark, spec, client)
    details = report.details["out"]
    assert (details["messages"], details["tombstones"], details["parts"]) == (76, 8, 1)
    assert details["topic"] == spec.publish[0].kafka.topic
    assert sum(last - first + 1 for first, last in details["offsets"].values()) == 76
    lake = Lake.open(spark, spec)
    (row,) = lake.read(lake.log("published")).collect()
    assert json.loads(row.place)["topic"] == details["topic"]
    assert (row.batch, row.target, row.messages) == ("b1", "out", 76)
    assert row.manifest == f"{spec.publish[0].kafka.ledger}:demo/b1/out/0"
    assert (row.first, row.last) == ("shop/0/0/0", "shop/0/67/0")

    assert run_stage("publish", spec, "b1", spark).repeated
    feed(tmp_path, "1", orders(100, 10))
    second = run_migration(spec, batch="b2", spark=spark).stage("publish")
    assert second.rows_out == 19
    check(spark, spec, client)
    assert run_migration(spec, batch="b3", spark=spark).stage("publish").rows_out == 0


def test_the_lake_forgets_and_the_ledger_does_not(spark, begin, client, tmp_path):
    """As after a kill between the last transaction and the record in the lake."""
    spec = begin()
    feed(tmp_path, "0", orders(0, 40))
    run_migration(spec, until="validate", batch="b1", spark=spark)
    lake = Lake.open(spark, spec)
    messages = lake.read(lake.log("outbox")).where("outcome = 'ok'")
    target, owner = spec.publish[0].kafka, Owner("demo", "out")
    first = publish_kafka(Outgoing(messages), target, owner, ["b1"], lambda *_: None, Limits(10))
    assert len(first.parts) > 5
    assert first.details["parts_sent_before"] == 0
    report = run_stage("publish", spec, "b1", spark)
    assert report.rows_out == 76
    assert report.details["out"]["parts_sent_before"] == len(first.parts)
    check(spark, spec, client)

    other = messages.where("offset <> 3")
    with pytest.raises(ConflictError, match="with other messages"):
        publish_kafka(Outgoing(other), target, owner, ["b1"], lambda *_: None)
    changed = messages.selectExpr(
        "* EXCEPT (value)", "if(offset = 60, encode('x', 'UTF-8'), value) AS value"
    )
    with pytest.raises(ConflictError, match="with other messages"):
        publish_kafka(Outgoing(changed), target, owner, ["b1"], lambda *_: None)
    check(spark, spec, client)


def test_a_message_that_is_too_large_stops_the_batch_before_anything_is_sent(
    spark, begin, client, tmp_path
):
    spec = begin(settings={"max_message_bytes": "2000"})
    large = canal(7).replace(b'"note": "', b'"note": "' + b"x" * 2000, 1)
    assert len(large) > 2000
    feed(tmp_path, "0", [*orders(0, 5), large, *orders(10, 3)])
    run_migration(spec, until="validate", batch="b1", spark=spark)
    with pytest.raises(ConfigurationError, match=r"shop/0/9/0 has \d+ bytes.*max.message.bytes"):
        run_stage("publish", spec, "b1", spark)
    name = spec.publish[0].kafka.topic
    assert sum(map(len, read(client, name, "read_uncommitted").values())) == 0


def test_headers_times_and_one_partition(spark, begin, client, tmp_path):
    spec = begin(
        4,
        partition=2,
        origin_headers=True,
        timestamps="source",
        settings={"retention_ms": "-1"},
    )
    feed(tmp_path, "0", orders(0, 6))
    run_migration(spec, batch="b1", spark=spark)
    records = read(client, spec.publish[0].kafka.topic)
    assert [len(records[number]) for number in range(4)] == [0, 0, 13, 0]
    headers = [dict(record.headers()) for record in records[2]]
    assert [h["waybill-source"] for h in headers] == [
        b"shop/0/%s/0" % str(row["offset"]).encode() for row in outbox(spark, spec)
    ]
    assert {h["waybill-batch"] for h in headers} == {b"b1"}
    lake = Lake.open(spark, spec)
    changes = lake.read(lake.log("changes")).where("outcome = 'ok'").orderBy("offset").collect()
    assert [record.timestamp()[1] for record in records[2]] == [
        int(change.source_time.timestamp() * 1000)
        for change in changes
        for _ in range(2 if change.operation == "delete" else 1)
    ]


def test_killed_in_a_commit_and_run_again(spark, begin, client, tmp_path):
    """The process of Spark and its workers die at once; another batch takes over."""
    spec = begin()
    feed(tmp_path, "0", orders(0, 40))
    run_migration(spec, until="validate", batch="b1", spark=spark)
    file = tmp_path / "demo.json"
    file.write_text(spec.model_dump_json(exclude_none=True))
    paths = [str(PROJECT), str(PROJECT / "spark_jobs")]
    process = subprocess.Popen(
        [sys.executable, str(DRIVER), str(file), "b1", "commit:during:2"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        _, err = process.communicate(timeout=300)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL, err.decode()[-2000:]
    kafka = spec.publish[0].kafka
    owner = Owner("demo", "out")
    with Transactions(client, owner.transactional_id, 60) as transactions:
        transactions.take()
    before = read_entries(client, kafka.ledger, owner)
    assert 0 < len(before) < 8
    feed(tmp_path, "1", orders(100, 10))
    waybill = run_migration(spec, batch="b2", spark=spark)
    assert waybill.stage("publish").rows_out == 76 + 19
    assert waybill.stage("publish").details["out"]["parts_sent_before"] >= len(before)
    check(spark, spec, client)


def test_files_that_upkeep_joined_are_sent_batch_by_batch(spark, begin, client, tmp_path):
    """Not one of them was published before."""
    spec = begin(1)
    for i in range(5):
        feed(tmp_path, str(i), orders(100 * i, 10))
        run_migration(spec, until="convert", batch=f"b{i}", spark=spark)
    lake = Lake.open(spark, spec)
    kept = {kept.table: kept for kept in run_upkeep(spec, lake)}
    assert kept[lake.log("outbox")].files == 5
    feed(tmp_path, "9", orders(900, 10))
    report = run_migration(spec, batch="b9", spark=spark).stage("publish")
    assert report.rows_out == 6 * 19
    check(spark, spec, client)
    entries = read_entries(client, spec.publish[0].kafka.ledger, Owner("demo", "out"))
    batches = [f"b{i}" for i in (0, 1, 2, 3, 4, 9)]
    assert {key: entry.messages for key, entry in entries.items()} == {(b, 0): 19 for b in batches}


def test_nothing_to_publish_asks_nobody(spark, migration, monkeypatch, tmp_path):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    publish = [{"envelope": "canal", "kafka": {"topic": "nowhere"}}]
    spec = migration(publish=publish)
    feed(tmp_path, "0", [])
    report = run_migration(spec, batch="b1", spark=spark).stage("publish")
    assert report.details["canal"]["messages"] == 0


def test_messages_of_two_batches_go_in_the_order_of_the_batches(spark, begin, client, tmp_path):
    """Not in that of their names, and each batch in parts of its own."""
    spec = begin(1)
    feed(tmp_path, "0", orders(0, 10))
    run_migration(spec, until="convert", batch="z1", spark=spark)
    feed(tmp_path, "1", orders(100, 10))
    run_migration(spec, batch="a2", spark=spark)
    (records,) = read(client, spec.publish[0].kafka.topic).values()
    owner = Owner("demo", "out")
    entries = read_entries(client, spec.publish[0].kafka.ledger, owner)
    assert sorted(entries) == [("a2", 0), ("z1", 0)]
    ids = [json.loads(record.key())["id"] for record in records]
    assert [key >= 100 for key in map(int, ids)] == [False] * 19 + [True] * 19
