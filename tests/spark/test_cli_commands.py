"""The commands that look into the lake: what they print, as JSON and as tables."""

from __future__ import annotations

import json
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from tests.spark.test_jobs import canal
from waybill import jobs
from waybill.cli import quarantine, status, tables, upkeep
from waybill.cli.tables import ChangeFilter
from waybill.errors import ConfigurationError, GateError
from waybill.lake import Lake

pytestmark = pytest.mark.spark


@pytest.fixture(params=["spark", "without spark"])
def file(spark, migration, tmp_path: Path, monkeypatch, request) -> Path:
    """A migration that has run: an update, a late duplicate, a deleted row, a broken message."""
    spec = migration(publish=[{"envelope": "canal", "files": {"path": str(tmp_path / "out")}}])
    spec.quality.max_refused_share = 1
    messages = [
        canal("INSERT", {"id": "7", "title": "first"}, {"id": "8", "title": "other"}),
        canal("UPDATE", {"id": "7", "title": "second"}, old=[{"title": "first"}]),
        canal("DELETE", {"id": "8", "title": "other"}),
        b'{"broken": \xff',
    ]
    (tmp_path / "in" / "a.jsonl").write_bytes(b"\n".join(messages))
    jobs.run_migration(spec, batch="b1", spark=spark)
    path = tmp_path / "shop.yaml"
    path.write_text(spec.model_dump_json(exclude_defaults=True))

    @contextmanager
    def opened(spec):
        yield Lake.open(spark, spec)

    monkeypatch.setattr(upkeep, "open_lake", opened)
    if request.param == "spark":
        for module in (quarantine, status, tables):
            monkeypatch.setattr(module, "look_into", opened)
        monkeypatch.setattr(tables, "without_spark", lambda spec: nullcontext(None))
    return path


def printed(capsys) -> list[dict]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_looking_into_the_lake(file: Path, capsys) -> None:
    status.status_command(file, as_json=True)
    *stages, merged, gate = printed(capsys)
    assert [stage["batch"] for stage in stages] == ["b1"] * 5
    assert merged["tables"]["shop.orders"] == {
        "rows": 1,
        "sequence": None,
        "time": "2023-11-14T22:13:20Z",
        "column changes": [],
    }
    assert gate["gate"]["outcome"] == "passed"

    tables.table_command(file, None, tables.Output(json=True), "b1")
    assert printed(capsys) == [{"id": "7", "title": "second"}]

    tables.changes_command(file, ChangeFilter(None, "7", 100), as_json=True)
    assert [(row["operation"], row["outcome"]) for row in printed(capsys)] == [
        ("insert", "superseded: shop/0/1/0 is newer"),
        ("update", "won, it is the newest: this is the row"),
    ]
    tables.changes_command(file, ChangeFilter("shop.orders", None, 2), as_json=False)
    shown = capsys.readouterr()
    assert "only the first 2 changes" in shown.err
    with pytest.raises(ConfigurationError, match=r"no changes of table shop\.order; did you mean"):
        tables.changes_command(file, ChangeFilter("shop.order", None, 2), as_json=False)

    quarantine.list_command(file, None, None, 10, as_json=True)
    (refused,) = printed(capsys)
    assert (refused["kind"], refused["offset"], refused["by"]) == ("json", 3, "convert")
    quarantine.show_command(file, "shop/0/3", raw=False, as_json=True)
    (shown,) = printed(capsys)
    assert shown["value_base64"] == "eyJicm9rZW4iOiD/"
    with pytest.raises(ConfigurationError, match="no message at shop/0/1 was refused"):
        quarantine.show_command(file, "shop/0/1", raw=False, as_json=True)

    upkeep.upkeep_command(file, "30d", as_json=True)
    assert {row["table"].rpartition(".")[2] for row in printed(capsys)} >= {
        "archive",
        "shop_orders",
    }
    with pytest.raises(ConfigurationError, match=r"--snapshots 1x: write a length of time"):
        upkeep.upkeep_command(file, "1x", as_json=True)


def test_what_the_gate_holds(spark, file: Path, tmp_path: Path, capsys) -> None:
    with pytest.raises(ConfigurationError, match="no batch waits for the gate"):
        tables.table_command(file, None, tables.Output(json=True), None, held=True)
    messages = [
        canal("UPDATE", {"id": "7", "title": "third"}, old=[{"title": "second"}]),
        canal("INSERT", {"id": "9", "title": "ninth"}),
        b"broken",
    ]
    (tmp_path / "in" / "b.jsonl").write_bytes(b"\n".join(messages))
    spec = jobs.loaded(file)
    spec.order.ambiguous = "partition"
    spec.quality.max_refused_share = 0
    with pytest.raises(GateError, match=rf"fix the cause, then `waybill run {file} --drop-held`"):
        jobs.run_migration(spec, batch="b2", spark=spark)
    status.status_command(file, as_json=True)
    merge = next(line for line in printed(capsys) if line.get("stage") == "merge")
    assert (merge["held"], merge["batch"], merge["batches"]) == ("b2", "b2", 2)
    status.status_command(file, as_json=False)
    assert (
        "held: batch b2 is merged and has not passed the gate; its tables: "
        f"waybill table {file} --held"
    ) in capsys.readouterr().out
    tables.table_command(file, None, tables.Output(json=True), None, held=False)
    assert printed(capsys) == [{"id": "7", "title": "second"}]
    tables.table_command(file, None, tables.Output(json=True), None, held=True)
    assert printed(capsys) == [{"id": "7", "title": "third"}, {"id": "9", "title": "ninth"}]
    tables.changes_command(file, ChangeFilter(None, None, 100, held=True), as_json=True)
    assert [row["after"]["title"] for row in printed(capsys)] == ["third", "ninth"]
    for held, outcomes in (
        (False, ["superseded", "won", "not merged yet"]),
        (True, ["superseded", "superseded", "won"]),
    ):
        tables.changes_command(file, ChangeFilter(None, "7", 100, held), as_json=True)
        found = [row["outcome"].partition(":")[0].partition(",")[0] for row in printed(capsys)]
        assert found == outcomes
    with pytest.raises(
        ConfigurationError, match=rf"b2 waits for the gate: `waybill table {file} --h"
    ):
        tables.table_command(file, None, tables.Output(json=True), "b2")
    with pytest.raises(ConfigurationError, match="name one"):
        tables.table_command(file, None, tables.Output(json=True), "b1", held=True)
    spec.quality.max_refused_share = 1
    jobs.run_migration(spec, batch="b2", spark=spark)
    with pytest.raises(ConfigurationError, match="no batch waits for the gate"):
        tables.changes_command(file, ChangeFilter(None, None, 100, held=True), as_json=True)
