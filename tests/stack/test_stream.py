"""A topic to a topic, by a schedule, while a producer writes; held against what the shop knows."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
import pytest
from confluent_kafka import Consumer

from stack.local import CHECKOUT, LocalStack
from stack.prepare import TOPICS, send
from waybill.envelopes import registry
from waybill.records import ROW_OPERATIONS, Message
from waybill.tables import TableRules

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.airflow,
    pytest.mark.kafka,
    pytest.mark.s3,
    pytest.mark.spark,
    pytest.mark.timeout(1500),
]

DAG = "shop_stream"
BATCHES = 3 if "WAYBILL_NIGHTLY" in os.environ else 2
"""The full rows, and parts of what happens then."""
PATIENCE = 420.0
"""Seconds that one batch may take to come through, the wait for its minute included."""
STAGES = ("snapshot", "convert", "merge", "validate", "publish")
Tables = dict[str, dict[tuple[str, ...], dict[str, str | None]]]


class Moved(NamedTuple):
    """What came of the runs.

    Attributes:
        sent: how many messages the producer sent.
        reports: of every run that brought something, by stage.
        final: the tables as the shop itself knows them.
    """

    sent: int
    reports: list[dict[str, dict[str, Any]]]
    final: Tables


@pytest.fixture(scope="module")
def shop() -> ModuleType:
    """The simulated shop of the samples."""
    spec = importlib.util.spec_from_file_location("make_shop", CHECKOUT / "samples/make_shop.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def moved(stack: LocalStack, shop: ModuleType) -> Moved:
    """A producer writes, each part as soon as the one before has gone all the way."""
    world = shop.open_shop()
    full = shop.full_rows(world)
    parts = [full]
    for _ in range(BATCHES - 1):
        first = len(world.messages)
        for _ in range(150):
            shop.something(world)
        parts.append(world.messages[first:])
    stack.airflow.client.patch("dags", DAG, body={"is_paused": False})
    servers = {"bootstrap.servers": stack.broker.servers}
    sent = 0
    # Each run is asked about once: what is asked here, Airflow does not do meanwhile.
    of_run: dict[str, dict[str, dict[str, Any]] | None] = {}
    for part in parts:
        sent += send(servers, TOPICS[0], (value.encode() for value in part))
        limit = time.monotonic() + PATIENCE
        while sum(run["snapshot"]["rows_out"] for run in of_run.values() if run) < sent:
            assert time.monotonic() < limit, of_run
            stack.airflow.check()
            time.sleep(3)
            for run in runs_of(stack):
                if run not in of_run:
                    of_run[run] = reports_of(stack, run)
    stack.airflow.client.patch("dags", DAG, body={"is_paused": True})
    final = {
        name: {tuple(row[k] for k in table["key"]): row for row in table["rows"]}
        for name, table in shop.final_state(world).items()
    }
    return Moved(sent, [report for report in of_run.values() if report], final)


def runs_of(stack: LocalStack) -> list[str]:
    """The runs that have ended, oldest first; all of them well."""
    answer = stack.airflow.client.get("dags", DAG, "dagRuns", order_by="run_after", limit="100")
    states = {run["dag_run_id"]: run["state"] for run in answer["dag_runs"]}
    assert "failed" not in states.values(), states
    return [run for run, state in states.items() if state == "success"]


def reports_of(stack: LocalStack, run: str) -> dict[str, dict[str, Any]] | None:
    """The reports of a run by stage; none where it brought nothing."""
    found = {}
    for stage in STAGES:
        place = ("dags", DAG, "dagRuns", run, "taskInstances", stage)
        entry = stack.airflow.client.get(*place, "xcomEntries", "return_value")
        found[stage] = entry["value"]
        if stage == "snapshot" and not found[stage]["rows_out"]:
            return None
    return found


def committed(stack: LocalStack, topic: str) -> Iterator[Any]:
    """The messages of a topic as a consumer of committed transactions sees them."""
    consumer = Consumer(
        {
            "bootstrap.servers": stack.broker.servers,
            "group.id": f"test-{time.monotonic_ns()}",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": "true",
        }
    )
    consumer.subscribe([topic])
    try:
        while True:
            message = consumer.poll(30)
            assert message is not None, "the topic has an end"
            if message.error():
                assert message.error().name() == "_PARTITION_EOF"
                return
            yield message
    finally:
        consumer.close()


def replayed(messages: Iterator[Any]) -> Tables:
    """The tables that come of applying messages one after another."""
    decoder = registry.get("canal")
    reader = decoder.decoder(decoder.decode_settings(), TableRules())
    tables: Tables = {}
    for at, message in enumerate(messages):
        for change in reader.decode(Message("t", 0, at, None, message.key(), message.value())):
            if change.operation not in ROW_OPERATIONS:
                continue
            rows = tables.setdefault(change.schema.qualified_name, {})
            before: dict[str, str | None] = {}
            for image in (change.before, change.after):
                if image is not None:
                    before = rows.pop(keys_of(change, image), before)
            if change.operation != "delete":
                # A column that a change leaves out (a LOB that was not touched) stays as it was.
                rows[keys_of(change, change.after)] = {**before, **texts_of(change, change.after)}
    return tables


def texts_of(change: Any, image: Any) -> dict[str, str | None]:
    values = msgspec.structs.astuple(image)
    pairs = zip(change.schema.names, values, strict=True)
    return {name: value for name, value in pairs if value is not msgspec.UNSET}


def keys_of(change: Any, image: Any) -> tuple[str, ...]:
    texts = texts_of(change, image)
    return tuple(str(texts.get(name)) for name in change.schema.key)


def test_batches_bring_every_message_once(moved: Moved) -> None:
    assert len(moved.reports) == BATCHES
    assert sum(run["snapshot"]["rows_out"] for run in moved.reports) == moved.sent
    for run in moved.reports:
        assert run["convert"]["refused"] == {}
        assert run["publish"]["rows_out"] == run["publish"]["rows_in"]


def test_the_published_topic_replays_to_the_shop_s_tables(stack, moved) -> None:
    messages = list(committed(stack, TOPICS[1]))
    assert len(messages) == sum(run["publish"]["rows_out"] for run in moved.reports)
    assert replayed(iter(messages)) == moved.final


def test_the_merged_tables_are_the_shop_s(stack, moved) -> None:
    for name, rows in moved.final.items():
        assert lake_rows(stack, name) == rows


def lake_rows(stack: LocalStack, table: str) -> dict[tuple[str, ...], dict[str, str | None]]:
    """A merged table as pyiceberg reads it from the S3 server, without any of Waybill."""
    from pyiceberg.catalog.sql import SqlCatalog

    login = f"{stack.postgres.user}:{stack.postgres.password}@127.0.0.1:{stack.postgres.port}"
    catalog = SqlCatalog(
        "lake",
        **{
            "uri": f"postgresql+psycopg://{login}/{stack.postgres.database}",
            "warehouse": "s3://waybill/lake",
            "s3.endpoint": stack.s3.endpoint,
            "s3.access-key-id": stack.s3.key_id,
            "s3.secret-access-key": stack.s3.secret,
            "s3.region": "us-east-1",
        },
    )
    live = catalog.load_table((DAG, table.replace(".", "_"))).scan().to_arrow().to_pylist()
    keys = [tuple(json.loads(row["_waybill_key"]).values()) for row in live]
    found = {key: json.loads(row["_waybill_image"]) for key, row in zip(keys, live, strict=True)}
    assert len(found) == len(live)
    return found


def test_nothing_secret_is_in_a_log(stack, moved) -> None:
    secrets = [stack.s3.secret, stack.postgres.password]
    for path in Path(stack.folder).rglob("*"):
        if path.is_file() and path.suffix in (".log", ".jsonl"):
            text = path.read_text(encoding="utf-8", errors="replace")
            assert not [secret for secret in secrets if secret in text], path
