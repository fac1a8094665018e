"""The gate's report in the dress of the pages: made of its figures, with what came before."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.api_fastapi.core_api import security
from fastapi.testclient import TestClient

from tests.dags.showcase import HOSTILE, Showcase
from tests.unit.validate.test_measured import rule, shares, spoken
from tests.unit.validate.test_page import result
from waybill.validate.measured import trend_of
from waybill.validate.results import DATA, PAGE, TREND, keep, reports_folder
from waybill_airflow.web import app
from waybill_airflow.web.headers import HEADERS, REPORT_HEADERS

pytestmark = pytest.mark.airflow

BATCH, HELD = "20261126T010000.000-000001", "20261126T210000.000-held00"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A migration with batches."""
    showcase = Showcase(tmp_path)

    def held(lake) -> None:
        lake.snapshot(HELD, 500)
        lake.convert(HELD)
        lake.validate(HELD, lake.merge(HELD), passes=False)

    showcase.with_lake("orders", held, batches=3)
    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(showcase.migrations))
    return showcase


@pytest.fixture
def client(monkeypatch):
    """Somebody who may see runs."""
    manager = SimpleNamespace(is_authorized_dag=lambda **_more: True)
    monkeypatch.setattr(security, "get_auth_manager", lambda: manager)
    no_team = SimpleNamespace(get_team_name=lambda _dag_id: None)
    monkeypatch.setattr(security, "DagModel", no_team)
    made = app.make_app()
    made.dependency_overrides[security.get_user] = lambda: SimpleNamespace(name="ann")
    return TestClient(made)


def kept(place, batch: str, **fields) -> Path:
    spec = place.file("orders")
    before = [spoken(f"b-{i}", 0.01 * i, "passed" if i < 6 else "failed") for i in range(8)]
    now = result(batch=batch, profiles=shares(0.04), **{"checks": [rule()], **fields})
    keep(spec, now, trend_of(now, before))
    return Path(reports_folder(spec, batch))


def words(text: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


def test_it_has_the_style_sheet_and_the_policy_of_the_pages(place, client):
    kept(place, BATCH)
    answer = client.get(f"/gate/orders/{BATCH}")
    assert answer.status_code == 200
    policy = answer.headers["Content-Security-Policy"]
    assert policy == HEADERS["Content-Security-Policy"]
    assert "static/waybill.css" in answer.text
    assert "<style" not in answer.text
    assert " style=" not in answer.text
    assert f"/batches/orders/{BATCH}" in answer.text


def test_it_says_measured_allowed_the_batches_before_and_whether_it_is_published(place, client):
    kept(place, BATCH)
    text = client.get(f"/gate/orders/{BATCH}").text
    told = words(text)
    assert "0.04 from 0 to 0.05" in told
    assert "Published: yes, 20" in told
    assert text.count("<polyline") == 1
    assert "b-7: failed" in told
    assert "1 expectation is met" in told
    assert '<div class="verdict passed">' in text


def test_a_held_batch_says_what_to_run(place, client):
    look = "waybill quarantine list FILE"
    failed = rule(False, look=look, observed=[{"where": HOSTILE, "value": 3}])
    kept(place, HELD, checks=[failed], outcome="failed")
    text = client.get(f"/gate/orders/{HELD}").text
    assert "Published: no. The gate holds the batch." in words(text)
    assert f'<code class="command" tabindex="0">{look}</code>' in text
    assert "<script>alert" not in text
    assert '<div class="verdict failed">' in text


@pytest.mark.parametrize("content", ["{", "[]", '{"checks": []}', '"x"', "null"])
def test_figures_of_another_kind_leave_the_page_that_was_kept(place, client, content):
    folder = kept(place, BATCH)
    (folder / DATA).write_text(content)
    answer = client.get(f"/gate/orders/{BATCH}")
    assert answer.status_code == 200
    assert answer.text == (folder / PAGE).read_text()
    sandboxed = REPORT_HEADERS["Content-Security-Policy"]
    assert answer.headers["Content-Security-Policy"] == sandboxed


def test_a_report_without_a_trend_is_whole(place, client):
    folder = kept(place, BATCH)
    (folder / TREND).unlink()
    text = client.get(f"/gate/orders/{BATCH}").text
    assert "0.04" in words(text)
    assert "<polyline" not in text


def test_a_batch_without_an_account_does_not_say_what_nobody_knows(place, client):
    kept(place, "long-gone")
    text = client.get("/gate/orders/long-gone").text
    assert "Whether it was published is not known any more." in words(text)
