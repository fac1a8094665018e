"""Runs of a DAG from its first stage to its last, through Airflow's own task runner."""

from __future__ import annotations

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import select

from tests.dags.conftest import PROJECT
from waybill.report import STAGES
from waybill_airflow.params import batch_of

pytestmark = pytest.mark.airflow


@pytest.fixture
def run(airflow_home, migrations, fake_stages):
    """Runs the DAG of a small migration; returns the run, its states and its reports."""
    migrations("small")

    def start(**conf):
        bag = DagBag(PROJECT / "dags", known_pools={"default_pool"}, load_op_links=False)
        run = bag.dags["small"].test(run_conf=conf)
        states = {ti.task_id: str(ti.state) for ti in run.get_task_instances()}
        with create_session() as session:
            rows = session.scalars(select(XComModel).where(XComModel.run_id == run.run_id)).all()
            values = {(row.task_id, row.key): XComModel.deserialize_value(row) for row in rows}
        return run, states, values

    return start


@pytest.mark.spark
def test_every_stage_gets_the_batch_of_the_run_and_returns_its_report(run, fake_stages):
    ended, states, values = run()
    assert states == dict.fromkeys(STAGES, "success")
    calls = fake_stages()
    assert [stage for stage, _ in calls] == list(STAGES)
    batch = batch_of(ended)
    assert {given["--batch"] for _, given in calls} == {batch}
    assert {given["--mode"] for _, given in calls} == {"incremental"}
    assert not any({"--until-time", "--drop-held", "--keys"} & given.keys() for _, given in calls)
    for stage in STAGES:
        assert values[stage, "return_value"]["batch"] == batch
        assert values[stage, "_link_BatchLink"] == f"/waybill/batches/small/{batch}"
    assert values["validate", "_link_GateReportLink"] == f"/waybill/gate/small/{batch}"


def test_what_the_form_says_reaches_the_stages(run, fake_stages):
    _, states, values = run(
        batch="by-hand.1",
        mode="reload",
        tables="shop.orders",
        keys="differing",
        until="merge",
        until_time="2026-11-20T06:00:00+01:00",
        drop_held=True,
    )
    assert states == {
        **dict.fromkeys(STAGES[:3], "success"),
        **dict.fromkeys(STAGES[3:], "skipped"),
    }
    calls = fake_stages()
    assert [stage for stage, _ in calls] == list(STAGES[:3])
    assert {given["--batch"] for _, given in calls} == {"by-hand.1"}
    assert {given["--mode"] for _, given in calls} == {"reload"}
    assert {given["--tables"] for _, given in calls} == {"shop.orders"}
    assert {given["--keys"] for _, given in calls} == {"differing"}
    assert {given["--until-time"] for _, given in calls} == {"2026-11-20T06:00:00+01:00"}
    assert {given["--drop-held"] for _, given in calls} == {"yes"}
    assert not values.get(("validate", "_link_GateReportLink"))


def test_a_gate_that_says_no_ends_the_run_at_once(run, fake_stages):
    no = {"kind": "GateError", "message": "no", "transient": False, "exit_code": 3}
    fake_stages("validate", no)
    ended, states, values = run()
    assert str(ended.state) == "failed"
    assert states["validate"] == "failed"
    assert states["publish"] == "upstream_failed"
    assert [stage for stage, _ in fake_stages()] == ["snapshot", "convert", "merge", "validate"]
    assert values["validate", "_link_GateReportLink"].endswith(batch_of(ended))
