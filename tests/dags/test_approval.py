"""A held batch as a question in Airflow: its tables, its API, its task runner are the real ones."""

from __future__ import annotations

import json
import threading
import time
from types import SimpleNamespace

import pytest
from airflow.api_fastapi.app import create_app
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.dag_processing.dagbag import DagBag
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.sdk.bases.operator import ExecutorSafeguard
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSkipException,
    TaskAwaitingInput,
)
from airflow.utils.session import create_session
from fastapi.testclient import TestClient
from sqlalchemy import select

from tests.dags.conftest import PROJECT
from tests.dags.receivers import Kept
from waybill.report import StageReport
from waybill_airflow import approval
from waybill_airflow.approval import DROP, LEAVE, PUBLISH, answer_of, escaped, question_of
from waybill_airflow.operators import GateOperator

pytestmark = pytest.mark.airflow

RULE = {"rule": "The share of refused messages (found shop: 0.4)", "waivable": True}
NEVER = {"rule": "Counts reconcile across stages", "waivable": False}
ASK = "quality: {on_failure: ask, answer_within: 1h}\n"


def no(batch: str, *rules: dict) -> dict:
    """What a gate leaves behind that says no."""
    details = {"outcome": "failed", "held_for": list(rules), "failed_critical": len(rules)}
    report = {"stage": "validate", "batch": batch, "details": {**details, "verdict": "0123"}}
    error = {"kind": "GateError", "code": "WB-5001", "message": "no", "transient": False}
    return {**error, "exit_code": 3, "report": report}


DROPPED = {
    "kind": "GateError",
    "code": "WB-5007",
    "message": "batch b-1 was dropped",
    "transient": False,
    "exit_code": 3,
}


@pytest.fixture(scope="module")
def people(airflow_home):
    """Clients of Airflow's API, by the name of their user."""
    app = create_app()

    def client(name: str, role: str = "USER") -> TestClient:
        user = SimpleAuthManagerUser(username=name, role=role)
        token = app.state.auth_manager.generate_jwt(user)
        return TestClient(app, headers={"Authorization": f"Bearer {token}"})

    return client


_sleep = time.sleep


class Run:
    """A run of the DAG that is answered while it waits."""

    def __init__(self, people) -> None:
        self.people = people
        self.seen: list[dict] = []
        self.answers: list[tuple[str, dict]] = []
        self.refused: list[int] = []

    def answer(self, by: str, **body) -> Run:
        self.answers.append((by, body))
        return self

    def start(self, batch: str = "b-1"):
        """Run it to its end; returns states and XComs."""
        bag = DagBag(PROJECT / "dags", known_pools={"default_pool"}, load_op_links=False)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(time, "sleep", self._answer)
            run = bag.dags["small"].test(run_conf={"batch": batch})
        states = {ti.task_id: str(ti.state) for ti in run.get_task_instances()}
        with create_session() as session:
            rows = session.scalars(select(XComModel).where(XComModel.run_id == run.run_id)).all()
            values = {(row.task_id, row.key): XComModel.deserialize_value(row) for row in rows}
        return run, states, values

    def _answer(self, seconds: float) -> None:
        """Answer what is asked, where the run would sleep until it is answered.

        Not before, and in its own thread: a run of `DAG.test` writes what it has of its tasks, and
        an answer that comes while it does so is lost.
        """
        if threading.current_thread() is not threading.main_thread():
            _sleep(seconds)
            return
        with create_session() as session:
            waits = TaskInstance.state == "awaiting_input"
            found = session.scalar(select(TaskInstance).where(waits))
            if found is None:
                _sleep(seconds)
                return
            path = (
                f"/api/v2/dags/small/dagRuns/{found.run_id}/taskInstances/validate/-1/hitlDetails"
            )
        assert self.answers, "it is asked once more than there are answers"
        by, body = self.answers.pop(0)
        self.seen.append(self.people(by).get(path).json())
        assert self.people("eve", "VIEWER").patch(path, json=body).status_code == 403
        self.refused.append(self.people(by).patch(path, json=body).status_code)


