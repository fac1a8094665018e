"""Airflow gets a home of its own before anything imports it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.airflow_home import PROJECT, remove_home


def pytest_unconfigure() -> None:
    remove_home()


MIGRATION = """\
name: {name}
description: A migration of the tests. It is small.
owner: testers
tags: [tests]
source:
  files: {{path: in, layout: lines, topic: shop}}
  envelope: oms-default
tables: {{shop.orders: {{key: [id], columns: {{id: int64}}}}}}
publish:
  - {{envelope: canal, files: {{path: out}}}}
lake: {{warehouse: lake}}
"""


@pytest.fixture
def migrations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes a migration file into a folder that stands for the migrations folder."""
    folder = tmp_path / "migrations"
    folder.mkdir()
    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(folder))

    def write(name: str, more: str = "", text: str | None = None, file: str | None = None) -> Path:
        path = folder / (file or f"{name}.yaml")
        content = MIGRATION.format(name=name) + more if text is None else text
        path.write_text(content, encoding="utf-8")
        return path

    return write


FAKE = '''
"""Stands for a stage: does what FAKE_STAGES says and tells what it was asked."""
import json, os, pathlib, sys

from waybill.report import StageReport

stage = {stage!r}
words = [word for word in sys.argv[1:] if word != "--drop-held"]
given = dict(zip(words[::2], words[1::2]))
if "--drop-held" in sys.argv:
    given["--drop-held"] = "yes"
with open(os.environ["FAKE_CALLS"], "a") as calls:
    calls.write(json.dumps([stage, given]) + "\\n")
print("the", stage, "stage goes on")
acts = json.loads(os.environ.get("FAKE_STAGES", "{{}}"))
act = acts.get(stage, "report")
if "--decision" in given:
    act = acts.get(stage + " decided", "report")
result = pathlib.Path(given["--result"])
if act == "report":
    report = StageReport(stage=stage, batch=given["--batch"], rows_in=7, rows_out=7)
    result.write_text(json.dumps({{"report": report.to_dict()}}))
elif act != "silent" and "tells" in act:
    report = StageReport(stage=stage, batch=given["--batch"], **act["tells"])
    result.write_text(json.dumps({{"report": report.to_json_safe()}}))
elif act == "kill":
    os.kill(os.getpid(), 9)
elif act != "silent":
    said = {{"report": act.pop("report")}} if "report" in act else {{}}
    result.write_text(json.dumps({{"error": act, **said}}))
    sys.exit(act["exit_code"])
'''


SUBMIT = f"""\
#!/bin/sh
# Stands for spark-submit: starts the script as it does, but by no Java.
for word; do
    shift
    case $word in *.py) exec "{sys.executable}" "$word" "$@" ;; esac
done
exit 64
"""


@pytest.fixture
def fake_stages(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """Puts scripts in the place of the stages' own; they report, or do what they are told.

    Only a test that is marked `spark` has the real spark-submit start them: its two Javas, of which
    nothing is asked, take longer than all the rest of a task.

    Returns a function that says what one stage shall do, and without arguments tells all calls.
    """
    from waybill_airflow.operators import SCRIPTS

    folder, calls = tmp_path / "jobs", tmp_path / "calls.jsonl"
    folder.mkdir()
    if request.node.get_closest_marker("spark") is None:
        submit = tmp_path / "bin" / "spark-submit"
        submit.parent.mkdir()
        submit.write_text(SUBMIT)
        submit.chmod(0o755)
        monkeypatch.setenv("PATH", str(submit.parent), prepend=os.pathsep)
    for stage, script in SCRIPTS.items():
        (folder / script).write_text(FAKE.format(stage=stage), encoding="utf-8")
    monkeypatch.setenv("WAYBILL_SPARK_JOBS", str(folder))
    monkeypatch.setenv("FAKE_CALLS", str(calls))
    monkeypatch.setenv("PYTHONPATH", str(PROJECT / "spark_jobs"))
    acts: dict[str, Any] = {}

    def tell(stage: str | None = None, act: Any = "report") -> list[Any]:
        if stage is not None:
            acts[stage] = act
            monkeypatch.setenv("FAKE_STAGES", json.dumps(acts))
        text = calls.read_text(encoding="utf-8") if calls.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    return tell


# The pages of the plugin, asked as Airflow's web server asks them.


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Migrations in every state."""
    from tests.dags.showcase import Showcase

    showcase = Showcase(tmp_path_factory.mktemp("pages"))
    showcase.all_states()
    return showcase


@pytest.fixture
def manager(shown, monkeypatch):
    """Who may see what."""
    from airflow.api_fastapi.core_api import security

    from tests.dags.asking import Manager
    from waybill_airflow.web import rights

    found = Manager()
    found.known = {path.stem for path in shown.migrations.iterdir()}
    for module in (security, rights):
        monkeypatch.setattr(module, "get_auth_manager", lambda: found)
    no_team = SimpleNamespace(
        get_team_name=lambda _dag_id: None,
        get_dag_id_to_team_name_mapping=lambda _dag_ids: {},
    )
    for module in (security, rights):
        monkeypatch.setattr(module, "DagModel", no_team)
    return found


@pytest.fixture
def runs(monkeypatch):
    """What Airflow knows: DAGs by their id, and runs by theirs."""
    from tests.dags.asking import FAILED
    from waybill_airflow.web import (
        app,
        batch_view,
        failed_batches,
        migration_view,
        migrations_view,
    )
    from waybill_airflow.web.airflow_runs import DagFacts

    known = SimpleNamespace(dags={"parcels_failing": DagFacts(last=FAILED)}, runs={}, tasks={})

    def facts(dag_ids):
        return {dag_id: known.dags.get(dag_id, DagFacts()) for dag_id in dag_ids}

    for module in (migrations_view, migration_view):
        monkeypatch.setattr(module, "dag_facts", facts)
    monkeypatch.setattr(app, "run_of", lambda dag_id, run_id: known.runs.get((dag_id, run_id)))

    def by_batch(dag_id, _limit):
        return {run.batch: run for (of, _), run in known.runs.items() if of == dag_id}

    for module in (batch_view, failed_batches):
        monkeypatch.setattr(module, "runs_by_batch", by_batch)
    monkeypatch.setattr(batch_view, "task_states", lambda _dag_id, _run_id: known.tasks)
    return known


@pytest.fixture
def made(shown, monkeypatch):
    """The application over the migrations."""
    from waybill_airflow.web import app

    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(shown.migrations))
    return app.make_app()


@pytest.fixture
def client(made, manager, runs, airflow_home):
    """Somebody who is logged in."""
    from airflow.api_fastapi.core_api import security
    from fastapi.testclient import TestClient

    made.dependency_overrides[security.get_user] = lambda: SimpleNamespace(
        name="ann", get_name=lambda: "ann"
    )
    return TestClient(made)
