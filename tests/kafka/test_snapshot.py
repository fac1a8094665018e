"""The stage snapshot from topics to the archive: nothing lost, nothing twice, whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql.pandas.types import from_arrow_schema

from tests.kafka.conftest import PASSWORD
from tests.kafka.producing import (
    allow,
    delete_before,
    send,
    send_transaction,
    transaction,
)
from tests.raw_headers import send_raw_headers
from waybill.connections import variable_of
from waybill.errors import ConfigurationError, SourceError, UnreachableError
from waybill.lake import Lake
from waybill.lake.commit import Branch
from waybill.lake_columns import ARCHIVE
from waybill.sources.snapshot import run_snapshot
from waybill.stage_context import Options, StageContext

if TYPE_CHECKING:
    from collections.abc import Callable

    from stack.kafka import Broker
    from waybill.report import StageReport

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

DISTURBED = Path(__file__).parents[1] / "killed" / "disturbed_run.py"


@pytest.fixture(autouse=True)
def connection(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection `kafka_tests` of the plain listener."""
    extra = {"bootstrap.servers": broker.servers}
    text = json.dumps({"conn_type": "kafka", "extra": extra})
    monkeypatch.setenv(variable_of("kafka_tests"), text)


@pytest.fixture
def reading(migration: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a migration that reads topics."""

    def make(*topics: str, **fields: Any) -> Any:
        kafka = {"connection": "kafka_tests", "topics": list(topics), **fields}
        return migration(source={"kafka": kafka, "envelope": "canal"})

    return make


def snapshot(spark: Any, spec: Any, batch: str, mode: str = "incremental") -> StageReport:
    lake = Lake.open(spark, spec)
    report = run_snapshot(spec, StageContext(lake.spark, lake, spec, batch, Options(mode=mode)))
    if not report.repeated:
        assert report.rows_in == report.rows_out
    return report


def archived(spark: Any, spec: Any) -> list[tuple[Any, ...]]:
    lake = Lake.open(spark, spec)
    rows = lake.read(lake.log("archive")).collect()
    return sorted((r.batch, r.topic, r.partition, r.offset, bytes(r.value)) for r in rows)


def test_two_batches_byte_for_byte(
    spark: Any, reading: Any, client: dict[str, str], topic: Callable[..., str]
) -> None:
    name, other = topic(3), topic()
    spec = reading(name, other, messages_per_task=40)
    sent: Counter[tuple[str, int, bytes]] = Counter()

    def produce(place: str, partition: int, values: list[bytes]) -> None:
        send(client, place, values, partition)
        sent.update((place, partition, value) for value in values)

    produce(name, 0, [b"\xff%d\x00" % n for n in range(150)])
    produce(name, 1, [b"", b"one"])
    send_transaction(client, name, [b"aborted"] * 60, commit=False, partition=1)
    produce(name, 1, [b"after"])
    first = snapshot(spark, spec, "b1")
    assert (first.rows_in, first.details["offsets"]) == (153, 153 + 61)
    assert first.details["ranges"] == [
        {"topic": name, "partition": 0, "start": 0, "end": 150, "rows": 150},
        {"topic": name, "partition": 1, "start": 0, "end": 64, "rows": 3},
    ]
    with transaction(client, other, [b"committed"] * 5, commit=True):
        produce(name, 2, [b"%d" % n for n in range(90)])
        produce(name, 0, [b"new"])
        second = snapshot(spark, spec, "b2")
        assert second.rows_in == 91
        assert second.details["held_offsets"] == 5
        assert (
            f"last 5 offsets of partition 0 of the topic {other} will come with"
            in second.warnings[0]
        )
    sent.update((other, 0, b"committed") for _ in range(5))
    third = snapshot(spark, spec, "b3")
    assert (third.rows_in, third.warnings) == (5, [])
    assert snapshot(spark, spec, "b4").rows_in == 0
    rows = archived(spark, spec)
    assert Counter((row[1], row[2], row[4]) for row in rows) == sent
    assert len({row[1:4] for row in rows}) == len(rows), "each place once"


def test_messages_whose_headers_cannot_be_read(
    spark: Any, reading: Any, client: dict[str, str], topic: Callable[..., str]
) -> None:
    name = topic()
    send_raw_headers(client["bootstrap.servers"], name, [[b"a"], [b"\xff"], [b"\xff", b"a"]])
    with pytest.raises(SourceError, match=f"offset 1 of partition 0 of the topic {name} has a"):
        snapshot(spark, reading(name), "b1")
    spec = reading(name, unreadable_headers="leave_out")
    report = snapshot(spark, spec, "b1")
    assert report.rows_in == 3
    assert report.warnings == [
        f"2 messages of partition 0 of the topic {name} from offset 0 to 3 could only be archived "
        "without headers: the name of one is not UTF-8"
    ]


def test_a_finished_batch_is_not_done_twice_and_a_full_one_reads_all(
    spark: Any, reading: Any, client: dict[str, str], topic: Callable[..., str]
) -> None:
    name = topic()
    spec = reading(name)
    send(client, name, [b"1", b"2"])
    first = snapshot(spark, spec, "b1")
    send(client, name, [b"3"])
    again = snapshot(spark, spec, "b1")
    assert again.repeated
    again.repeated = False
    assert again == first
    assert snapshot(spark, spec, "b2", mode="replay").rows_in == 0
    assert snapshot(spark, spec, "b3", mode="full").rows_in == 3
    send(client, name, [b"4"])
    assert snapshot(spark, spec, "b4").rows_in == 1
    assert [row[0] for row in archived(spark, spec)] == ["b1", "b1", "b3", "b3", "b3", "b4"]


def test_messages_that_were_deleted(
    spark: Any, reading: Any, client: dict[str, str], topic: Callable[..., str]
) -> None:
    name = topic()
    send(client, name, [b"x"] * 10)
    snapshot(spark, reading(name), "b1")
    send(client, name, [b"y"] * 10)
    delete_before(client, name, 14)
    with pytest.raises(SourceError, match="deleted 4 offsets"):
        snapshot(spark, reading(name), "b2")
    going_on = reading(name, on_data_loss="earliest")
    report = snapshot(spark, going_on, "b3")
    assert (report.rows_in, report.details["lost_offsets"]) == (6, 4)
    assert report.warnings[0].startswith("4 offsets of partition 0")
    assert snapshot(spark, going_on, "b4").warnings == []


def test_what_is_deleted_between_plan_and_read_is_counted(
    spark: Any, reading: Any, client: dict[str, str], topic: Callable[..., str], monkeypatch: Any
) -> None:
    name = topic()
    send(client, name, [b"x"] * 10)
    honest = Branch.append_made

    def late(self: Branch, *given: Any) -> int:
        delete_before(client, name, 7)
        return honest(self, *given)

    monkeypatch.setattr(Branch, "append_made", late)
    with pytest.raises(SourceError, match="now begin at offset 7"):
        snapshot(spark, reading(name, start={name: {0: 0}}), "b1")
    send(client, name, [b"x"] * 10)
    spec = reading(name, on_data_loss="earliest")
    monkeypatch.setattr(Branch, "append_made", honest)
    snapshot(spark, spec, "b2")
    send(client, name, [b"x"] * 10)

    def later(self: Branch, *given: Any) -> int:
        delete_before(client, name, 25)
        return honest(self, *given)

    monkeypatch.setattr(Branch, "append_made", later)
    report = snapshot(spark, spec, "b3")
    assert (report.rows_in, report.details["lost_offsets"]) == (5, 5)
    assert "5 offsets of partition 0" in report.warnings[0]


def test_brokers_that_go_away_in_mid_stage(
    spark: Any,
    broker: Broker,
    reading: Any,
    client: dict[str, str],
    topic: Callable[..., str],
    monkeypatch: Any,
) -> None:
    name = topic()
    spec = reading(name, stall="3s")
    send(client, name, [b"x"] * 10)
    honest = Branch.append_made

    def without_broker(self: Branch, *given: Any) -> int:
        broker.kill()
        try:
            return honest(self, *given)
        finally:
            broker.start()

    monkeypatch.setattr(Branch, "append_made", without_broker)
    with pytest.raises(
        UnreachableError, match=f"^WB-8001: {name}/0 from offset 0 to 10 at"
    ) as caught:
        snapshot(spark, spec, "b1")
    assert "\n" not in str(caught.value)
    monkeypatch.setattr(Branch, "append_made", honest)
    lake = Lake.open(spark, spec)
    assert lake.head(lake.log("archive")) is None, "nothing became visible"
    assert snapshot(spark, spec, "b1").rows_in == 10


def test_the_password_is_nowhere(
    spark: Any,
    broker: Broker,
    reading: Any,
    client: dict[str, str],
    topic: Callable[..., str],
    monkeypatch: Any,
    caplog: Any,
) -> None:
    name = topic()
    send(client, name, [b"x"])
    text = {
        "conn_type": "kafka",
        "host": broker.address("SASL_PLAINTEXT"),
        "login": "ann",
        "password": PASSWORD,
        "extra": {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"},
    }
    monkeypatch.setenv(variable_of("kafka_tests"), json.dumps(text))
    spec = reading(name, group="not.allowed")
    with pytest.raises(ConfigurationError, match="give the user of the connection the right"):
        snapshot(spark, spec, "b1")
    allow(client, "topic", name, "READ")
    honest, plans = Branch.append_made, []

    def appended(self: Branch, *given: Any) -> int:
        rows, make, schema = given
        made = rows.mapInArrow(make, from_arrow_schema(schema))
        plans.append(made._jdf.queryExecution().toString())
        return honest(self, *given)

    monkeypatch.setattr(Branch, "append_made", appended)
    caplog.set_level("DEBUG")
    report = snapshot(spark, spec, "b1")
    assert report.rows_in == 1
    (warning,) = report.warnings
    assert warning.startswith("offsets were not committed to the consumer group not.allowed")
    shown = [*plans, json.dumps(report.to_dict()), str(spec)]
    # What py4j tells when it debugs is all that passes between Python and Java, the task itself.
    shown += [r.getMessage() for r in caplog.records if not r.name.startswith("py4j")]
    shown += [str(spark.sparkContext.getConf().getAll())]
    assert not [text for text in shown if PASSWORD in text]
    assert "MapInArrow" in plans[0]


def test_a_consumer_group_is_updated_and_not_asked(
    spark: Any, reading: Any, client: dict[str, str], topic: Callable[..., str]
) -> None:
    name = topic(2)
    send(client, name, [b"x"] * 10)
    spec = reading(name, group="watchers")
    watcher = Consumer({**client, "group.id": "watchers", "enable.auto.commit": "false"})

    def committed() -> list[int]:
        return [p.offset for p in watcher.committed([TopicPartition(name, n) for n in (0, 1)])]

    assert snapshot(spark, spec, "b1").warnings == []
    assert committed() == [10, 0]
    # Somebody else's hand moves the group: the archive alone says what was read.
    watcher.commit(offsets=[TopicPartition(name, 0, 3)], asynchronous=False)
    send(client, name, [b"y"] * 2)
    assert snapshot(spark, spec, "b2").rows_in == 2
    assert committed() == [12, 0]
    watcher.close()


def test_an_archive_from_before_has_the_new_column(
    spark: Any, reading: Any, client: dict[str, str], topic: Callable[..., str]
) -> None:
    name = topic()
    spec = reading(name)
    lake = Lake.open(spark, spec)
    lake.ensure(lake.log("archive"), ARCHIVE.remove(ARCHIVE.get_field_index("timestamp_type")))
    send(client, name, [b"x"])
    snapshot(spark, spec, "b1")
    (row,) = Lake.open(spark, spec).read(lake.log("archive")).collect()
    assert (bytes(row.value), row.timestamp_type, row.batch) == (b"x", "create", "b1")


def test_another_kind_of_source_is_not_taken_for_the_same(
    spark: Any,
    migration: Any,
    reading: Any,
    client: dict[str, str],
    topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    name = topic()
    send(client, name, [b"x"])
    files = migration()
    (tmp_path / "in" / "a.jsonl").write_bytes(b"1\n")
    snapshot(spark, files, "b1")
    with pytest.raises(SourceError, match="filled from files so far, and the source is in kafka"):
        snapshot(spark, reading(name), "b2")
    assert snapshot(spark, reading(name), "b3", mode="full").rows_in == 1
    assert snapshot(spark, reading(name), "b4").rows_in == 0
    with pytest.raises(SourceError, match="filled from kafka so far, and the source is in files"):
        snapshot(spark, files, "b5")


@pytest.mark.parametrize("point", ["archive:append:during", "archive:append:after"])
def test_killed_and_run_again(
    spark: Any,
    reading: Any,
    client: dict[str, str],
    topic: Callable[..., str],
    tmp_path: Path,
    point: str,
) -> None:
    name = topic(2)
    values = [b"%d" % n for n in range(3000)]
    send(client, name, values, 0)
    send(client, name, values, 1)
    spec = reading(name, messages_per_task=1000)
    file = tmp_path / "demo.json"
    file.write_text(spec.model_dump_json(exclude_defaults=True), encoding="utf-8")
    root = Path(__file__).parents[2]
    paths = os.pathsep.join([str(root), str(root / "spark_jobs")])
    killed = subprocess.run(
        [sys.executable, str(DISTURBED), str(file), "b1", "--kill", point],
        env={**os.environ, "PYTHONPATH": paths},
        start_new_session=True,
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    lake = Lake.open(spark, spec)
    assert lake.head(lake.log("archive")) is None, "nothing became visible"
    send(client, name, [b"later"], 1)
    assert snapshot(spark, spec, "b1").rows_in == 6001
    rows = archived(spark, spec)
    assert [row[4] for row in rows] == [*values, *values, b"later"]
    assert [row[2:4] for row in rows] == [(0, n) for n in range(3000)] + [
        (1, n) for n in range(3001)
    ]
