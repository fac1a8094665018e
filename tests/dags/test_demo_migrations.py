"""Which migrations the demo runs, and which of them may fail."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.dags.conftest import PROJECT
from waybill.errors import ConfigurationError
from waybill.report import StageReport
from waybill.spec.file import load_migration
from waybill_airflow import demo
from waybill_airflow.demo import BROKEN, _account, _migrations
from waybill_airflow.demo_view import FAILS, Run
from waybill_airflow.local_airflow import LocalAirflow, LocalAirflowError
from waybill_airflow.rest import Client, RestError

pytestmark = pytest.mark.airflow

GOOD = "name: shop\ntags: [demo]\nsource: {files: {path: in}, envelope: canal}\n"


def test_a_broken_file_does_not_stop_the_demo(tmp_path, monkeypatch):
    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(tmp_path))
    (tmp_path / "broken.yaml").write_text("name: [\n")
    said: list[str] = []
    view = SimpleNamespace(says=said.append)
    with pytest.raises(ConfigurationError, match="has the tag demo"):
        _migrations(view)
    (tmp_path / "shop.yaml").write_text(GOOD)
    said.clear()
    by_hand = GOOD.replace("shop", "stock").replace("[demo]", "[demo-by-hand]")
    (tmp_path / "stock.yaml").write_text(by_hand)
    run, left = _migrations(view)
    assert ([spec.name for _, spec in run], left) == (["shop"], ["stock"])
    (sentence,) = said
    assert sentence.startswith(f"left out: {tmp_path / 'broken.yaml'}:")


def test_one_file_is_broken_in_the_demo_and_only_there(monkeypatch):
    """With the file, the line and the field, and without the value that the environment has."""
    monkeypatch.delenv("WAYBILL_MIGRATIONS", raising=False)
    said: list[str] = []
    view = SimpleNamespace(says=said.append)
    _migrations(view)
    assert said == [], "elsewhere every example can be used"
    (name,) = BROKEN
    monkeypatch.setenv(name, BROKEN[name])
    _migrations(view)
    (sentence,) = said
    file = PROJECT / "migrations/stock_broken.yaml"
    lines = file.read_text(encoding="utf-8").splitlines()
    line = next(number for number, text in enumerate(lines, 1) if name in text)
    assert f"{file}:{line}: publish[0].envelope" in sentence
    assert BROKEN[name] not in sentence


def airflow_with(*errors: str) -> LocalAirflow:
    """One that is healthy and has a DAG, and could not import some files."""
    broken = [{"filename": name, "stack_trace": f"{name}\nError: no"} for name in errors]
    answers = {"importErrors": {"import_errors": broken}, "dags": {"dags": [{"dag_id": "shop"}]}}
    airflow = object.__new__(LocalAirflow)
    airflow.client = SimpleNamespace(get=lambda what, **_: answers[what])
    return airflow


def test_a_file_that_is_reported_already_does_not_stop_the_demo():
    parts = ("metadatabase", "scheduler", "dag_processor")
    healthy = {part: {"status": "healthy"} for part in parts}
    one = airflow_with("/somewhere/dags/broken_migrations.py")
    assert one._missing(healthy, {"shop"}, broken=True) == ""
    with pytest.raises(
        LocalAirflowError, match=r"cannot import .*broken_migrations\.py: Error: no"
    ):
        one._missing(healthy, {"shop"}, broken=False)
    both = airflow_with("broken_migrations.py", "migrations.py")
    with pytest.raises(LocalAirflowError, match=r"cannot import migrations\.py: Error: no"):
        both._missing(healthy, {"shop"}, broken=True)


@pytest.mark.parametrize(
    ("tags", "state", "good"),
    [
        ("[demo]", "success", True),
        ("[demo]", "failed", False),
        (f"[demo, {FAILS}]", "failed", True),
        (f"[demo, {FAILS}]", "success", False),
    ],
)
def test_a_run_fails_if_it_is_there_to_fail_and_only_then(tmp_path, tags, state, good):
    file = tmp_path / "shop.yaml"
    file.write_text(GOOD.replace("[demo]", tags))
    reports = {"snapshot": StageReport("snapshot", "b", rows_in=3, rows_out=3)}
    run = Run(load_migration(file), file, "manual__1", state=state, reports=reports)
    said: list[str] = []
    view = SimpleNamespace(
        waybill=lambda _: None,
        failure=lambda *_: said.append("failed"),
        complaint=lambda _, text: said.append(text),
    )
    assert _account(SimpleNamespace(home=tmp_path), run, view) is good
    assert ("failed" in said) is (state == "failed")
    assert good or said, "it is said why"


class Pages(Client):
    """A client of which an Airflow answers lists, a few entries a page, and says what was asked."""

    def __init__(self, **lists: list[dict[str, object]]) -> None:
        super().__init__("http://nowhere")
        self.lists = lists
        self.asked: list[tuple[str, str]] = []

    def call(self, method, path, body=None):
        place, _, query = path.partition("?")
        self.asked.append((method, place))
        assert body is None
        name = "dag_runs" if place.endswith("dagRuns") else "task_instances"
        if "xcomEntries" in place:
            stage = place.split("/")[-3]
            report = StageReport(stage, "b", rows_in=3, rows_out=3)
            return {"value": report.to_dict()}
        entries = self.lists[name]
        start = int(dict(pair.split("=") for pair in query.split("&"))["offset"])
        return {name: entries[start : start + 2], "total_entries": len(entries)}


def test_all_runs_are_looked_at_together(tmp_path):
    """Two lists, whatever the number of runs; they are read, as what is posted is noted."""
    file = tmp_path / "shop.yaml"
    file.write_text(GOOD)
    spec = load_migration(file)
    shop, other = (
        Run(spec, file, "manual__1"),
        Run(spec.model_copy(update={"name": "other"}), file, "manual__1"),
    )

    def task(dag, run, stage, state):
        place = {"dag_id": dag, "dag_run_id": run, "task_id": stage}
        return {**place, "state": state, "duration": 1.5, "try_number": 1}

    client = Pages(
        dag_runs=[
            {"dag_id": "shop", "dag_run_id": "manual__0", "state": "failed"},
            {"dag_id": "shop", "dag_run_id": "manual__1", "state": "running"},
            {"dag_id": "other", "dag_run_id": "manual__1", "state": "failed"},
        ],
        task_instances=[
            task("shop", "manual__1", "snapshot", "success"),
            task("shop", "manual__0", "convert", "failed"),
            task("shop", "manual__1", "convert", None),
            task("other", "manual__1", "snapshot", "failed"),
            task("nobody_s", "manual__1", "snapshot", "failed"),
        ],
    )
    demo._look(SimpleNamespace(client=client), [shop, other])
    assert (shop.state, other.state) == ("running", "failed")
    assert shop.states == {"snapshot": "success", "convert": "waiting"}
    assert other.states == {"snapshot": "failed"}
    assert shop.reports["snapshot"].rows_out == 3
    runs = ("GET", "/api/v2/dags/~/dagRuns")
    tasks = ("GET", "/api/v2/dags/~/dagRuns/~/taskInstances")
    report = "/api/v2/dags/shop/dagRuns/manual__1/taskInstances/snapshot/xcomEntries/return_value"
    assert client.asked == [runs] * 2 + [tasks] * 3 + [("GET", report)]
    demo._look(SimpleNamespace(client=client), [shop, other])
    assert client.asked.count(("GET", report)) == 1, "a report does not change"


def test_a_database_that_is_locked_is_asked_again(tmp_path, monkeypatch):
    """SQLite lets one process write at a time, and Airflow's parts are four."""
    monkeypatch.setattr(demo.time, "sleep", lambda _: None)
    file = tmp_path / "shop.yaml"
    file.write_text(GOOD)
    asked: list[str] = []

    def answers(what: str, *statuses: int):
        left = list(statuses)

        def answer(*_place, body):
            asked.append(what)
            if left:
                raise RestError(left.pop(0), "no")
            return body

        return answer

    def airflow(patch, post):
        client = SimpleNamespace(patch=patch, post=post)
        return SimpleNamespace(client=client, check=lambda: asked.append("looked"))

    # A database that is locked for long lets a server answer too late: status 0.
    patch = answers("unpause", 500, 0)
    run = demo._trigger(airflow(patch, answers("run", 500, 409)), load_migration(file), file)
    assert asked == ["unpause", "looked", "unpause", "looked", "unpause", "run", "looked", "run"]
    assert run.run_id.startswith("manual__")
    for status in (403, 404, 409):
        with pytest.raises(RestError):
            demo._unpause(airflow(answers("unpause", status), None), "shop")
    monkeypatch.setattr(demo, "PATIENCE", -1.0)
    with pytest.raises(RestError):
        demo._unpause(airflow(answers("unpause", 500), None), "shop")
