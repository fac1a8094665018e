"""`waybill check` and `waybill status` of a migration that reads topics, and a whole run of one."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kafka.producing import delete_before, send, transaction
from waybill import jobs
from waybill.cli import status
from waybill.cli.check import check
from waybill.cli.findings import NOTE, OK, WRONG
from waybill.connections import variable_of
from waybill.kafka.cluster import Cluster
from waybill.lake import Lake
from waybill.sources.kafka.retention import Endangered, endangered
from waybill.spec.file import load_migration
from waybill.spec.migration import Migration

if TYPE_CHECKING:
    from collections.abc import Callable

    from stack.kafka import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SAMPLES = Path(__file__).parents[2] / "samples"


def connect(monkeypatch: pytest.MonkeyPatch, servers: str) -> None:
    text = {"conn_type": "kafka", "extra": {"bootstrap.servers": servers}}
    monkeypatch.setenv(variable_of("kafka_tests"), json.dumps(text))


@pytest.fixture(autouse=True)
def connection(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, broker.servers)


def reading(folder: Path, *topics: str, **fields: Any) -> Migration:
    kafka = {"connection": "kafka_tests", "topics": list(topics), **fields}
    return Migration.model_validate(
        {
            "name": "demo",
            "source": {"kafka": kafka, "envelope": "canal"},
            "lake": {"warehouse": str(folder / "lake")},
        }
    )


def change(number: int) -> bytes:
    row = {"id": str(number), "title": "x"}
    body = {"database": "shop", "table": "orders", "type": "INSERT", "isDdl": False, "es": 1}
    types = {"mysqlType": {"id": "int", "title": "varchar(9)"}, "pkNames": ["id"]}
    return json.dumps({**body, **types, "data": [row], "old": None, "ts": 2, "id": 1}).encode()


def found(spec: Migration, about: str) -> list[tuple[str, str]]:
    return [(f.verdict, f.text) for f in check(spec) if f.about == about]


def test_check_takes_a_sample_of_each_partition(
    client: dict[str, str], topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(2)
    send(client, name, [change(n) for n in range(3000)], 0)
    send(client, name, [change(n) for n in range(3)] + [b"nonsense"], 1)
    # What a first batch would leave out is looked at all the same.
    spec = reading(tmp_path, name, start="latest")
    with transaction(client, name, [b"open"], commit=False):
        (reached, held) = found(spec, "source")
    assert reached[0] == OK
    assert reached[1].startswith("1 topic with 2 partitions and 3004 offsets at 127.0.0.1:")
    assert held == (NOTE, "1 offset belongs to transactions that are open")
    ((verdict, text),) = found(spec, "sample")
    assert verdict == NOTE
    assert text.startswith("the first 504 messages bring 503 changes, 1 is refused")


def test_check_says_what_is_wrong(
    tmp_path: Path, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ((verdict, text),) = found(reading(tmp_path, "no.such.topic"), "source")
    assert (verdict, "the topic no.such.topic at" in text) == (WRONG, True)
    assert found(reading(tmp_path, topic()), "source")[0][0] == NOTE, "an empty topic"
    connect(monkeypatch, "127.0.0.1:1")
    ((verdict, text),) = found(reading(tmp_path, "any"), "source")
    assert verdict == WRONG
    assert "Connection refused" in text
    monkeypatch.delenv(variable_of("kafka_tests"))
    ((verdict, text),) = found(reading(tmp_path, "any"), "source")
    assert (verdict, "there is no connection kafka_tests" in text) == (WRONG, True)


def test_status_tells_the_lag(
    spark: Any,
    client: dict[str, str],
    topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = topic(2)
    send(client, name, [change(n) for n in range(5)])
    spec = reading(tmp_path, name)
    file = tmp_path / "demo.json"
    file.write_text(spec.model_dump_json(exclude_defaults=True), encoding="utf-8")

    @contextmanager
    def opened(spec: Migration) -> Any:
        yield Lake.open(spark, spec)

    monkeypatch.setattr(status, "look_into", opened)

    def source() -> dict[str, Any]:
        status.status_command(file, as_json=True)
        document: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])["source"]
        return document

    def lag(unread: int, missing: int) -> dict[str, Any]:
        counts = {"unread": unread, "missing": missing}
        return {"topics": [{"topic": name, "partitions": 2, **counts}]}

    assert source() == lag(5, 0)
    jobs.run_migration(spec, until="snapshot", spark=spark)
    send(client, name, [change(n) for n in range(4)], 1)
    assert source() == lag(4, 0)
    send(client, name, [change(n) for n in range(3)])
    delete_before(client, name, 7)
    assert source() == lag(5, 2)
    status.status_command(file, as_json=False)
    assert name in capsys.readouterr().out
    connect(monkeypatch, "127.0.0.1:1")
    assert "Connection refused" in source()["error"]
    status.status_command(file, as_json=False)
    shown = " ".join(capsys.readouterr().out.split())
    assert "source: WB-8001: the cluster at 127.0.0.1:1" in shown


def test_a_migration_from_a_topic_equals_the_one_from_files(
    spark: Any,
    client: dict[str, str],
    topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WAYBILL_DEMO", str(tmp_path / "files"))
    spec = load_migration(SAMPLES.parent / "migrations" / "shop.yaml")
    jobs.run_migration(spec, until="validate", spark=spark)
    name = topic()
    kafka = {"connection": "kafka_tests", "topics": [name], "messages_per_task": 100}
    data = spec.model_dump(mode="json", exclude_defaults=True)
    data["source"] = {"kafka": kafka, "envelope": spec.source.envelope}
    data["lake"]["warehouse"] = str(tmp_path / "topics")
    from_topic = Migration.model_validate(data)
    for file in sorted((SAMPLES / "shop").glob("*.jsonl")):
        lines = file.read_bytes().split(b"\n")
        send(client, name, [line for line in lines if line])
        jobs.run_migration(from_topic, until="snapshot", spark=spark)
    jobs.run_migration(from_topic, until="validate", spark=spark)
    for table in ("shop.customers", "shop.orders"):
        expected = list(jobs.read_table(spec, table, spark=spark))
        assert expected
        assert list(jobs.read_table(from_topic, table, spark=spark)) == expected


HOURS = 3600


def test_messages_that_expire_unread_are_found(
    client: dict[str, str], topic: Callable[..., str], tmp_path: Path
) -> None:
    """Until they are read: what is young, and what never expires by age, is in no danger."""
    now = time.time()

    def sent(hours: float, count: int, partition: int = 0, **settings: str) -> str:
        name = topic(2, retention_ms=str(10 * HOURS * 1000), **settings)
        then = int((now - hours * HOURS) * 1000)
        send(client, name, [change(n) for n in range(count)], partition, timestamp=then)
        return name

    old, young = sent(6, 3, 1), sent(4, 3)
    kept, compact = sent(6, 1, cleanup_policy="compact"), topic(2, retention_ms="-1")

    def found(name: str, *cursors: dict[str, Any]) -> list[Endangered]:
        source = reading(tmp_path, name).source.kafka
        assert source is not None
        return endangered(source, cursors, now)

    assert found(old) == [Endangered(old, 1, 0, 3, 10 * HOURS)]
    assert [found(name) for name in (young, kept, compact)] == [[], [], []]
    send(client, old, [change(9)], 1)
    cluster = Cluster(client)
    (about,) = cluster.describe([old])

    def read_up_to(offset: int) -> dict[str, Any]:
        topics = {old: {"id": about.id, "ranges": {"0": [0, 0], "1": [0, offset]}}}
        return {"source": "kafka", "complete": True, "topics": topics}

    assert found(old, read_up_to(2)) == [Endangered(old, 1, 2, 2, 10 * HOURS)]
    assert found(old, read_up_to(3)) == [], "the next one is young"
    assert found(old, read_up_to(4)) == []
