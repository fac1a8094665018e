"""What holds for every page: headings and names, addresses, and how much is read."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from airflow.api_fastapi.core_api.datamodels.plugins import ExternalViewResponse

from tests.dags.asking import (
    HELD,
    read,
    until_idle,
)
from waybill.storage.file_store import LocalStore
from waybill_airflow import plugin
from waybill_airflow.web import (
    airflow_runs,
    lake_outlines,
)
from waybill_airflow.web.airflow_runs import RunFacts

pytestmark = pytest.mark.airflow


@pytest.mark.parametrize(
    "path", ["/migrations", "/dags/orders_held", f"/batches/orders_held/{HELD}", "/dags/nobodys"]
)
def test_pages_have_what_screen_readers_go_by(client, path):
    page = read(client, path)
    tags = [tag for tag, _ in page.tags]
    assert tags.count("h1") == tags.count("main") == 1
    assert "title" in tags[: tags.index("body")]
    assert dict(page.tags)["html"]["lang"] == "en"
    headings = [int(tag[1]) for tag in tags if re.fullmatch("h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in pairwise(headings))
    for tag, attrs in page.tags:
        if tag == "th":
            assert attrs.get("scope") in ("col", "row")
        if tag == "svg":
            assert (attrs["role"], bool(attrs["aria-label"])) == ("img", True)
    named = page.attributes("id")
    assert len(named) == len(set(named))
    assert set(page.attributes("aria-labelledby")) <= set(named)


def test_everything_is_below_the_path_of_airflow(client, monkeypatch):
    from waybill_airflow.web import rendering

    monkeypatch.setattr(rendering, "base_path", lambda: "/data/airflow")
    for path in ("/migrations", "/dags/orders_held", f"/batches/orders_held/{HELD}"):
        page = read(client, path)
        addresses = ("href", "src", "data-api", "data-runs")
        for place in (place for name in addresses for place in page.attributes(name)):
            assert place.startswith(("/data/airflow/", "#")), place


def test_the_views_are_what_airflow_takes(monkeypatch):
    monkeypatch.setattr(plugin, "base_path", lambda: "/data")
    found = plugin.views()
    assert [view["destination"] for view in found] == ["nav", "dag", "dag_run"]
    assert len({view["url_route"] for view in found}) == len(found)
    for view in found:
        assert ExternalViewResponse.model_validate(view).href.startswith("/data/waybill/")
    monkeypatch.setenv("WAYBILL_TABS", "off")
    assert [view["destination"] for view in plugin.views()] == ["nav"]
    monkeypatch.setenv("WAYBILL_TABS", "maybe")
    with pytest.raises(Exception, match="WAYBILL_TABS is 'maybe': set it to on or off"):
        plugin.views()


@pytest.fixture
def reads(monkeypatch):
    """The files of lakes that are read."""
    found: list[str] = []
    original = LocalStore.read

    def noted(self, name):
        found.append(str(Path(self.root, name)))
        return original(self, name)

    monkeypatch.setattr(LocalStore, "read", noted)
    return found


def test_a_page_reads_a_handful_of_files(client, manager, reads, monkeypatch):
    monkeypatch.setattr(lake_outlines, "_here", {})
    client.get("/migrations")
    local = len(manager.known) - 2
    assert len(reads) == 2 * local, "two for each migration whose lake is here"
    assert {Path(place).name for place in reads} == {"_index.json", "_source.json"}
    reads.clear()
    client.get("/migrations")
    assert reads == [], "nothing has changed since"
    for path, names in (
        ("/dags/orders_held", ["_index.json", "_source.json"]),
        (f"/batches/orders_held/{HELD}", ["waybill.json"]),
    ):
        reads.clear()
        client.get(path)
        assert [Path(place).name for place in reads] == names


def test_the_list_says_how_old_is_what_it_shows_of_object_storage(client, monkeypatch):
    # Pages of other tests may have asked: their answers would come in between.
    until_idle(lake_outlines._behind)
    monkeypatch.setattr(lake_outlines, "_away", {})
    page = read(client, "/migrations")
    assert page.attributes("data-again") == []
    assert "What lakes in object storage" not in page.text
    ((folder, (when, said)),) = lake_outlines._away.items()
    lake_outlines._away[folder] = when - lake_outlines.FRESH - 2, said
    page = read(client, "/migrations")
    assert "Figures of one lake in object storage are up to 12 s old; newer ones" in page.text
    assert page.attributes("data-again") == ["3000"]
    assert "/waybill/static/again.js" in page.attributes("src")
    until_idle(lake_outlines._behind)
    page = read(client, "/migrations")
    assert page.attributes("data-again") == []
    assert "What lakes in object storage" not in page.text


def test_files_of_migrations_are_read_once_while_they_stay(client, shown, monkeypatch):
    from waybill_airflow.web import known_migrations

    client.get("/migrations")
    loaded = []
    monkeypatch.setattr(known_migrations, "load_migration", loaded.append)
    client.get("/migrations")
    assert loaded == []


def test_runs_are_found_in_airflows_database(airflow_home):
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from airflow.utils.types import DagRunType
    from sqlalchemy import insert

    moment = datetime(2026, 11, 26, 16, tzinfo=UTC)
    with create_session() as session:
        for number, (state, conf) in enumerate([("success", {}), ("failed", {"batch": "b-9"})]):
            run = DagRun(
                dag_id="pages",
                run_id=f"r{number}",
                run_after=moment + timedelta(hours=number),
                run_type=DagRunType.MANUAL,
                state=state,
                conf=conf,
            )
            session.add(run)
        session.flush()
        states = {"publish": "failed", "merge": "failed", "ask": "failed", "validate": None}
        for task, state in states.items():
            # Only a task of a DAG makes one by itself.
            row = {"dag_id": "pages", "run_id": "r1", "task_id": task, "state": state}
            session.execute(insert(TaskInstance.__table__).values(pool="default_pool", **row))
    try:
        assert airflow_runs.run_of("pages", "r1") == RunFacts("r1", "failed", "b-9", "merge")
        assert airflow_runs.run_of("pages", "r0").stage == ""
        assert airflow_runs.run_of("pages", "r7") is None
        found = airflow_runs.runs_by_batch("pages", 10)
        assert found["b-9"].run_id == "r1"
        assert [run.run_id for run in found.values() if run.batch.startswith("20261126T16")] == [
            "r0"
        ]
        assert found["b-9"].stage == "merge"
        known = {task: state or "" for task, state in states.items()}
        assert airflow_runs.task_states("pages", "r1") == known
        assert airflow_runs.task_states("pages", "r0") == {}
        assert airflow_runs.dag_facts(["pages"]) == {}, "Airflow does not know the DAG itself"
    finally:
        with create_session() as session:
            for table in (TaskInstance, DagRun):
                session.query(table).filter(table.dag_id == "pages").delete()
