"""A driver that stays, asked over HTTP as Airflow's tasks ask it."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import httpx
import pytest
import uvicorn

from tests.spark.test_jobs import canal
from waybill import jobs
from waybill.driver.client import ask
from waybill.driver.server import application, listening
from waybill.driver.work import Work
from waybill.errors import DriverError
from waybill.report import StageReport

pytestmark = pytest.mark.spark

TOKEN = "a token of the tests"


@contextmanager
def served(work: Work, end: Callable[[], None]) -> Iterator[str]:
    """Address of a driver."""
    server = uvicorn.Server(listening(application(work, TOKEN, end), "127.0.0.1", 0))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


@pytest.fixture
def url(spark, caplog, tmp_path: Path) -> Iterator[str]:
    """Address of a driver on the tests' session."""
    caplog.set_level("INFO", "waybill")
    with served(Work(spark, tmp_path), pytest.fail) as address:
        yield address


@pytest.fixture
def order(migration, tmp_path: Path) -> dict[str, Any]:
    """A snapshot of a migration in a file."""
    spec = migration(publish=[{"envelope": "canal", "files": {"path": str(tmp_path / "out")}}])
    (tmp_path / "in" / "a.jsonl").write_bytes(canal("INSERT", {"id": "1", "title": "one"}))
    file = tmp_path / "demo.json"
    file.write_text(spec.model_dump_json(), encoding="utf-8")
    return {"stage": "snapshot", "migration": str(file), "batch": "b1"}


@pytest.fixture
def stage(monkeypatch) -> Callable[[Callable[..., StageReport]], None]:
    """Puts a function in the place of the stage snapshot."""

    def put(run: Callable[..., StageReport]) -> None:
        module = ModuleType("tests.a_stage")
        module.run_snapshot = run  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(jobs.STAGE_FUNCTIONS, "snapshot", module.__name__)

    return put


def test_a_batch_through_all_stages(url, order, spark) -> None:
    said: list[str] = []
    reports = [
        ask(url, TOKEN, {**order, "stage": stage}, lambda line, _level: said.append(line))["report"]
        for stage in jobs.STAGES
    ]
    assert [report["stage"] for report in reports] == list(jobs.STAGES)
    assert reports[-1]["rows_out"] == 1
    # What the shuffles were cut for, and into how many pieces, is in the waybill.
    sizes = [report["details"]["sizes"] for report in reports[1:4]]
    assert all(size["bytes"] > 0 and size["shuffle_partitions"] == 1 for size in sizes)
    assert "snapshot: 1 message in the archive" in said
    assert list(jobs.read_table(order["migration"], spark=spark)) == [{"id": "1", "title": "one"}]
    again = ask(url, TOKEN, order, lambda *_: None)
    assert again["report"]["repeated"]


def test_what_is_wrong_with_a_stage_comes_back_as_from_a_submission(url, order) -> None:
    levels: list[str] = []
    Path(order["migration"]).write_text("name: demo\n")
    result = ask(url, TOKEN, order, lambda _line, level: levels.append(level))
    assert result["error"]["kind"] == "SpecificationError"
    assert result["error"]["message"].startswith("demo.json cannot be used as a migration")
    assert not result["error"]["transient"]
    assert levels == ["ERROR"]


def test_line_ends_of_unicode_are_no_end_of_an_answer(url, order, stage) -> None:
    said: list[str] = []
    strange = "a\u2028b\u2029c\x85d"

    def look(_spec: Any, context: Any) -> StageReport:
        context.progress("%s", strange)
        return StageReport("snapshot", context.batch, details={strange: 1})

    stage(look)
    report = ask(url, TOKEN, order, lambda line, _level: said.append(line))["report"]
    assert report["details"] == {strange: 1}
    assert said[0] == f"snapshot: {strange}"


def test_a_driver_without_spark_ends(order, tmp_path) -> None:
    ended: list[bool] = []
    gone = Work(SimpleNamespace(sparkContext=None), tmp_path)
    again = pytest.raises(DriverError, match=r"503: .*start the driver again")
    with served(gone, lambda: ended.append(True)) as address, again as caught:
        ask(address, TOKEN, order, lambda *_: None)
    assert caught.value.transient
    assert ended == [True]


