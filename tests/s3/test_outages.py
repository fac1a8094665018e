"""Servers that fail, cut the line or go away, keys that are wrong, and a disk that is full."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from stack.postgres import accepts
from tests.s3.conftest import ROWS, canal
from tests.s3.faulty import Fault
from waybill.errors import ConfigurationError, UnavailableError
from waybill.jobs import described, read_table, run_migration, run_stage
from waybill.lake.commit import Branch
from waybill.report import STAGES
from waybill.spec.migration import Migration
from waybill.storage.file_store import open_store

IMPATIENT = {"s3.retry.num-retries": 1}
"""The tests wait less long for a server that stays away."""


def messages(spec, batch: str) -> list[bytes]:
    store = open_store(f"{spec.publish[0].files.path}/{batch}")
    manifest = json.loads(store.read("manifest.json"))
    return [line for part in manifest["parts"] for line in store.read(part["file"]).splitlines()]


def is_done(spec, spark, batch: str) -> None:
    """The batch is there, whole and once."""
    assert list(read_table(spec, spark=spark)) == ROWS
    sent = [json.loads(line) for line in messages(spec, batch)]
    rows = [(message["type"], row["id"]) for message in sent for row in message["data"]]
    assert sorted(rows) == [("DELETE", "100"), *(("INSERT", i) for i in ("10", "100", "9"))]


def port_of_nobody() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# Object storage


def test_a_server_that_stumbles_is_not_noticed(spark, small, through_proxy) -> None:
    through_proxy.spoil(
        Fault("^GET .*/in/", "busy"),
        Fault("^GET .*/in/", "half"),
        Fault("^PUT .*/lake/.*parquet", "cut"),
        Fault("^PUT .*/lake/.*parquet", "broken"),
        Fault("^PUT .*/lake/.*metadata.json", "busy", 2),
        Fault("^PUT .*/lake/.*avro", "busy", 3),
        Fault("^GET .*/lake/.*parquet", "cut", 2),
        Fault("^GET .*/lake/.*avro", "busy"),
        Fault("^GET .*/lake/.*metadata.json", "broken"),
        Fault("^PUT .*/out/.*/part", "cut"),
        Fault("^PUT .*/out/.*/manifest", "lost"),
    )
    spec = small()
    run_migration(spec, batch="b1", spark=spark)
    is_done(spec, spark, "b1")
    kinds = {line.split()[0] for line in through_proxy.spoiled}
    assert kinds == {"busy", "half", "cut", "broken", "lost"}
    assert len(through_proxy.spoiled) > 10


def test_a_server_that_stays_away_fails_the_stage_for_now(
    spark, small, connect, through_proxy
) -> None:
    """One stage after another: each fails, and the next run goes on where this one ended."""
    retries = {"retries": {"max_attempts": 2}, "s3": {"addressing_style": "path"}}
    connect(extra={"endpoint_url": through_proxy.endpoint, "config_kwargs": retries})
    spec = small(catalog=IMPATIENT)
    for stage, line in [
        ("snapshot", "^GET .*/in/a.jsonl"),
        ("convert", "^PUT .*/lake/.*/outbox/data/"),
        ("merge", "^PUT .*/lake/.*/shop_orders/metadata/"),
        ("validate", "^PUT .*/lake/.*/reports/"),
        ("publish", "^PUT .*/out/.*/part-"),
        ("publish", "^PUT .*/out/.*/manifest"),
    ]:
        through_proxy.spoil(Fault(line, "busy", times=0))
        ended: list = []
        with pytest.raises(UnavailableError) as caught:
            run_migration(spec, batch="b1", spark=spark, on_stage=ended.append)
        assert "\n" not in str(caught.value)
        assert described(caught.value)["transient"]
        assert through_proxy.spoiled
        before = STAGES[: STAGES.index(stage)]
        assert [report.stage for report in ended] == list(before)
        assert all(report.repeated for report in ended[:-1])
    through_proxy.spoil()
    run_migration(spec, batch="b1", spark=spark)
    is_done(spec, spark, "b1")


@pytest.mark.parametrize(
    ("fields", "kind", "sentence"),
    [
        ({"password": "wrong-secret-text"}, ConfigurationError, "does not take the key"),
        ({"extra": {"endpoint_url": "nobody"}}, UnavailableError, "no server answers there"),
        ({"extra": {"endpoint_url": "127.0.0.1"}}, ConfigurationError, "has no scheme"),
        ({}, ConfigurationError, "there is no bucket no-such-bucket"),
    ],
)
def test_a_lake_that_cannot_be_reached_is_one_sentence_soon(
    spark, small, connect, fields, kind, sentence
) -> None:
    spec = small() if fields else small(warehouse="s3://no-such-bucket/lake")
    if fields.get("extra", {}).get("endpoint_url") == "nobody":
        fields = {"extra": {"endpoint_url": f"http://127.0.0.1:{port_of_nobody()}"}}
    connect(**fields)
    started = time.monotonic()
    with pytest.raises(kind, match=sentence) as caught:
        run_migration(spec, spark=spark)
    assert time.monotonic() - started < 10
    assert "\n" not in str(caught.value)
    assert "wrong-secret-text" not in str(caught.value)


def test_a_key_that_is_taken_away_meanwhile_is_reported(spark, small, connect, server) -> None:
    """Java then meets it, not we."""
    spec = small(catalog={"s3.secret-access-key": "wrong-secret-text"})
    with pytest.raises(
        ConfigurationError, match="does not take the key of the connection aws_"
    ) as e:
        run_migration(spec, spark=spark)
    assert "wrong-secret-text" not in str(e.value)


# The catalog


def test_a_catalog_that_goes_away_at_the_commit(spark, small, postgres, monkeypatch) -> None:
    spec, move = small(), Branch.fast_forward
    run_stage("snapshot", spec, "b1", spark)

    def away(branch):
        if postgres.running:
            postgres.stop()
        return move(branch)

    monkeypatch.setattr(Branch, "fast_forward", away)
    try:
        with pytest.raises(
            UnavailableError, match=rf"the catalog at {postgres.uri} cannot"
        ) as caught:
            run_stage("convert", spec, "b1", spark)
        assert "\n" not in str(caught.value)
        assert described(caught.value)["transient"]
    finally:
        monkeypatch.setattr(Branch, "fast_forward", move)
        if not postgres.running:
            postgres.start()
    waybill = run_migration(spec, batch="b1", spark=spark)
    assert [r.stage for r in waybill.stages if r.repeated] == ["snapshot"]
    is_done(spec, spark, "b1")


def test_a_server_that_has_started_takes_clients(postgres) -> None:
    """Not only their connections, which it takes while it still mends what a crash left."""
    postgres.kill()
    assert not accepts(postgres.port)
    postgres.start()
    assert accepts(postgres.port)


def test_a_catalog_that_was_restarted_is_not_noticed(spark, small, postgres) -> None:
    spec = small()
    run_stage("snapshot", spec, "b1", spark)
    postgres.stop()
    postgres.start()
    assert run_stage("convert", spec, "b1", spark).rows_out


@pytest.mark.parametrize(
    ("spoil", "kind", "sentence"),
    [
        ("password", ConfigurationError, "does not take the login: give it in the connection lake"),
        ("login", ConfigurationError, "cannot be opened|does not take the login"),
        ("database", ConfigurationError, 'database "nowhere" does not exist'),
        ("port", UnavailableError, "the catalog at jdbc:postgresql://127.* cannot be reached"),
        ("connection", ConfigurationError, "there is no connection nobody_s"),
    ],
)
def test_a_catalog_that_cannot_be_opened_is_one_sentence_soon(
    spark, small, postgres, monkeypatch, spoil, kind, sentence
) -> None:
    login = postgres.connection()
    more = {}
    if spoil in login:
        secret = {**login, spoil: "wrong-secret-text"}
        monkeypatch.setenv("AIRFLOW_CONN_LAKE_CATALOG", json.dumps(secret))
    elif spoil == "connection":
        more = {"connection": "nobody_s"}
    else:
        port = port_of_nobody() if spoil == "port" else postgres.port
        more = {"uri": f"jdbc:postgresql://127.0.0.1:{port}/nowhere"}
    started = time.monotonic()
    with pytest.raises(kind, match=sentence) as caught:
        run_migration(small(catalog=more), spark=spark)
    assert time.monotonic() - started < 15
    assert "\n" not in str(caught.value)
    if spoil == "password":
        assert "wrong-secret-text" not in str(caught.value)


# The disk


@pytest.fixture
def little_disk(tmp_path: Path):
    """A file system of two megabytes, and how to make it larger."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(*options: str) -> None:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(place)],
            check=True,
            capture_output=True,
        )

    try:
        mount("size=2m")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("file systems cannot be mounted here")
    yield place, lambda: mount("remount", "size=64m")
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_is_said_and_a_rerun_after_making_room_is_right(
    spark, little_disk, tmp_path: Path
) -> None:
    place, make_room = little_disk
    (tmp_path / "in").mkdir()
    titles = [os.urandom(3000).hex() for _ in range(600)]
    rows = [canal("INSERT", {"id": str(n), "title": title}) for n, title in enumerate(titles)]
    (tmp_path / "in" / "a.jsonl").write_bytes(b"\n".join(rows))
    spec = Migration.model_validate(
        {
            "name": "full_disk",
            "source": {"files": {"path": str(tmp_path / "in"), "topic": "t"}, "envelope": "canal"},
            "lake": {"warehouse": str(place / "lake")},
        }
    )
    with pytest.raises(
        UnavailableError, match=r"no space left for the lake .*/disk/lake: make room"
    ):
        run_migration(spec, batch="b1", spark=spark)
    make_room()
    run_migration(spec, batch="b1", spark=spark)
    found = [row["title"] for row in read_table(spec, spark=spark)]
    assert found == titles