class Stages:
    """Stands for a driver: stages report, or answer what they are told."""

    def __init__(self) -> None:
        self.asked: list[dict] = []
        self.errors: dict[str, dict] = {}

    def tell(self, stage: str, error: dict) -> None:
        self.errors[stage] = error

    def ask(self, _url, _token, order, _tell) -> dict:
        self.asked.append(order)
        named = f"{order['stage']} decided" if "decision" in order else order["stage"]
        if named in self.errors:
            error = dict(self.errors[named])
            return {"report": error.pop("report", None), "error": error}
        return {"report": StageReport(order["stage"], order["batch"], rows_out=7).to_json_safe()}

    def of(self, stage: str) -> list[dict]:
        return [order for order in self.asked if order["stage"] == stage]


@pytest.fixture
def stages(monkeypatch) -> Stages:
    found = Stages()
    monkeypatch.setenv("AIRFLOW_CONN_WAYBILL_DRIVER", '{"conn_type": "http", "host": "h"}')
    monkeypatch.setattr("waybill_airflow.drivers.ask", found.ask)
    return found


@pytest.fixture
def run(people, migrations, stages):
    migrations("small", more=ASK)
    return Run(people)


def test_publish_as_it_is(run, stages):
    stages.tell("validate", no("b-1", RULE))
    run.answer("ann", chosen_options=[PUBLISH], params_input={"why": ""})
    run.answer("ann", chosen_options=[PUBLISH], params_input={"why": "the bank\nknows"})
    _, states, values = run.start()
    assert run.refused == [200, 200]
    assert set(states.values()) == {"success"}
    first, again = run.seen
    assert first["options"] == [PUBLISH, DROP, LEAVE]
    assert "The share of refused messages" in first["body"]
    assert "(/waybill/gate/small/b-1)" in first["body"]
    assert first["params"]["why"]["schema"]["title"] == "Why"
    assert again["response_received"] is False, "a reason was lacking, so it is asked again"
    asked = stages.of("validate")
    assert len(asked) == 2, "an answer without its reason reaches no stage"
    assert "decision" not in asked[0]
    assert asked[1]["decision"] == {
        "what": "approved",
        "by": "ann",
        "reason": "the bank knows",
        "verdict": "0123",
    }
    assert stages.asked[-1]["stage"] == "publish"
    assert values["validate", "return_value"]["rows_out"] == 7


def test_drop(run, stages):
    stages.tell("validate", no("b-1", RULE, NEVER))
    stages.tell("validate decided", DROPPED)
    run.answer("bob", chosen_options=[DROP])
    _, states, _ = run.start()
    assert run.seen[0]["options"] == [DROP, LEAVE]
    assert "never waived" in run.seen[0]["body"]
    assert (states["validate"], states["publish"]) == ("skipped", "skipped")
    decision = stages.asked[-1]["decision"]
    assert (decision["what"], decision["by"]) == ("dropped", "bob")


def test_leave_held(run, stages, migrations):
    Kept.messages.clear()
    receiver = "{notifier: tests.dags.receivers.Kept, arguments: {message: '{{ alert.text }}'}}"
    migrations("small", more=f"{ASK}alerts: {{to: [{receiver}]}}\n")
    stages.tell("validate", no("b-1", RULE))
    run.answer("ann", chosen_options=[LEAVE])
    ended, states, _ = run.start()
    assert (states["validate"], states["publish"]) == ("failed", "upstream_failed")
    assert str(ended.state) == "failed"
    assert len(stages.of("validate")) == 1
    asked, left = Kept.messages
    assert asked == "WB-5001: no\nAirflow asks what to do, in Required actions."
    assert "ann leaves it held" in left


def test_what_the_gate_refuses_now_fails_and_is_not_asked_again(run, stages):
    stages.tell("validate", no("b-1", RULE))
    stages.tell("validate decided", no("b-1", RULE, NEVER))
    run.answer("ann", chosen_options=[PUBLISH], params_input={"why": "x"})
    _, states, _ = run.start()
    assert states["validate"] == "failed"


def test_without_ask_nobody_is_asked(run, stages, migrations):
    migrations("small")
    stages.tell("validate", no("b-1", RULE))
    _, states, _ = run.start()
    assert states["validate"] == "failed"
    assert run.seen == []


# Without Airflow's tables: what cannot be brought about in a run of a test.