def test_a_driver_whose_spark_ends_in_a_stage_ends_after_it(order, monkeypatch, tmp_path) -> None:
    ended: list[bool] = []
    work = Work(SimpleNamespace(sparkContext=None), tmp_path)
    alive = iter([True, False])
    monkeypatch.setattr(Work, "alive", property(lambda _self: next(alive)))
    monkeypatch.setattr(Work, "lines", lambda _self, _order: iter_of({"result": {"error": {}}}))
    with served(work, lambda: ended.append(True)) as address:
        assert ask(address, TOKEN, order, lambda *_: None) == {"error": {}}
    assert ended == [True]


def iter_of(*lines: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from lines


@pytest.mark.parametrize("token", ["another", "ä"])
def test_nothing_runs_without_the_token(url, order, token) -> None:
    headers = {"Authorization": f"Bearer {token}".encode()}
    answer = httpx.post(f"{url}/stages", json=order, headers=headers)
    assert answer.status_code in (401, 403)
    with pytest.raises(DriverError, match="token") as caught:
        ask(url, "another", order, lambda *_: None)
    assert not caught.value.transient


def test_an_order_that_makes_no_sense_is_refused_without_its_secrets(url, order) -> None:
    wrong = {**order, "stage": "snapshots", "connections": {"x": {"password": "hidden"}}}
    with pytest.raises(DriverError, match=r"stage: .*one of snapshot, ") as caught:
        ask(url, TOKEN, wrong, lambda *_: None)
    assert "hidden" not in str(caught.value)
    assert not caught.value.transient


@pytest.mark.parametrize("text", ["2026-11-20T06:00:00", "2026-11-20T07:00:00+01:00"])
def test_a_stage_learns_up_to_when_it_reads(url, order, monkeypatch, text) -> None:
    seen = []

    def look(stage: str, _spec: Any, batch: str, options: Any) -> dict[str, Any]:
        seen.append(options.until_time)
        return {"report": StageReport(stage, batch).to_dict()}

    monkeypatch.setattr("waybill.driver.work.result_of", look)
    ask(url, TOKEN, {**order, "until_time": text}, lambda *_: None)
    ask(url, TOKEN, order, lambda *_: None)
    assert seen == [datetime(2026, 11, 20, 6, tzinfo=UTC), None]


def test_connections_are_there_for_one_stage_only(url, order, stage, monkeypatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KEPT", "before")
    seen: dict[str, str | None] = {}

    def look(spec: Any, context: Any) -> StageReport:
        seen.update({n: os.environ.get(f"AIRFLOW_CONN_{n}") for n in ("KEPT", "OTHER")})
        return StageReport("snapshot", context.batch)

    stage(look)
    connections = {"kept": json.dumps({"conn_type": "kafka"}), "other": "kafka://h:1"}
    ask(url, TOKEN, {**order, "connections": connections}, lambda *_: None)
    assert seen == {"KEPT": connections["kept"], "OTHER": "kafka://h:1"}
    assert os.environ["AIRFLOW_CONN_KEPT"] == "before"
    assert "AIRFLOW_CONN_OTHER" not in os.environ


def test_a_client_that_goes_away_ends_its_stage(url, order, stage, spark) -> None:
    ended = threading.Event()

    def endless(spec: Any, context: Any) -> StageReport:
        def sleep(_rows: Any) -> Iterator[Any]:
            import time

            time.sleep(3600)
            yield 1

        context.progress("sleeping")
        try:
            spark.sparkContext.parallelize([1], 1).mapPartitions(sleep).collect()
        finally:
            ended.set()
        return StageReport("snapshot", context.batch)

    stage(endless)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.stream("POST", f"{url}/stages", json=order, headers=headers) as answer:
        assert json.loads(next(answer.iter_lines()))["log"] == "snapshot: sleeping"
    assert ended.wait(120)
    stage(lambda spec, context: StageReport("snapshot", context.batch, rows_out=3))
    assert ask(url, TOKEN, order, lambda *_: None)["report"]["rows_out"] == 3


def test_a_driver_that_is_not_there_may_come_back(order) -> None:
    with pytest.raises(DriverError, match="cannot be reached") as caught:
        ask("http://127.0.0.1:9", TOKEN, order, lambda *_: None)
    assert caught.value.transient


def test_health_says_when_spark_has_ended(url, tmp_path) -> None:
    assert httpx.get(f"{url}/health").json() == {"status": "idle"}
    ended: list[bool] = []
    gone = Work(SimpleNamespace(sparkContext=None), tmp_path)
    with served(gone, lambda: ended.append(True)) as address:
        assert httpx.get(f"{address}/health").status_code == 503
    assert ended == [True], "whatever keeps the driver starts it again"
