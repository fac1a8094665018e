"""`waybill init` of topics: both ends of partitions, patterns, logins, and what stays secret."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.kafka.conftest import PASSWORD
from tests.kafka.producing import send
from tests.unit.cli.drafting import drafted, wrong
from tests.unit.cli.test_init_conversation import canal, maxwell
from waybill.cli.init import InitOptions, init_command
from waybill.connections import variable_of
from waybill.errors import WaybillError
from waybill.spec.file import load_migration

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stack.kafka import Broker

pytestmark = pytest.mark.kafka


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.delenv(variable_of("kafka_default"), raising=False)


def values(make: Any, count: int, **more: object) -> list[bytes]:
    return [json.dumps({**make(number), **more}).encode() for number in range(count)]


def test_a_topic_by_its_servers(
    broker: Broker,
    client: dict[str, str],
    topic: Callable[..., str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The connection stands in the file by name and is still to be made; both ends are read."""
    name, other = topic(2), topic()
    send(client, name, values(canal, 1000), 0)
    send(client, name, values(canal, 1000, table="late"), 0)
    send(client, name, values(canal, 1000), 1)
    init_command(
        InitOptions(
            f"kafka:{name}",
            name="orders",
            bootstrap=broker.servers,
            targets=[f"debezium-json=kafka:{other}"],
            sample=400,
        )
    )
    said = capsys.readouterr()
    assert "300 messages from the beginning, 100 from the end" in said.err
    assert "shop.late" in said.out, "only the end of the topic has it"
    assert f"export {variable_of('kafka_default')}=" in said.out
    spec = load_migration(tmp_path / "orders.yaml")
    assert spec.source.kafka is not None
    assert (spec.source.kafka.topics, spec.source.kafka.connection) == ([name], "kafka_default")
    (target,) = spec.publish
    assert target.kafka is not None
    assert (target.kafka.topic, target.kafka.connection) == (other, "kafka_default")
    text = " ".join((tmp_path / "orders.yaml").read_text(encoding="utf-8").replace("#", "").split())
    assert "DECIDE: the connection: none is called kafka_default yet" in text
    assert "because 400 changes of the sample have no sequence id" in text
    assert "which change is newer where a key comes from several partitions" in text
    assert "keys of the sample came from several partitions" in text


def test_a_login_stays_in_its_connection(
    broker: Broker,
    client: dict[str, str],
    topic: Callable[..., str],
    allow: Callable[[str, str, str], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    name = topic()
    allow("topic", name, "READ")
    send(client, name, values(maxwell, 5))
    extra = {
        "bootstrap.servers": broker.address("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ann",
        "sasl.password": PASSWORD,
    }
    text = json.dumps({"conn_type": "kafka", "extra": extra})
    monkeypatch.setenv(variable_of("of_the_shop"), text)
    init_command(InitOptions(f"kafka:{name}", name="log", connection="of_the_shop"))
    said = capsys.readouterr()
    written = (tmp_path / "log.yaml").read_text(encoding="utf-8")
    assert "connection: of_the_shop" in written
    for shown in (said.out, said.err, written):
        assert PASSWORD not in shown
        assert "ann" not in shown.replace("cannot", "").replace("/tmp/pytest", "")
    with pytest.raises(WaybillError, match="leave --bootstrap out"):
        init_command(
            InitOptions(f"kafka:{name}", connection="of_the_shop", bootstrap=broker.servers)
        )


def test_topics_by_a_pattern(
    broker: Broker,
    client: dict[str, str],
    topic: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    first, second = topic(), topic()
    send(client, first, values(maxwell, 3))
    send(client, second, values(maxwell, 3, table="other"))
    both = {"bootstrap": broker.servers, "name": "both"}
    data = drafted(capsys, source=f"kafka:{first},{second}", **both)
    assert (data["code"], wrong(data)) == (0, [])
    assert {table["table"] for table in data["tables"]} == {"shop.log", "shop.other"}
    (tmp_path / "both.yaml").unlink()
    data = drafted(capsys, source=f"kafka:{first[:-1]}*{first[-1]}", **both)
    assert (data["code"], wrong(data)) == (0, [])
    kafka = load_migration(tmp_path / "both.yaml").source.kafka
    assert kafka is not None
    assert kafka.takes(first)
    assert not kafka.takes(first.replace(".", "x")), "a dot is a dot"


def test_what_is_not_there_ends_with_one_sentence(
    broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    for source, servers, sentence in (
        ("kafka:no.such.topic", broker.servers, "the topic no.such.topic at"),
        (f"kafka:{topic()}", broker.servers, "holds no message"),
        ("kafka:any", "127.0.0.1:1", "Connection refused"),
        ("kafka:any", None, "there is no connection kafka_default"),
    ):
        with pytest.raises(WaybillError, match=sentence) as error:
            init_command(InitOptions(source, bootstrap=servers, json=True))
        assert "\n" not in str(error.value)
    assert list(tmp_path.glob("*.yaml")) == []
