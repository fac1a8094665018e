"""Buttons that open the trigger form filled in."""

from __future__ import annotations

import json

import pytest

from tests.dags.asking import (
    HELD,
    Read,
    read,
)
from tests.dags.showcase import Showcase
from waybill_airflow.params import trigger_form
from waybill_airflow.web.airflow_runs import DagFacts, RunFacts

pytestmark = pytest.mark.airflow


def buttons(page: Read) -> list[dict]:
    return [json.loads(text) for text in page.attributes("data-conf")]


@pytest.mark.parametrize(
    ("name", "confs"),
    [
        ("orders_held", [{"drop_held": True}, {"mode": "replay"}]),
        ("customers_refusing", [{"mode": "replay"}, {}, {"mode": "full"}, {"mode": "replay"}]),
        ("stock_fine", [{}, {"mode": "full"}, {"mode": "replay"}]),
        ("prices_new", [{}]),
    ],
)
def test_buttons_fill_in_what_airflow_takes(client, name, confs):
    every = buttons(read(client, f"/dags/{name}"))
    found = [conf for conf in every if conf.get("mode") != "reload"]
    assert found == confs
    form = trigger_form()
    for conf in found:
        for field, value in conf.items():
            assert form[field].resolve(value) == value


def test_each_table_can_be_loaded_again(client):
    page = read(client, "/dags/stock_fine")
    confs = [conf for conf in buttons(page) if conf.get("mode") == "reload"]
    assert confs
    form = trigger_form()
    for conf in confs:
        assert conf["tables"] in page.text
        assert form["mode"].resolve("reload") == "reload"
        assert form["tables"].resolve(conf["tables"]) == conf["tables"]


def test_the_form_has_the_fields_of_the_dag(client):
    page = read(client, "/dags/orders_held")
    inputs = {a["name"]: (tag, a) for tag, a in page.tags if tag in ("select", "input")}
    form = trigger_form()
    assert list(inputs) == list(form)
    for name, (tag, attrs) in inputs.items():
        wanted = "select" if "enum" in form[name].schema else "input"
        assert tag == wanted
        assert attrs["aria-describedby"] == f"help-{name}"
        assert attrs.get("data-default", "") == (form[name].value or "")
    modes = [a["value"] for tag, a in page.tags if tag == "option"]
    fields = ("mode", "keys", "until")
    assert modes == [value for name in fields for value in form[name].schema["enum"]]
    (api,) = page.attributes("data-api")
    assert api == "/api/v2/dags/orders_held/dagRuns"


def test_who_may_not_start_runs_gets_no_button(client, manager):
    manager.triggers = False
    page = read(client, "/dags/orders_held")
    assert buttons(page) == []
    assert page.attributes("data-api") == []
    assert "trigger.js" not in str(page.tags)
    assert "waybill run" in page.text


def test_a_run_that_is_under_way_is_said_so(client, runs):
    runs.dags["stock_fine"] = DagFacts(last=RunFacts("r1", "running", "b-1"))
    page = read(client, "/dags/stock_fine")
    assert "A run is running" in page.text
    assert "/dags/stock_fine/runs/r1" in page.attributes("href")
    runs.dags["stock_fine"] = DagFacts(last=RunFacts("r1", "success", "b-1"))
    assert "A run is" not in read(client, "/dags/stock_fine").text


def test_a_batch_that_the_gate_looks_at_now_is_not_held(client, runs, tmp_path, monkeypatch):
    showcase = Showcase(tmp_path)

    def merged(lake):
        lake.snapshot(HELD, 10)
        lake.convert(HELD)
        lake.merge(HELD)

    showcase.with_lake("orders", merged, batches=1)
    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(showcase.migrations))
    runs.dags["orders"] = DagFacts(last=RunFacts("r1", "running", HELD))
    page = read(client, "/dags/orders")
    assert "10 messages in the archive will be published next" in page.text
    assert "held" not in [attrs.get("class") for tag, attrs in page.tags if tag == "section"]
    runs.dags["orders"] = DagFacts(last=RunFacts("r1", "success", HELD))
    assert "was merged and not judged" in read(client, "/dags/orders").text


def test_a_paused_dag_is_said_so(client, runs):
    runs.dags["orders_held"] = DagFacts(paused=True)
    assert "The DAG is paused" in read(client, "/dags/orders_held").text
