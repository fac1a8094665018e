"""A target in Kafka that is added in the middle, whose sending is killed half way, twice."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.outboxes import as_sent, contents, read
from tests.kafka.test_publish_stage import DRIVER, PROJECT, feed, orders
from tests.spark.conftest import INTERPRETED
from tests.unit.inprocess.test_converter import EXACT, canal
from waybill.jobs import run_migration, run_stage
from waybill.lake import Lake
from waybill.publish.kafka.ledger import Owner, read_entries
from waybill.publish.parts import ORDER

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(900)]

BEGINS, BATCH = "b3-bootstrap", "b3"
LATER = 1800000000000
ROW = {"id": "2", "total": EXACT, "note": ""}


def killed(file: Path, batch: str, point: str) -> None:
    """Publish in a process that dies at a point, with its Spark and its workers."""
    process = subprocess.Popen(
        [sys.executable, str(DRIVER), str(file), batch, point],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(PROJECT), f"{PROJECT}/spark_jobs"))},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        _, err = process.communicate(timeout=300)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL, err.decode()[-2000:]


def arrived(values: list[bytes]) -> dict[str, str]:
    """The table that a reader has who knows Maxwell's messages and nothing else."""
    rows: dict[str, str] = {}
    for message in map(json.loads, values):
        key = str(message["data"]["id"])
        if message["type"] == "delete":
            del rows[key]
        else:
            assert message["type"] == "update" or key not in rows, message
            rows[key] = message["data"]["note"]
    return rows


def test_nothing_twice_and_nothing_missing(
    spark: Any,
    migration: Any,
    tmp_path: Path,
    topic: Any,
    client: Any,
    broker: Any,
    monkeypatch: Any,
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", broker.servers)
    monkeypatch.delenv("AIRFLOW_CONN_KAFKA_DEFAULT", raising=False)
    names = {name: topic(1) for name in ("first", "late")}
    targets = {
        name: {
            "envelope": envelope,
            "name": name,
            "kafka": {"topic": names[name], "ledger": f"{names[name]}.ledger"},
            "bootstrap": "tables",
        }
        for name, envelope in (("late", "maxwell"), ("first", "debezium-json"))
    }
    # Every file is a partition, and these messages have no ids.
    fields: Any = {"spark": INTERPRETED, "order": {"ambiguous": "source_time"}}
    spec = migration(publish=[targets["first"]], **fields)
    feed(tmp_path, "0", orders(0, 40))
    run_migration(spec, batch="b1", spark=spark)
    feed(tmp_path, "1", orders(100, 10))
    run_migration(spec, batch="b2", spark=spark)

    spec = migration(publish=[targets["late"], targets["first"]], **fields)
    changed = canal(2, "UPDATE", data=[{**ROW, "note": "later"}], es=LATER)
    old = [canal(1, "DELETE", es=LATER), canal(0, es=LATER), changed]
    feed(tmp_path, "2", [*old, *orders(200, 10)])
    waybill = run_migration(spec, until="validate", batch=BATCH, spark=spark)
    begun = waybill.stage("convert").details["bootstrap"]["late"]
    assert begun["as_of"] == "b2"
    assert begun["tables"]["shop.orders"]["rows"] == 32 + 8
    file = tmp_path / "demo.json"
    file.write_text(spec.model_dump_json(exclude_none=True))
    owner = Owner("demo", "late")

    def sent() -> dict[str, int]:
        """Messages of the target by batch, as its ledger has them."""
        found: dict[str, int] = {}
        for (batch, _), entry in read_entries(client, f"{names['late']}.ledger", owner).items():
            found[batch] = found.get(batch, 0) + entry.messages
        return found

    killed(file, BATCH, "commit:during:2")
    first = sent()
    assert 0 < first[BEGINS] < 40
    assert BATCH not in first
    killed(file, BATCH, "send:after:25")
    second = sent()
    assert first[BEGINS] < second[BEGINS]
    run_stage("publish", spec, BATCH, spark)

    lake = Lake.open(spark, spec)
    outbox = lake.read(lake.log("outbox")).where("outcome = 'ok' AND target = 'late'")
    expected = [row.asDict(recursive=True) for row in outbox.orderBy("batch", *ORDER).collect()]
    expected.sort(key=lambda row: row["batch"] != BEGINS)
    (records,) = read(client, names["late"]).values()
    assert contents(records) == [as_sent(row) for row in expected]
    values = [record.value() for record in records]
    kinds = [json.loads(value)["type"] for value in values]
    assert kinds[:40] == ["bootstrap-insert"] * 40
    assert "bootstrap-insert" not in kinds[40:]
    live = lake.read(lake.merged_tables()["shop.orders"]).where("NOT _waybill_deleted")
    rows = {str(row.id): row.note for row in live.collect()}
    assert arrived(values) == rows
    assert rows["2"] == "later"
    assert "1" not in rows
    assert run_stage("publish", spec, BATCH, spark).repeated