@pytest.fixture
def gate(migrations, fake_stages, monkeypatch):
    monkeypatch.setattr(ExecutorSafeguard, "test_mode", True)
    file = migrations("small", more=ASK)
    return GateOperator(
        task_id="validate",
        stage="validate",
        migration=str(file),
        batch="b-1",
        mode="incremental",
        tables="",
        keys="",
        until="publish",
        until_time="",
        drop_held="",
    )


QUESTION = {"subject": "s", "body": "b", "options": [PUBLISH, DROP, LEAVE], "verdict": "0123"}
CONTEXT = {"dag": SimpleNamespace(dag_id="small")}


def event(*chosen: str, user: dict | None = None, **more) -> dict:
    return {"chosen_options": list(chosen), "params_input": {}, "responded_by_user": user, **more}


def test_no_answer_in_time_leaves_it_held(gate, fake_stages):
    timed_out = event(LEAVE, timedout=True)
    with pytest.raises(AirflowFailException, match="b-1 does not pass the gate, and nobody answer"):
        gate.execute_complete({}, timed_out, QUESTION)
    with pytest.raises(AirflowFailException, match="nobody answered in time"):
        gate.execute_complete({}, {"error": "…", "error_type": "timeout"}, QUESTION)
    assert fake_stages() == []


def test_who_leaves_it_held_and_why_is_said(gate):
    answer = event(LEAVE, user={"id": "7", "name": "ann"}, params_input={"why": "I ask them"})
    with pytest.raises(AirflowFailException, match="ann leaves it held: I ask them; nothing was"):
        gate.execute_complete({}, answer, QUESTION)


def test_the_question_waits_as_long_as_the_migration_says(gate, fake_stages, monkeypatch):
    put = []
    monkeypatch.setattr(approval, "ask", lambda _context, question: put.append(question) or True)
    fake_stages("validate", no("b-1", RULE))
    with pytest.raises(TaskAwaitingInput) as waiting:
        gate.execute(CONTEXT)
    assert waiting.value.timeout.total_seconds() == 3600
    assert waiting.value.kwargs == {"question": put[0]}
    assert waiting.value.method_name == "execute_complete"


def test_a_question_that_airflow_does_not_show_is_not_waited_for(gate, fake_stages, monkeypatch):
    monkeypatch.setattr(approval, "ask", lambda *_: False)
    fake_stages("validate", no("b-1", RULE))
    with pytest.raises(AirflowFailException, match="WB-5001: no; this task has asked about other"):
        gate.execute(CONTEXT)


def test_an_earlier_batch_that_is_held_is_no_question_of_this_task(gate, fake_stages):
    fake_stages("validate", no("b-0", RULE))
    with pytest.raises(AirflowFailException, match=r"WB-5001: no$"):
        gate.execute(CONTEXT)


@pytest.mark.spark
def test_a_submitted_stage_is_handed_the_decision(gate, fake_stages):
    fake_stages("validate decided", DROPPED)
    with pytest.raises(AirflowSkipException, match="WB-5007: batch b-1 was dropped"):
        gate.execute_complete({}, event(DROP), QUESTION)
    ((_, given),) = fake_stages()
    expected = {"what": "dropped", "by": "nobody known to Airflow", "verdict": "0123"}
    decision = json.loads(given["--decision"])
    assert decision == {**expected, "reason": "no reason was given"}


def test_the_question_of_a_verdict_is_always_the_same():
    details = no("b-1", RULE, NEVER)["report"]["details"]
    assert question_of("small", "b-1", details) == question_of("small", "b-1", details)


def test_names_of_others_are_text_and_nothing_else():
    hostile = (
        "<img src=x onerror=alert(1)> [x](javascript:alert(1)) `a` **b** http://evil.test\n# h"
    )
    details = no("b-1", {"rule": hostile * 9, "waivable": True})["report"]["details"]
    body = question_of("small", "b-1", details)["body"]
    assert "<" not in body
    assert "](javascript" not in body
    assert "http://" not in body
    assert "\n# h" not in body
    assert len(body) < 3000
    assert escaped("a_b\x00\u202e|") == "a\\_b\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}\\|"


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (event(PUBLISH, user={"id": "7", "name": ""}), ("approved", "7", "")),
        (event(DROP, params_input={"why": 7}), ("dropped", None, "")),
        (event("Whatever"), (None, None, "")),
        ({}, (None, None, "")),
    ],
)
def test_odd_answers(given, answer):
    assert answer_of(given) == answer
