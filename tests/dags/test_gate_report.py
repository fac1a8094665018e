"""The gate's report in the dress of the pages: made of its figures, with what came before."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.api_fastapi.core_api import security
from airflow.models.log import Log
from airflow.utils.session import create_session
from fastapi.testclient import TestClient
from sqlalchemy import select

from tests.dags.showcase import HOSTILE, Showcase
from tests.unit.validate.test_measured import rule, shares, spoken
from tests.unit.validate.test_page import result
from waybill.validate.measured import trend_of
from waybill.validate.result import Checked, count_sentence, sentence_of
from waybill.validate.results import DATA, PAGE, TREND, keep, reports_folder
from waybill.validate.trends import Spoken
from waybill_airflow.web import app, rights
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


class Manager:
    """Lets everybody see runs, and those who may read logs read them."""

    logs = True

    def is_authorized_dag(self, *, access_entity=None, **_more):
        return self.logs or access_entity != security.DagAccessEntity.TASK_LOGS


@pytest.fixture
def manager(monkeypatch):
    found = Manager()
    no_team = SimpleNamespace(get_team_name=lambda _dag_id: None)
    for module in (security, rights):
        monkeypatch.setattr(module, "get_auth_manager", lambda: found)
        monkeypatch.setattr(module, "DagModel", no_team)
    return found


@pytest.fixture
def client(manager, airflow_home):
    """Somebody who may see runs."""
    made = app.make_app()
    user = SimpleNamespace(name="ann", get_name=lambda: "ann")
    made.dependency_overrides[security.get_user] = lambda: user
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
    shown = words(text)
    assert "0.04 from 0 to 0.05" in shown
    assert "Published: yes, 20" in shown
    assert text.count("<polyline") == 1
    assert "b-7: failed" in shown
    assert "1 expectation is met" in shown
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


KEY = "ann@example.com"
OF_ROWS = {"observed": [{"where": KEY, "value": "secret value"}], "unexpected": 120}


def of_rows() -> Checked:
    """A rule on rows that is not met, as the gate has it."""
    look = f"waybill changes FILE --table shop.orders --key {KEY}"
    return replace(rule(False, look=look, **OF_ROWS), table="shop.orders")


def test_keys_and_values_of_rows_are_for_who_may_read_logs(place, client, manager):
    difference = {"target": "t", "table": "x", "change": "c", "what": "another secret value"}
    kept(place, HELD, checks=[of_rows()], outcome="failed", differences=[difference])
    text = client.get(f"/gate/orders/{HELD}").text
    assert text.count(KEY) == 2, "the row, and its command"
    assert "another secret value" in text
    with create_session() as session:
        logged = session.scalars(select(Log).where(Log.event == "waybill_gate_report")).all()
        assert ("orders", "ann") in {(row.dag_id, row.owner) for row in logged}
    manager.logs = False
    text = client.get(f"/gate/orders/{HELD}").text
    assert KEY not in text
    assert "secret value" not in text
    assert "120 rows" in words(text)
    assert "shown to users who may read the logs" in text


@pytest.mark.parametrize("success", [True, False])
def test_values_of_earlier_batches_are_for_who_may_read_logs(place, client, manager, success):
    """Of a rule that measures a value of rows, figures of the batches before are values, too."""
    most = {"column": "salary", "max_value": 300_000}
    type_ = "expect_column_max_to_be_between"

    def of(value: float) -> Checked:
        found = [{"where": "", "value": value}]
        check = rule(success, type=type_, arguments=most, observed=found)
        return replace(check, table="shop.staff", profile="rows of shop.staff")

    before = [
        Spoken("passed", "t", result(batch=f"b-{i}", checks=[of(value)]).to_dict())
        for i, value in enumerate((184_250.0, 251_700.0))
    ]
    now = result(batch=HELD, checks=[of(199_999.0)], outcome="failed")
    keep(place.file("orders"), now, trend_of(now, before))
    shown = client.get(f"/gate/orders/{HELD}").text
    figures = ("184\u202f250", "251\u202f700", "199\u202f999")
    assert all(figure in shown for figure in figures)
    assert shown.count("<polyline") == 1
    manager.logs = False
    hidden = client.get(f"/gate/orders/{HELD}").text
    assert not any(figure in hidden for figure in figures)
    assert "<polyline" not in hidden
    cells = re.findall(r'<td class="n[^"]*">(.*?)</td>\s*<td class="allowed">(.*?)<', hidden)
    assert cells == [("", "at most 300\u202f000")], "no figure, and not the figure zero"


def test_a_page_that_was_kept_is_for_who_may_read_logs(place, client, manager):
    folder = kept(place, BATCH, checks=[of_rows()])
    (folder / DATA).write_text("{")
    assert KEY in client.get(f"/gate/orders/{BATCH}").text
    manager.logs = False
    answer = client.get(f"/gate/orders/{BATCH}")
    assert answer.status_code == 403
    assert KEY not in answer.text


@pytest.mark.parametrize(
    ("type_", "shown"),
    [("expect_column_max_to_be_between", False), ("expect_table_row_count_to_equal", True)],
)
def test_what_is_observed_of_a_whole_column_is_a_value(type_, shown):
    """Such as its largest value, or all that it has; how many rows there are is none."""
    check = replace(
        of_rows(), type=type_, observed=[{"where": "", "value": KEY}], unexpected=None, look=""
    )
    assert KEY in sentence_of(check)
    assert (KEY in count_sentence(check)) is shown


def test_a_sentence_for_everybody_counts_rows():
    assert KEY in sentence_of(of_rows())
    assert KEY not in count_sentence(of_rows())
    assert count_sentence(of_rows()).endswith("(120 rows)")


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
