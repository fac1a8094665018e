"""A migration from Avro to Avro with a real schema registry, and its archive without one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from stack.schema_registry import SchemaRegistryServer
from tests.contract.probes import change, table
from tests.kafka.outboxes import read
from tests.kafka.producing import send
from tests.spark.conftest import INTERPRETED
from waybill.envelopes import registry as envelopes
from waybill.errors import UnavailableError
from waybill.jobs import run_migration
from waybill.lake import Lake
from waybill.spec.migration import Migration

if TYPE_CHECKING:
    from stack.kafka import Broker
    from waybill.records import TableSchema

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PROJECT = Path(__file__).resolve().parents[2]

ORDERS = table({"id": "bigint", "title": "varchar(9)"})
STRANGE = table({"id": "bigint", "note": "varchar(9)"})
"""A table whose schemas were never asked for."""


@pytest.fixture
def registry() -> Iterator[SchemaRegistryServer]:
    """One of the test's own, because it ends."""
    with SchemaRegistryServer() as server:
        yield server


def inserts(url: str, schema: TableSchema, *ids: int) -> list[tuple[bytes, bytes]]:
    envelope = envelopes.get("debezium-avro")
    encoder = envelope.encoder(envelope.encode_settings(registry=url))
    rows = [{"id": str(n), schema.names[1]: f"row {n}"} for n in ids]
    made = [m for r in rows for m in encoder.encode(change("insert", after=r, schema=schema), [])]
    return [(m.key, m.value) for m in made]


def convert_alone(spec: Migration, file: Path) -> None:
    """Convert in a process that remembers nothing of an earlier one."""
    file.write_text(spec.model_dump_json(exclude_none=True), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "waybill.cli", "run", "--until", "convert", str(file)],
        env={**os.environ, "PYTHONPATH": str(PROJECT / "spark_jobs")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_the_registry_sent_is_enough_when_it_is_gone(
    spark: Any,
    broker: Broker,
    client: dict[str, str],
    topic: Callable[..., str],
    registry: SchemaRegistryServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", broker.servers)
    monkeypatch.delenv("AIRFLOW_CONN_KAFKA_DEFAULT", raising=False)
    came, went, url = topic(2), topic(2), registry.url
    data = {
        "name": "avro",
        "source": {
            "kafka": {"topics": [came]},
            "envelope": "debezium-avro",
            "settings": {"registry": url},
        },
        "lake": {"warehouse": str(tmp_path / "lake")},
        "spark": INTERPRETED,
    }
    target = {
        "envelope": "ibmcdc-avro",
        "settings": {"registry": url},
        "kafka": {"topic": went, "ledger": f"{went}.ledger"},
    }
    send(client, came, inserts(url, ORDERS, *range(10)))
    send(client, came, inserts(url, ORDERS, *range(10, 20)), partition=1)
    run_migration(Migration.model_validate({**data, "publish": [target]}), spark=spark)

    deserialize = AvroDeserializer(SchemaRegistryClient({"url": url}))
    context = SerializationContext(went, MessageField.VALUE)
    records = [record for part in read(client, went).values() for record in part]
    assert sorted(deserialize(r.value(), context)["id"] for r in records) == list(range(20))

    send(client, came, inserts(url, ORDERS, *range(20, 30)))
    strange = inserts(url, STRANGE, 1)
    registry.stop()
    spec = Migration.model_validate(data)
    convert_alone(spec, tmp_path / "avro.json")
    lake = Lake.open(spark, spec)
    outcomes = lake.read(lake.log("changes")).where("outcome <> 'schema'").groupBy("outcome")
    assert [tuple(row) for row in outcomes.count().collect()] == [("ok", 30)]

    send(client, came, strange)
    with pytest.raises(
        UnavailableError, match=r"^WB-8101: the schema registry at .* cannot be reached"
    ) as no:
        run_migration(spec, until="convert", spark=spark)
    assert "\n" not in str(no.value)
    registry.start()
    # It forgot everything: the id is not there any more, and only its message is refused for it.
    waybill = run_migration(spec, until="convert", spark=spark)
    assert waybill.stage("convert").refused == {"schema": 1}
