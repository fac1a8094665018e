"""docker-compose.yaml against the compose specification, and against what the stack really uses."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from stack import prepare, secrets_file
from stack.kafka import SETTINGS
from stack.local import LocalStack, read_settings
from waybill.cli.app import app
from waybill.connections import find_connection
from waybill.spec.file import load_migration

PROJECT = Path(__file__).resolve().parents[3]
IMAGE = "/opt/waybill/"
TEXT = (PROJECT / "docker-compose.yaml").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
SECRET = re.compile(r"\$\{(\w+)(:\?[^}]*)?([^}]*)\}")


def parsed(data: Any) -> Any:
    compose_spec = pytest.importorskip("compose_spec", reason="has no wheel for this platform")
    # Docker takes a tag and a digest together, and goes by the digest; this reader takes one.
    text = re.sub(r"@sha256:[0-9a-f]{64}", "", yaml.safe_dump(data))
    return compose_spec.PyCompose.from_yaml(text)


def test_it_follows_the_specification():
    assert sorted(parsed(COMPOSE).service_names()) == sorted(SERVICES)


@pytest.mark.parametrize(
    "change",
    [
        {"imag": "x"},
        {"depends_on": {"kafka": {"condition": "service_is_well"}}},
        {"ports": ["a:b:c:d"]},
        {"healthcheck": {"test": 1}},
    ],
)
def test_a_mistake_would_be_found(change):
    damaged = {**COMPOSE, "services": {**SERVICES, "s3": {**SERVICES["s3"], **change}}}
    with pytest.raises(ValueError, match="s3"):
        parsed(damaged)


def test_the_services_are_those_of_the_stack_without_containers():
    stack = {"postgres", "kafka", "s3", "spark-master", "spark-worker", "prepare", "driver"}
    airflow = {f"airflow-{part}" for part in ("migrate", "api-server", "scheduler")}
    assert set(SERVICES) == stack | airflow | {"airflow-dag-processor"}


def test_images_are_pinned():
    tag, digest = r"[a-z/]+:\d+\.\d+(\.\d+)?", "@sha256:[0-9a-f]{64}"
    for name, service in SERVICES.items():
        made_here = "build" in service
        assert re.fullmatch(tag if made_here else tag + digest, service["image"]), name
    bases = re.findall(r"^FROM (\S+)", docker_file(), re.MULTILINE)
    assert bases
    assert all(re.fullmatch(rf"[a-z/]+:\d+\.\d+\.\d+[a-z-]*{digest}", base) for base in bases)
    kafka = (PROJECT / "stack" / "kafka.lock").read_text(encoding="utf-8")
    version = SERVICES["kafka"]["image"].partition("@")[0].partition(":")[2]
    assert f"kafka-server:{version} " in kafka
    base = re.search(r"^FROM python:(\d+\.\d+)\.\d+-", docker_file(), re.MULTILINE)
    assert base is not None
    assert f"lib/python{base[1]}/site-packages" in docker_file()


def docker_file() -> str:
    return (PROJECT / "Dockerfile").read_text(encoding="utf-8")


def test_nothing_is_reachable_from_elsewhere():
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_secrets_are_asked_for_and_have_no_default():
    found = {match[1]: (match[2], match[3]) for match in SECRET.finditer(TEXT)}
    assert set(found) == set(secrets_file.NAMES)
    assert all(demand and not rest for demand, rest in found.values())


def test_secrets_are_made_once_and_for_one_reader(tmp_path):
    file = tmp_path / ".env"
    assert secrets_file.main([str(file)]) == 0
    made = read_settings(file)
    assert set(made) == set(secrets_file.NAMES)
    assert len(set(made.values())) == len(made)
    assert min(map(len, made.values())) >= 32
    assert file.stat().st_mode & 0o077 == 0
    assert secrets_file.main([str(file)]) == 1
    assert read_settings(file) == made


def strings_in(data: Any) -> Iterator[str]:
    if isinstance(data, dict):
        yield from (text for value in data.values() for text in strings_in(value))
    elif isinstance(data, list):
        yield from (text for value in data for text in strings_in(value))
    else:
        yield str(data)


def test_every_path_is_there():
    made = {"airflow", "data"} | {f"airflow/{name}" for name in ("logs", "auth")}
    asked = re.search(r"^RUN mkdir -p (.*)$", docker_file(), re.MULTILINE)
    assert asked is not None
    assert set(asked[1].split()) <= made
    inside = {
        word.partition(":")[0].removeprefix(IMAGE)
        for service in OURS.values()
        for text in strings_in(service)
        for word in re.findall(rf"{IMAGE}[\w./-]+", text)
    }
    for path in inside - {"airflow/auth/passwords.json"}:
        assert path in made or (PROJECT / path).exists(), path
    for service in SERVICES.values():
        mounted = [v for v in service.get("volumes", ()) if v.startswith("./")]
        for path in [*service.get("env_file", ()), *(v.partition(":")[0] for v in mounted)]:
            assert (PROJECT / path).exists(), path
    copied = re.findall(r"^COPY --chown=waybill (.+) \S+$", docker_file(), re.MULTILINE)
    for path in " ".join(copied).split():
        assert (PROJECT / path).exists(), path


def test_volumes_are_declared_and_used():
    used = {
        volume.partition(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", ())
        if not volume.startswith(".")
    }
    assert used == set(COMPOSE["volumes"])


def test_every_service_that_stays_says_whether_it_is_well():
    for name, service in SERVICES.items():
        assert service["restart"] == "no" or "healthcheck" in service, name
    for service in SERVICES.values():
        for needed, how in service.get("depends_on", {}).items():
            ends = SERVICES[needed]["restart"] == "no"
            assert how["condition"] == (
                "service_completed_successfully" if ends else "service_healthy"
            )


def commands() -> Iterator[list[str]]:
    for service in OURS.values():
        for argv in (service["command"], service.get("healthcheck", {}).get("test", ())):
            argv = [word for word in argv if word != "CMD"]
            if argv[:2] == ["sh", "-c"]:
                yield from (shlex.split(part) for part in argv[2].split("&&"))
            elif argv:
                yield argv


def test_commands_are_those_that_are_there():
    known = {"python", "waybill", "airflow", "spark-class"}
    assert {argv[0] for argv in commands()} == known
    for argv in commands():
        if argv[:2] == ["python", "-m"]:
            assert (PROJECT / (argv[2].replace(".", "/") + ".py")).is_file(), argv
        elif argv[0] == "waybill":
            command = typer.main.get_command(app)
            with command.make_context("waybill", argv[1:], resilient_parsing=True) as context:
                sub = command.get_command(context, argv[1])  # type: ignore[attr-defined]
                sub.make_context(argv[1], argv[2:])  # raises where an option is unknown
        elif argv[0] == "spark-class":
            text = (PROJECT / "stack" / "spark.py").read_text(encoding="utf-8")
            assert f'"{argv[1].removeprefix("org.apache.spark.deploy.")}"' in text


def test_the_broker_has_the_settings_of_the_one_without_containers():
    places = re.compile("LISTENER|VOTERS|LOG_DIRS|NODE_ID|PROCESS_ROLES")
    settings = {
        name.removeprefix("KAFKA_").lower().replace("_", "."): value
        for name, value in SERVICES["kafka"]["environment"].items()
        if not places.search(name)
    }
    assert settings
    assert {name: SETTINGS.get(name) for name in settings} == settings


def test_connections_are_those_of_the_stack_without_containers(tmp_path, monkeypatch):
    stack = LocalStack(tmp_path, 1, print)
    stack.postgres.remove()
    given = OURS["driver"]["environment"]
    for name in ("kafka_default", "aws_default", "lake_catalog", "spark_default"):
        variable = f"AIRFLOW_CONN_{name.upper()}"
        monkeypatch.setenv(variable, json.dumps(json.loads(SECRET.sub("secret", given[variable]))))
        here = find_connection(name)
        monkeypatch.setenv(variable, stack.environment[variable])
        there = find_connection(name)
        assert here is not None
        assert there is not None
        assert (here.kind, sorted(here.extra)) == (there.kind, sorted(there.extra))
        assert bool(here.password) == bool(there.password)
    for service in ("airflow-scheduler", "airflow-api-server"):
        assert OURS[service]["environment"].items() >= OURS["prepare"]["environment"].items()


def test_the_example_needs_what_is_there(monkeypatch):
    monkeypatch.setenv("WAYBILL_CATALOG", OURS["driver"]["environment"]["WAYBILL_CATALOG"])
    spec = load_migration(PROJECT / "stack" / "migrations" / "shop_stream.yaml")
    given = OURS["driver"]["environment"]
    assert all(f"AIRFLOW_CONN_{name.upper()}" in given for name in spec.connections)
    assert spec.source.kafka is not None
    topics = [*spec.source.kafka.topics, *(t.kafka.topic for t in spec.publish if t.kafka)]
    assert tuple(topics) == prepare.TOPICS
    assert spec.lake.warehouse.startswith("s3://waybill/")
